"""The schools: coverage at schools that were not there, and what it costs in width."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fedconformal.experiments import _schools as study
from fedconformal.experiments._figures._style import panels, styled
from fedconformal.experiments._store import Rows, select
from fedconformal.plots.style import BLUE, GREEN, GREY, VERMILION


@styled
def schools(rows: Rows) -> Figure:
    """Mean coverage over new schools, how single schools fare, and the width of the intervals.

    Parameters
    ----------
    rows : list of dict
        What the study found.

    Returns
    -------
    matplotlib.figure.Figure
        Three panels with a line for each method.
    """
    found = study.findings(rows)
    figure, grid = panels(1, 3, (11.0, 0.42 * len(found) + 1.5), sharey=True, width_ratios=(1.0, 1.5, 0.8))
    mean, single, width = grid[0]
    for line, finding in enumerate(found):
        kept = GREEN if finding.holds else VERMILION
        if finding.share is None:
            error = 3 * finding.error
            mean.errorbar(finding.coverage, line, xerr=error, fmt="o", color=kept, capsize=3, markersize=5)
            mean.plot([finding.level] * 2, [line - 0.35, line + 0.35], color="black", linewidth=1.2)
        else:
            words = f"promise: {finding.share:.0%} of schools at {finding.level:.0%}"
            mean.text(0.5, line, words, ha="center", va="center", fontsize="x-small", color=kept,
                      transform=mean.get_yaxis_transform())  # fmt: skip
        _schools(single, line, finding, select(rows, method=finding.method))
        _width(width, line, finding)
    mean.set(title="mean over new schools (bar: 3 errors)", xlabel="coverage", yticks=range(len(found)),
             yticklabels=[f.method for f in found])  # fmt: skip
    mean.invert_yaxis()
    mean.set_xlim(0.86, 1.005)
    single.set(
        title="each new school: middle half, 5 to 95 %, those below", xlabel="counted coverage of a school"
    )
    single.set_xlim(0.55, 1.13)
    single.set_xticks(np.arange(0.6, 1.01, 0.1))
    widest = max(f.width for f in found if np.isfinite(f.width))
    width.set(title="width of intervals", xlim=(0, 1.25 * widest))
    draws = len({row["draw"] for row in rows})
    figure.suptitle(
        f"50 schools calibrate, 15 new ones, {draws} draws; black: the level asked for", fontsize="medium"
    )
    return figure


def _schools(axes: Any, line: int, finding: study.Finding, rows: Rows) -> None:
    shares = [row["covered"] / row["n"] for row in rows]
    low, first, last, high = np.quantile(shares, [0.05, 0.25, 0.75, 0.95])
    axes.plot([low, high], [line] * 2, color=GREY, linewidth=1.5)
    axes.plot([first, last], [line] * 2, color=BLUE, linewidth=7, solid_capstyle="butt")
    axes.plot([finding.level] * 2, [line - 0.35, line + 0.35], color="black", linewidth=1.2)
    axes.text(1.02, line, f"{finding.below:.0%} below", va="center", fontsize="small")


def _width(axes: Any, line: int, finding: study.Finding) -> None:
    if not np.isfinite(finding.width):
        axes.text(0.05, line, "infinite", va="center", fontsize="small")
        return
    axes.barh(line, finding.width, color=BLUE, height=0.55)
    axes.text(finding.width, line, f" {finding.width:.2f}", va="center", fontsize="small")
