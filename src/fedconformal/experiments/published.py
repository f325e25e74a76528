"""``python -m fedconformal.experiments.published docs`` makes pages and figures again from published rows.

The fits of a full run are too large to publish; its rows are not. This makes ``results.md``, ``results.csv``
and the figures of the rows again, after a change of how they are written or drawn. What the rows say changes
with ``make results`` alone.
"""

import argparse
import gzip
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from fedconformal._extras import need
from fedconformal._outputs import write_text
from fedconformal.experiments._data import DATA_SETS
from fedconformal.experiments._page import write_figure
from fedconformal.experiments._protocol import PRIVATE
from fedconformal.experiments._results import markdown
from fedconformal.experiments._store import Rows
from fedconformal.experiments._studies import STUDIES
from fedconformal.experiments._summary import summarise

SPLITS, MEANS, RUNS, PAGE = "results-splits.csv.gz", "results.csv", "results-runs.json", "results.md"
COMPENSATION = "results-compensation.csv"


def read_splits(folder: Path) -> Rows:
    """The published rows of every split.

    Parameters
    ----------
    folder : Path
        That of the documentation.

    Returns
    -------
    list of dict
    """
    return _read(io.BytesIO(gzip.decompress((folder / SPLITS).read_bytes())))


def read_table(path: Path) -> Rows:
    """A published table.

    Parameters
    ----------
    path : Path
        Of a CSV file.

    Returns
    -------
    list of dict
    """
    return _read(path)


def _read(source: Path | IO[bytes]) -> Rows:
    rows: Rows = need("polars", extra="experiments").read_csv(source, infer_schema_length=None).to_dicts()
    return rows


def published_rows(folder: Path) -> dict[str, Rows]:
    """The rows of each study whose figure can be drawn from what is published.

    Parameters
    ----------
    folder : Path
        That of the documentation.

    Returns
    -------
    dict
        From the names of studies to rows.
    """
    splits = read_splits(folder)
    compared = [row for row in splits if row["scenario"] != PRIVATE]
    return {
        "compensation": read_table(folder / COMPENSATION),
        "coverage": compared,
        **{name: [row for row in compared if row["dataset"] == name] for name in DATA_SETS},
        "private": [row for row in splits if row["scenario"] == PRIVATE],
    }


def page(folder: Path) -> str:
    """The results page as the published rows give it.

    Parameters
    ----------
    folder : Path
        That of the documentation.

    Returns
    -------
    str
        Markdown.
    """
    runs: list[dict[str, Any]] = json.loads((folder / RUNS).read_text(encoding="utf-8"))
    return markdown(read_splits(folder), quick=False, runs=runs)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page, the means and the figures of the published rows.

    Parameters
    ----------
    arguments : sequence of str, optional
        Of the command line.
    """
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path, help=f"where {SPLITS} lies")
    folder: Path = parser.parse_args(arguments).folder
    write_text(folder / PAGE, page(folder), force=True)
    means = need("polars", extra="experiments").DataFrame(
        summarise(read_splits(folder)), infer_schema_length=None
    )
    write_text(folder / MEANS, means.write_csv(), force=True)
    for name, rows in published_rows(folder).items():
        write_figure(folder / "figures" / f"{name}.png", STUDIES[name].draw(rows), rows)


if __name__ == "__main__":
    main()
