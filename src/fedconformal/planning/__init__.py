"""From options to designs: criteria, promises, and the search for ranks and votes."""

from fedconformal.planning._ballot import Ballot, Guarantee, Solution
from fedconformal.planning._choosing import smallest
from fedconformal.planning._mixture import Mixture
from fedconformal.planning._new_site import NewSite
from fedconformal.planning._scope import PromiseScope
from fedconformal.planning.criteria import CRITERIA, Criterion, Goal
from fedconformal.planning.promises import (
    PROMISES,
    EachSite,
    EachSiteGuarantee,
    Population,
    Promise,
    rank_above,
    ranks_of_rule,
    usual_spacing,
)
