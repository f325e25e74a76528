"""How sites may differ: what each shift does to a distribution, and what is no shift."""

import math

import numpy as np
import pytest

from fedconformal.heterogeneity import contaminated, distortion, examples, location, power, reference, scale

X = np.linspace(0.01, 4, 40)
BASE = reference("exponential")


@pytest.mark.parametrize(
    ("shift", "share_below"),
    [
        (scale(2.0), BASE.cdf(X / 2)),
        (location(0.5), BASE.cdf(X - 0.5)),
        (power(3.0), BASE.cdf(X) ** 3),
        (contaminated(0.25, 4.0), 0.75 * BASE.cdf(X) + 0.25 * BASE.cdf(X / 4)),
        (distortion(lambda c: c**2), BASE.cdf(X) ** 2),
        (examples([1.0, 2.0, 3.0]), np.interp(X, [0, 1, 2, 3, 4], [0, 0.25, 0.5, 0.75, 1])),
    ],
    ids=["scale", "location", "power", "contaminated", "distortion", "examples"],
)
def test_the_share_of_scores_below(shift, share_below):
    np.testing.assert_allclose(shift(BASE).cdf(X), share_below, rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: scale(0.0), "scale must be a positive number"),
        (lambda: location(math.inf), "location must lie between"),
        (lambda: contaminated(1.5, 2.0), "contaminated share"),
        (lambda: distortion(lambda c: 1 - c), "a distortion must grow"),
        (lambda: distortion(lambda c: 0.5), "a distortion must grow"),
        (lambda: examples([1.0]), "at least two different"),
    ],
)
def test_errors_name_the_argument(call, message):
    with pytest.raises(ValueError, match=message):
        call()
