"""The certificate of a calibration: a page for people who never open a terminal."""

from fedconformal.web.certificates._opening import opening
from fedconformal.web.certificates._page import NotVerifiedError, certificate

__all__ = ["NotVerifiedError", "certificate", "opening"]
