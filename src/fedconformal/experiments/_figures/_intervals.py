"""Intervals on the Poisson process: the paper's figure 3, and the one with unbalanced sites."""

from matplotlib.figure import Figure

from fedconformal.experiments._figures._style import colour, panels, styled
from fedconformal.experiments._store import Rows, distinct, select
from fedconformal.plots.style import GREY

_LINES = {"FedCP-QQ": "-", "FedCP-QQ stable": "-.", "Centralised": "--", "FedCP-Avg": ":"}


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
    figure, ((axes,),) = panels(1, 1, (6.4, 4.0))
    points = select(rows, method=distinct(rows, "method")[0])
    axes.plot([p["x"] for p in points], [p["y"] for p in points], ".", color=GREY, alpha=0.35, markersize=4,
              label="test points")  # fmt: skip
    for method in distinct(rows, "method"):
        line = select(rows, method=method)
        x = [row["x"] for row in line]
        name = f"{method}: coverage {line[0]['coverage']:.3f}, length {line[0]['length']:.2f}"
        for end in ("lower", "upper"):
            axes.plot(
                x,
                [row[end] for row in line],
                _LINES.get(method, "-"),
                color=colour(method),
                linewidth=1.1,
                label=name if end == "lower" else None,
            )
    low, high = -2.5, 7.0
    axes.set(xlabel="x", ylabel="y", xlim=(1, 5), ylim=(low, high))
    axes.legend(loc="upper right", fontsize="small", frameon=True, framealpha=0.9)
    return figure
