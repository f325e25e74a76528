"""The verbs: ``plan`` at the coordinator, ``report`` at each site, ``calibrate`` at the server."""

from fedconformal.protocol._assumptions import AssumptionKind, assumption_codes, assumption_sentences
from fedconformal.protocol._calibrate import calibrate
from fedconformal.protocol._checks import check_plan
from fedconformal.protocol._conformalize import conformalize
from fedconformal.protocol._groups import read_group_by
from fedconformal.protocol._intake import Intake, RefusedReportsError, signature_problem, validate_reports
from fedconformal.protocol._notes import describe_notes, describe_problems
from fedconformal.protocol._plan import InfeasibleWarning, plan
from fedconformal.protocol._policy import PolicyError, SitePolicy
from fedconformal.protocol._predict import (
    class_places,
    everything_sentences,
    labels_in,
    predict_interval,
    predict_set,
    prediction_sets,
    score_of,
)
from fedconformal.protocol._report import Prepared, is_private, prepare, report
from fedconformal.protocol._request import Request, admit
from fedconformal.protocol._rows import flat_numbers, flat_scores, group_names, private_numbers, rows_by_site
from fedconformal.protocol._simulate import simulate
from fedconformal.protocol._terms import model_digest
