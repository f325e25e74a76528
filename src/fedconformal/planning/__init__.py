"""From options to designs: criteria, promises, and the search for ranks and votes."""

from fedconformal.planning._ballot import Ballot, Guarantee, Solution
from fedconformal.planning._choosing import smallest
from fedconformal.planning._rule import rank_above, ranks_of_rule, usual_spacing
from fedconformal.planning.criteria import CRITERIA, Criterion, Goal
from fedconformal.planning.promises import PROMISES, Promise

__all__ = ["CRITERIA", "PROMISES", "Criterion", "Goal", "Guarantee", "Promise"]
