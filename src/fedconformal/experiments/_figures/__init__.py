"""One function per figure of the paper: rows of a study in, a matplotlib figure out."""

from fedconformal.experiments._figures._authors import authors
from fedconformal.experiments._figures._boxes import coverage, dataset, private
from fedconformal.experiments._figures._heterogeneity import heterogeneity
from fedconformal.experiments._figures._hospitals import hospitals
from fedconformal.experiments._figures._intervals import intervals
from fedconformal.experiments._figures._laws import compensation, curves, heat_map, upper_bounds
from fedconformal.experiments._figures._schools import schools
from fedconformal.experiments._figures._style import style

__all__ = [
    "authors",
    "compensation",
    "coverage",
    "curves",
    "dataset",
    "heat_map",
    "heterogeneity",
    "hospitals",
    "intervals",
    "private",
    "schools",
    "style",
    "upper_bounds",
]
