"""The verbs: ``plan`` at the coordinator, ``report`` at each site, ``calibrate`` at the
server.
"""

from fedconformal.protocol._calibrate import (
    AssumptionKind,
    RefusedReportsError,
    assumption_codes,
    assumption_sentences,
    calibrate,
    describe_coverage,
    everything_sentences,
    validate_reports,
)
from fedconformal.protocol._conformalize import conformalize
from fedconformal.protocol._federation import (
    describe_notes,
    describe_problems,
    describe_unreached,
    read_group_by,
    sites_needed,
    suffices,
)
from fedconformal.protocol._plan import InfeasibleWarning, model_digest, plan
from fedconformal.protocol._policy import PolicyError, SitePolicy
from fedconformal.protocol._report import (
    admit,
    check_score,
    draw_source,
    is_private,
    loss_curve,
    prepare,
    report,
)
from fedconformal.protocol._rows import group_names, rows_by_site
from fedconformal.protocol._scoring import (
    class_numbers,
    class_places,
    measure_cases,
    score_cases,
    score_of,
)
from fedconformal.protocol._sets import (
    labels_in,
    predict_interval,
    predict_set,
    prediction_sets,
    refuse_answers,
)
from fedconformal.protocol._simulate import simulate
from fedconformal.protocol._uncovered import uncovered_sentences
