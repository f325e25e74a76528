"""Sites that differ: check the coverage at a site, find sites that stand out, compute
what a shift does.

``check`` looks at a site's own coverage, ``answer`` reports it, and ``compare`` reads
the answers of all, or looks for odd sites in the few numbers that each site sent;
``watch`` puts the checks of many periods together, whenever one looks; ``cases_needed``
sizes a check, and ``shifted_law`` gives the exact distribution of the coverage for
sites that differ as named.
"""

from fedconformal.monitoring._answer import (
    answer,
    check_keys,
    prepare_answer,
    refuse_unverified,
)
from fedconformal.monitoring._check import Assessment, LocalCheck, assess, check
from fedconformal.monitoring._compare import Comparison, compare, shifted_law
from fedconformal.monitoring._coverage import CoverageCheck, cases_needed
from fedconformal.monitoring._watch import (
    Watch,
    WatchPlan,
    WatchRow,
    floor_digits,
    plan_watch,
    watch,
)

__all__ = ["answer", "cases_needed", "check", "compare", "shifted_law", "watch"]
