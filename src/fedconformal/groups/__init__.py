"""One threshold for each group of points (age band, predicted class), each with its own law, in one round.

``plan`` at the coordinator, ``report`` at each site, ``calibrate`` at the server, as for all points together;
``GroupCalibration.threshold_of`` gives the thresholds of new points by their labels.
"""

from fedconformal.documents import GroupCalibration, GroupPlan, GroupReport
from fedconformal.documents._labels import UnknownGroupWarning
from fedconformal.groups._audit import verify
from fedconformal.groups._plan import plan
from fedconformal.groups._server import calibrate
from fedconformal.groups._site import report

__all__ = [
    "GroupCalibration",
    "GroupPlan",
    "GroupReport",
    "UnknownGroupWarning",
    "calibrate",
    "plan",
    "report",
    "verify",
]
