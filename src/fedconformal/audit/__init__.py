"""An auditor's job: recompute what a calibration claims, by a path of its own.

Nothing here is imported from ``laws``, ``planning`` or ``privacy``: a mistake there is not repeated here.
"""

from fedconformal.audit._finding import Finding
from fedconformal.audit._recount import MEAN_ERROR, Recount
from fedconformal.audit._signatures import SIGNED_REPORTS
from fedconformal.audit._verify import verify

__all__ = ["MEAN_ERROR", "SIGNED_REPORTS", "Finding", "Recount", "verify"]
