"""The verbs: ``plan`` at the coordinator, ``report`` at each site, ``calibrate`` at the server."""

from fedconformal.protocol._assumptions import Bearing, assumption_sentences, assumptions_of
from fedconformal.protocol._calibrate import calibrate, calibrate_histogram
from fedconformal.protocol._conformalize import conformalize
from fedconformal.protocol._groups import made_of
from fedconformal.protocol._intake import Intake, RefusedReportsError, signature_problem, take_in
from fedconformal.protocol._plan import InfeasibleWarning, plan
from fedconformal.protocol._policy import PolicyError, SitePolicy
from fedconformal.protocol._report import Prepared, prepare, private_bins, report
from fedconformal.protocol._request import Request, admit
from fedconformal.protocol._rows import flat_numbers, flat_scores, group_names, private_numbers, rows_by_site
from fedconformal.protocol._rules import model_digest

__all__ = [
    "Bearing",
    "InfeasibleWarning",
    "Intake",
    "PolicyError",
    "Prepared",
    "RefusedReportsError",
    "Request",
    "SitePolicy",
    "admit",
    "assumption_sentences",
    "assumptions_of",
    "calibrate",
    "calibrate_histogram",
    "conformalize",
    "flat_numbers",
    "flat_scores",
    "group_names",
    "made_of",
    "model_digest",
    "plan",
    "prepare",
    "private_bins",
    "private_numbers",
    "report",
    "rows_by_site",
    "signature_problem",
    "take_in",
]
