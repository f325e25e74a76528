"""From wishes to a design: which ranks each site sends, and how many votes the server needs.

`Design` is the one object between planning and everything else. `criteria` and `promises` hold a class for
each choice.
"""

from fedconformal.planning._cases import Cases
from fedconformal.planning._design import Advice, Block, Design, Guarantee, Sending, Sites, merged
from fedconformal.planning._exact import Exact
from fedconformal.planning._goal import Goal
from fedconformal.planning._own_quantile import rank_above
from fedconformal.planning._private import Private
from fedconformal.planning._rule import MOST_NUMBERS, RankRule, usual_spacing
from fedconformal.planning.criteria import CRITERIA, Criterion
from fedconformal.planning.promises import PROMISES, Promise

__all__ = [
    "CRITERIA",
    "MOST_NUMBERS",
    "PROMISES",
    "Advice",
    "Block",
    "Cases",
    "Criterion",
    "Design",
    "Exact",
    "Goal",
    "Guarantee",
    "Private",
    "Promise",
    "RankRule",
    "Sending",
    "Sites",
    "merged",
    "rank_above",
    "usual_spacing",
]
