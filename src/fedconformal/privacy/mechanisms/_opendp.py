"""OpenDP's noisy maximum: the only source of randomness of a release."""

from functools import lru_cache
from typing import Any

from fedconformal._extras import need
from fedconformal.privacy._loss import confirm_loss


@lru_cache(maxsize=16)
def exponential_noise(scale: float, width: int, epsilon: float) -> Any:
    """Least error after exponential noise, refused unless OpenDP itself confirms the loss."""
    dp = _prelude()
    measurement = dp.m.make_noisy_max(*_space(dp), dp.max_divergence(), scale=scale, negate=True)
    confirm_loss(measurement.map(width), epsilon)
    return measurement


@lru_cache(maxsize=16)
def gumbel_noise(scale: float, width: int, epsilon: float) -> Any:
    """Least error after Gumbel noise, refused unless OpenDP itself confirms the loss."""
    # OpenDP states Gumbel noise in another measure; its pure loss has the same bound at the same scale.
    exponential_noise(scale, width, epsilon)
    dp = _prelude()
    return dp.m.make_noisy_max(*_space(dp), dp.zero_concentrated_divergence(), scale=scale, negate=True)


def _prelude() -> Any:
    dp = need("opendp.prelude", extra="private")
    dp.enable_features("contrib")
    return dp


def _space(dp: Any) -> tuple[Any, Any]:
    """Whole errors, whose changes lie in an interval of known width.

    Monotone, because adding the same number to all errors changes no release: a change in an interval of some
    width may be read as one from zero to that width.
    """
    return dp.vector_domain(dp.atom_domain(T=dp.i64)), dp.linf_distance(T=dp.i64, monotonic=True)
