"""Promises: whose new points are covered, and what that asks of the ranks. A class each."""

from fedconformal.planning.promises._base import PROMISES, Promise
from fedconformal.planning.promises._each_site import EachSite, own_goal
from fedconformal.planning.promises._mixture import (
    Mixture,
    check_shares,
    common_denominator,
    floor_votes,
    with_shares,
)
from fedconformal.planning.promises._new_site import NewSite
from fedconformal.planning.promises._population import Population
