"""The search for ranks: from wishes to a Plan."""

from fedconformal.planning._draft import draft_private
from fedconformal.planning._each_site import each_site
from fedconformal.planning._plan import InfeasibleWarning, plan, solve_server_rank
from fedconformal.planning._private import solve_private_rank
from fedconformal.planning._search import Goal

__all__ = [
    "Goal",
    "InfeasibleWarning",
    "draft_private",
    "each_site",
    "plan",
    "solve_private_rank",
    "solve_server_rank",
]
