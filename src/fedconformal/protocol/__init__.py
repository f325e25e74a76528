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
from fedconformal.protocol._conformalize import (
    class_numbers,
    class_places,
    conformalize,
    group_names,
    has_answers,
    labels_in,
    measure_cases,
    predict_interval,
    predict_set,
    prediction_sets,
    refuse_answers,
    rows_by_site,
    score_cases,
    score_of,
    simulate,
)
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
from fedconformal.protocol._uncovered import uncovered_sentences
