"""Criteria: what makes a choice of ranks valid, and which valid choice is best. A class each."""

from fedconformal.planning.criteria._base import CRITERIA, Criterion, ExactLaw, Outcomes, Wanted
from fedconformal.planning.criteria._conditional import Conditional
from fedconformal.planning.criteria._marginal import Marginal
from fedconformal.planning.criteria._stable import Stable
