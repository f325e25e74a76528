"""What a reader gets: figures in three formats, and one HTML page that holds all of them."""

import base64
from collections.abc import Mapping
from functools import partial
from html import escape
from pathlib import Path
from textwrap import shorten

from matplotlib.figure import Figure

from fedconformal._outputs import write_atomically, write_text
from fedconformal.experiments import _figures as figures
from fedconformal.experiments._cases import cases_page
from fedconformal.experiments._results import markdown
from fedconformal.experiments._runs import recorded_runs
from fedconformal.experiments._store import Rows, Store, distinct
from fedconformal.experiments._studies import HOSPITALS, SCHOOLS, Study
from fedconformal.experiments._summary import by_split, fingerprint, plans, summarise

FORMATS = ("svg", "pdf", "png")
ROWS_KEY, PLANS_KEY = "Source rows", "Source plans"
"""Under which a PNG keeps the fingerprints of what it shows."""
_MEASURED = {
    "coverage",
    "length",
    "threshold",
    "fit_seconds",
    "x",
    "y",
    "lower",
    "upper",
    "split",
    "chosen_by",
    "quick",
}
_TITLE = "One-shot federated conformal prediction: the paper's figures, again"
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1080px; margin: 2em auto; padding: 0 1em }
h1, h2, p { overflow-wrap: anywhere } .wide { overflow-x: auto } .quick { font-weight: bold }
img { max-width: 100%; height: auto } table { border-collapse: collapse; font-size: 13px }
td, th { padding: .15em .7em; border-bottom: 1px solid #ddd; text-align: right }
td:first-child, th:first-child { text-align: left } .settings { color: #555; font-size: 13px }
details { margin: .5em 0 }
"""
_QUICK = "A quick look: small models and few splits, not for a comparison."
_LONGEST = 60  # characters of a setting that are shown


def save_figure(store: Store, name: str, figure: Figure, rows: Rows) -> list[Path]:
    """Write a figure as SVG, PDF and PNG.

    Parameters
    ----------
    store : Store
        The folder.
    name : str
        Name of the study.
    figure : matplotlib.figure.Figure
        What is written; the same results give the same files.
    rows : list of dict
        What it shows.

    Returns
    -------
    list of Path
        The files.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from matplotlib.figure import Figure
    >>> from fedconformal.experiments import Store, save_figure
    >>> with TemporaryDirectory() as folder:
    ...     files = save_figure(Store(Path(folder)), "mine", Figure(figsize=(1, 1)), [{"coverage": 0.91}])
    ...     print([path.name for path in files])
    ['mine.svg', 'mine.pdf', 'mine.png']
    """
    paths = [store.folder / "figures" / f"{name}.{kind}" for kind in FORMATS]
    for path in paths:
        write_figure(path, figure, rows)
    return paths


def write_figure(path: Path, figure: Figure, rows: Rows) -> None:
    """Write a figure; a PNG says which rows and which plans it was drawn from.

    Parameters
    ----------
    path : Path
        Its suffix says which of `FORMATS`.
    figure : matplotlib.figure.Figure
        What is written.
    rows : list of dict
        What it shows.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Without a date the same results give the same file.
    metadata = {
        ".svg": {"Date": None},
        ".pdf": {"CreationDate": None},
        ".png": {ROWS_KEY: fingerprint(rows), PLANS_KEY: fingerprint(plans(rows))},
    }[path.suffix]
    with figures.style():
        write_atomically(path, partial(figure.savefig, metadata=metadata), force=True)


def save_page(store: Store, studies: Mapping[str, Study]) -> Path:
    """Write index.html: every study that has results, with its settings and its means.

    Parameters
    ----------
    store : Store
        The folder, with results and figures.
    studies : mapping from str to Study
        What to look for.

    Returns
    -------
    Path
        The page.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from matplotlib.figure import Figure
    >>> from fedconformal.experiments import Store, Study, save_figure, save_page
    >>> rows = [{"method": "FedCP-QQ", "coverage": 0.91}]
    >>> study = Study("Coverage", "mine", lambda settings: rows, lambda rows: Figure(figsize=(1, 1)))
    >>> with TemporaryDirectory() as folder:
    ...     store = Store(Path(folder))
    ...     store.save_results("mine", rows)
    ...     files = save_figure(store, "mine", study.draw(rows), rows)
    ...     page = save_page(store, {"mine": study})
    ...     print(page.name, "<td>0.9100</td>" in page.read_text())
    index.html True
    """
    found = {name: store.read_results(name) for name in studies if store.results_path(name).exists()}
    quick = {name: is_quick(rows) for name, rows in found.items()}
    mixed = len(set(quick.values())) > 1
    sections = [
        _section(name, studies[name], rows, store.folder / "figures", said=mixed and quick[name])
        for name, rows in found.items()
    ]
    html = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{_TITLE}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style><h1>{_TITLE}</h1>"
        f"{_quick_words(any(quick.values()))}"
        f"{''.join(sections)}</html>\n"
    )
    store.folder.mkdir(parents=True, exist_ok=True)
    path = store.folder / "index.html"
    write_text(path, html, force=True)
    return path


def is_quick(rows: Rows) -> bool:
    """Whether any of the rows is from a quick look, and a page with them must say so.

    Parameters
    ----------
    rows : list of dict
        As the store keeps them.

    Returns
    -------
    bool
    """
    return any(row.get("quick") for row in rows)


def _quick_words(quick: bool) -> str:
    return f'<p class="quick">{_QUICK}</p>' if quick else ""


def save_summary(store: Store, studies: Mapping[str, Study]) -> Path | None:
    """Write results.md and its numbers: summary.csv, and splits.csv.gz with every split.

    Parameters
    ----------
    store : Store
        The folder, with results.
    studies : mapping from str to Study
        What to look for; those that are summarised count.

    Returns
    -------
    Path or None
        The page; None if no such study was run.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from fedconformal.experiments import STUDIES, Ridge, Store, poisson, run, save_summary
    >>> with TemporaryDirectory() as folder:
    ...     store = Store(Path(folder))
    ...     print(save_summary(store, STUDIES))
    ...     rows = run([poisson(100, 200, 100)], [Ridge()], store=store, n_splits=2, jobs=1)
    ...     store.save_results("coverage", rows)
    ...     print(save_summary(store, STUDIES).name)
    ...     print(*sorted(path.name for path in store.results_path("coverage").parent.iterdir()))
    None
    results.md
    coverage.csv coverage.parquet runs.json splits.csv.gz summary.csv summary.parquet
    """
    rows = [row for name, study in studies.items() if study.summarised for row in store.read_results(name)]
    if not rows:
        return None
    quick, rows = is_quick(rows), by_split(rows)
    store.save_results("summary", summarise(rows))
    store.save_compressed("splits", rows)
    path = store.folder / "results.md"
    write_text(path, markdown(rows, quick=quick, runs=recorded_runs(store)), force=True)
    return path


def save_cases(store: Store) -> Path | None:
    """Write cases.md, the page of the case studies.

    Parameters
    ----------
    store : Store
        The folder, with results.

    Returns
    -------
    Path or None
        The page; None if no case study was run.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from fedconformal.experiments import Store, save_cases
    >>> with TemporaryDirectory() as folder:
    ...     print(save_cases(Store(Path(folder))))  # before 'fedconformal reproduce schools', say
    None
    """
    found = [store.read_results(name) for name in (HOSPITALS, SCHOOLS)]
    if not any(found):
        return None
    path = store.folder / "cases.md"
    write_text(path, cases_page(*found, quick=any(map(is_quick, found))), force=True)
    return path


def _section(name: str, study: Study, rows: Rows, folder: Path, *, said: bool) -> str:
    image = base64.b64encode((folder / f"{name}.svg").read_bytes()).decode()
    return (
        f'<h2 id="{escape(name)}">{escape(study.title)}</h2>{_quick_words(said)}'
        f'<p class="settings">{escape(study.figure)}. {escape(describe(rows))}</p>'
        f'<img alt="{escape(study.title)}" src="data:image/svg+xml;base64,{image}">'
        f"{_means(rows)}"
    )


def describe(rows: Rows) -> str:
    """The settings in the rows: every column that was not measured, with its values if they are few.

    Parameters
    ----------
    rows : list of dict
        What a study found.

    Returns
    -------
    str
        A line.
    """
    words = []
    for column in rows[0]:
        values = [value for value in distinct(rows, column) if value is not None]
        if column not in _MEASURED and values:
            if len(values) > 6:
                values = [f"{values[0]} to {values[-1]}"]
            shown = ", ".join(shorten(str(value), _LONGEST, placeholder=" ...") for value in values)
            words.append(f"{column} {shown}")
    splits = f"{len(distinct(rows, 'split'))} splits; " if "split" in rows[0] else ""
    return splits + "; ".join(words)


def _means(rows: Rows) -> str:
    """The table of means, for a study that has splits; coverage and length of each method otherwise."""
    if "coverage" not in rows[0]:
        return ""
    if "split" in rows[0]:
        found = summarise(rows)
    elif "method" in rows[0]:
        found = list({row["method"]: row for row in rows}.values())
    else:
        return ""
    columns = [c for c in ("dataset", "model", "scenario", "n_sites", "n_points", "method", "epsilon",
                           "coverage", "coverage_std", "length") if c in found[0]]  # fmt: skip
    head = "".join(f"<th>{column}</th>" for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(_cell(row[column]))}</td>" for column in columns) + "</tr>"
        for row in found
    )
    table = f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'
    return f"<details><summary>Means</summary>{table}</details>"


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if isinstance(value, float) else str(value)
