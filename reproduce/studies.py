"""The list of studies, a figure each."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from reproduce import appendix_a2_array as array
from reproduce import appendix_b2_private as private
from reproduce import (
    authors,
    bounds,
    conditional,
    drawing,
    heterogeneity,
    hospitals,
    numbers,
    open_questions,
    risk,
    schools,
)
from reproduce import figure_1_upper_bounds as figure_1
from reproduce import figure_2_compensation as figure_2
from reproduce import figure_3_intervals as figure_3
from reproduce import figure_4_coverage as figure_4
from reproduce.data import DATA_SETS, available
from reproduce.protocol import Settings


@dataclass(frozen=True)
class Study:
    """A figure: its place in the paper, its title, how it is computed and drawn, and
    the data it needs.
    """

    place: str
    title: str
    compute: Callable[[Settings], pd.DataFrame]
    draw: Callable[[pd.DataFrame], Figure]
    needs: tuple[str, ...] = ()

    def missing(self, settings: Settings) -> list[str]:
        """Return the data sets that are needed and not here."""
        return (
            []
            if settings.download
            else [name for name in self.needs if not available(name)]
        )

    def save_figure(self, path: Path, rows: pd.DataFrame) -> None:
        """Draw and save; a PNG keeps fingerprints of the rows and plans that it
        shows.
        """
        with drawing.style():
            figure = self.draw(rows)
            path.parent.mkdir(parents=True, exist_ok=True)
            shown = {
                "Source rows": fingerprint(rows),
                "Source plans": fingerprint(plans(rows)),
            }
            figure.savefig(
                path,
                metadata=shown if path.suffix == ".png" else {"CreationDate": None},
            )


STUDIES = {
    "upper-bounds": Study(
        "figure 1", "Coverage and upper bounds", figure_1.compute, figure_1.draw
    ),
    "compensation": Study(
        "figure 2", "Coverage after compensation", figure_2.compute, figure_2.draw
    ),
    "intervals": Study(
        "figure 3", "Intervals, equal sites", figure_3.compute, figure_3.draw
    ),
    "coverage": Study(
        "figure 4", "Coverage over all data sets", figure_4.compute, figure_4.draw
    ),
    "heterogeneity": Study(
        "section 3.5", "Sites that differ", heterogeneity.compute, heterogeneity.draw
    ),
    "unbalanced": Study(
        "appendix A.1",
        "Intervals, sites of different sizes",
        figure_3.compute_unbalanced,
        figure_3.draw,
    ),
    "heat-map": Study(
        "appendix A.2", "The array M", array.compute_heat_map, array.draw_heat_map
    ),
    "curves": Study(
        "appendix A.2", "M by local rank", array.compute_curves, array.draw_curves
    ),
    **{
        name: Study(
            "appendix B.1",
            f"{name}: coverage and length",
            partial(figure_4.compute_dataset, name=name),
            figure_4.draw_dataset,
            needs=(name,),
        )
        for name in DATA_SETS
    },
    "private": Study(
        "appendix B.2", "Private calibration", private.compute, private.draw
    ),
    "authors": Study(
        "published",
        "Ridge, theirs and ours",
        authors.compute,
        authors.draw,
        tuple(authors.SIZES),
    ),
    "numbers": Study(
        "not in it", "Several numbers from each site", numbers.compute, numbers.draw
    ),
    "conditional": Study(
        "follow-up",
        "Training-conditional coverage",
        conditional.compute,
        conditional.draw,
    ),
    "open-questions": Study(
        "not in it",
        "Questions that the paper leaves open",
        open_questions.compute,
        open_questions.draw,
    ),
    "bounds": Study(
        "section 3.3", "Upper bounds that are proved", bounds.compute, bounds.draw
    ),
    "risk": Study(
        "not in it", "Risk as coverage of a randomised score", risk.compute, risk.draw
    ),
    "hospitals": Study(
        "case study",
        "Four hospitals that differ",
        hospitals.compute,
        hospitals.draw,
        needs=("hospitals",),
    ),
    "schools": Study(
        "case study", "65 schools, 15 of them new", schools.compute, schools.draw
    ),
}


# -- fingerprints --

NOT_SHOWN = [
    "fit_seconds",
    "n_calibration",
    "n_test",
    "n_train",
    "quick",
    "settings",
    "version",
]


def fingerprint(rows: pd.DataFrame) -> str:
    """Return a hash of rows to six digits, independent of their order and of columns
    that no figure shows.
    """
    records = rows.drop(columns=NOT_SHOWN, errors="ignore").to_dict("records")
    lines = [
        json.dumps({c: _six_digits(v) for c, v in row.items()}, sort_keys=True)
        for row in records
    ]
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def _six_digits(value):
    if pd.isna(value):
        return None
    # To ten digits first, as published, so that a published table has the same
    # fingerprint.
    return f"{float(f'{value:.10g}'):.6g}" if isinstance(value, float) else value


def plans(rows: pd.DataFrame) -> pd.DataFrame:
    """Return each pair of a method and its plan once; none for a study without
    plans.
    """
    if not {"method", "plan"} <= set(rows):
        return pd.DataFrame()
    return rows[["method", "plan"]].dropna().drop_duplicates()
