"""From wishes to a design: which ranks each site sends, and how many votes the server needs.

`Design` is the one object between planning and everything else. `criteria` and `promises` hold a class for
each choice.
"""

from fedconformal.planning._design import Advice, Block, Design, Sending, Sites, merged
from fedconformal.planning._draft import draft_private
from fedconformal.planning._exact import Exact
from fedconformal.planning._goal import Goal
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
    "Criterion",
    "Design",
    "Exact",
    "Goal",
    "Private",
    "Promise",
    "RankRule",
    "Sending",
    "Sites",
    "draft_private",
    "merged",
    "usual_spacing",
]
