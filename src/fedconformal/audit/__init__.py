"""Independent verification of calibrations.

Nothing is imported from the packages that make plans and calibrations, so that a
mistake there is not repeated here.
"""

from fedconformal.audit._base import Finding
from fedconformal.audit._verify import verify

__all__ = ["verify"]
