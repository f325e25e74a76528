"""The first section of a certificate by itself, for places that have room for no more."""

from fedconformal.audit import verify
from fedconformal.documents import Calibration
from fedconformal.web._html import Markup, join, tag
from fedconformal.web.certificates._budget import Budget
from fedconformal.web.certificates._claim import Certified
from fedconformal.web.certificates._promise import headed, promise

_EFFORT = 0.25  # somebody waits


def opening(calibration: Calibration) -> Markup:
    """Return what a calibration promises, recounted like the claim of a certificate.

    Parameters
    ----------
    calibration : Calibration
        The whole, with groups or without.

    Returns
    -------
    Markup
        HTML; a claim that does not hold is named instead.
    """
    found = verify(calibration, effort=_EFFORT)
    if wrong := [finding for finding in found if finding.holds is False]:
        text = f"The claim of this calibration does not hold: {wrong[0].claim}: {wrong[0].found}"
        return tag("p", tag("strong", text))
    it = Certified(calibration, found, Budget(_EFFORT))
    return join([headed(it, tag("p", "Digest ", tag("code", calibration.digest))), promise(it)])
