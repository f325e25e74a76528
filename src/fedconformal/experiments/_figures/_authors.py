"""The authors' published means beside ours: rings and dots that should lie in one another."""

from matplotlib.figure import Figure

from fedconformal.experiments._figures._style import below, colour, panels, styled, target
from fedconformal.experiments._store import Rows, distinct, mean, select


@styled
def authors(rows: Rows) -> Figure:
    """Coverage and length by data set and method: theirs as rings, ours as dots.

    Parameters
    ----------
    rows : list of dict
        What the study found.

    Returns
    -------
    matplotlib.figure.Figure
        Two panels.
    """
    figure, ((left, right),) = panels(1, 2, (9.6, 3.8))
    names, methods = distinct(rows, "dataset"), distinct(rows, "method")
    for axes, column in ((left, "coverage"), (right, "length")):
        for i, name in enumerate(names):
            for j, method in enumerate(methods):
                found = select(rows, dataset=name, method=method)
                place = i + (j - (len(methods) - 1) / 2) * 0.18
                label = method if i == 0 else None
                axes.plot(place, mean(found, column), "o", markersize=5, color=colour(method), label=label)
                if found[0][f"published_{column}"] is not None:
                    axes.plot(place, found[0][f"published_{column}"], "o", markersize=11, color="black",
                              markerfacecolor="none")  # fmt: skip
        federations = [select(rows, dataset=name)[0]["n_points"] for name in names]
        labels = [f"{name}\n10 x {n}" for name, n in zip(names, federations, strict=True)]
        axes.set_xticks(range(len(names)), labels)
    target(left, 100 * rows[0]["confidence_level"])
    runs = len(distinct(rows, "seed"))
    left.set(ylabel="coverage, %", title=f"ridge, means over {runs} of the authors' 20 runs")
    right.set(ylabel="length", title="dots: ours; rings: published by the authors")
    below(figure, left, 5)
    return figure
