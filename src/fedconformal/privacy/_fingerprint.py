"""Whether two data sets are the same, without keeping either."""

import hashlib

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._validation import plain_array


def fingerprint(scores: ArrayLike) -> str:
    """SHA-256 of the scores in any order, which any changed, added or lost score changes.

    Taken over the sorted little-endian float64 bytes; every NaN is the same, and so are 0.0 and -0.0. It
    keeps no secret, as few or guessable scores can be found by trying: keep it at the site.

    Parameters
    ----------
    scores : array of float
        A site's scores.

    Returns
    -------
    str
        64 hexadecimal digits.

    Examples
    --------
    >>> from fedconformal.privacy import fingerprint
    >>> fingerprint([1.0, 2.0]) == fingerprint([2.0, 1.0]), fingerprint([1.0]) == fingerprint([1.5])
    (True, False)
    """
    values = np.sort(plain_array(scores, dtype="<f8"), axis=None)
    values[np.isnan(values)] = np.nan  # first: adding to a signalling NaN warns
    values += 0.0
    return hashlib.sha256(values.data).hexdigest()
