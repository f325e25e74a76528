"""Intervals on the Poisson process: the paper's figure 3, and the one with unbalanced sites."""

from typing import Any

from matplotlib.figure import Figure

from fedconformal.experiments import _methods as methods
from fedconformal.experiments._figures._style import colour, curve, panels, styled
from fedconformal.experiments._store import Rows, distinct, select
from fedconformal.plots.style import GREY

_LINES: dict[str, tuple[str, float]] = {
    methods.QQ: ("-", 4.0),
    methods.STABLE: ("-", 2.0),
    methods.THREE: ((0, (1, 3)), 2.0),  # type: ignore[dict-item]
    methods.CENTRALISED: ("--", 1.0),
    methods.AVERAGE: ("-", 1.2),
    methods.AVERAGE_NEXT: ("--", 1.2),
}
"""Dashes and width: methods that agree lie on one another, the wider below, so that each shows."""
_LOW, _HIGH = -2.5, 7.0


@styled
def intervals(rows: Rows) -> Figure:
    """Test points, and the ends of each method's intervals; its coverage and length are in the key.

    Parameters
    ----------
    rows : list of dict
        What the study found.

    Returns
    -------
    matplotlib.figure.Figure
        One panel.
    """
    figure, ((axes,),) = panels(1, 1, (7.0, 5.0))
    points = select(rows, method=distinct(rows, "method")[0])
    axes.plot([p["x"] for p in points], [p["y"] for p in points], ".", color=GREY, alpha=0.35, markersize=4,
              label="test points")  # fmt: skip
    for method in distinct(rows, "method"):
        line = select(rows, method=method)
        dashes, width = _LINES.get(method, ("-", 1.1))
        for end in ("lower", "upper"):
            curve(
                axes,
                line,
                "x",
                end,
                linestyle=dashes,
                color=colour(method),
                linewidth=width,
                label=_words(line) if end == "lower" else None,
            )
    axes.set(xlabel="x", ylabel="y", xlim=(1, 5), ylim=(_LOW, _HIGH), title=_settings(rows[0]))
    figure.legend(loc="outside lower center", ncols=2, fontsize="x-small")
    return figure


def _words(line: Rows) -> str:
    first = line[0]
    words = f"{first['method']}: coverage {first['coverage']:.3f}, length {first['length']:.2f}"
    beyond = max(row["lower"] for row in line) < _LOW
    return words + (", lower end below" if beyond else "")


def _settings(row: dict[str, Any]) -> str:
    sizes = f"{row['smallest_site']}"
    if row["smallest_site"] != row["largest_site"]:
        sizes += f" to {row['largest_site']}"
    federation = f"m = {row['n_sites']}, n = {sizes}, $\\alpha$ = {1 - row['confidence_level']:.2g}"
    return f"{federation}; CQR with a quantile forest of {row['n_trees']} trees"
