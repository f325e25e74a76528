"""From options to designs: criteria, promises, and the search for ranks and votes."""

from fedconformal.planning._advice import smallest
from fedconformal.planning._ballot import Ballot, Guarantee, Solution
from fedconformal.planning._goal import Goal
from fedconformal.planning._own_quantile import rank_above
from fedconformal.planning._rule import ranks_of_rule, usual_spacing
from fedconformal.planning.criteria import CRITERIA, Criterion
from fedconformal.planning.promises import PROMISES, Promise

__all__ = ["CRITERIA", "PROMISES", "Criterion", "Goal", "Guarantee", "Promise"]
