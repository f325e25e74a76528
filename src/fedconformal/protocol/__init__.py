"""The verbs: ``plan`` at the coordinator, ``report`` at each site, ``calibrate`` at the server."""

from fedconformal.protocol._calibrate import RefusedReportsError, calibrate, validate_reports
from fedconformal.protocol._conformalize import conformalize, group_names, rows_by_site, simulate
from fedconformal.protocol._federation import read_group_by
from fedconformal.protocol._notes import (
    AssumptionKind,
    assumption_codes,
    assumption_sentences,
    describe_notes,
    describe_problems,
)
from fedconformal.protocol._plan import InfeasibleWarning, model_digest, plan
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
from fedconformal.protocol._report import admit, is_private, prepare, report
