"""Ed25519 public keys that belong to nobody: points of small order, for which anyone can sign.

A point (x, y) of the curve -x^2 + y^2 = 1 + d x^2 y^2 has order 1 or 2 if x = 0, so y = 1 or -1; order 4 if
twice it is (0, -1), so y = 0; and order 8 if twice it has y = 0. Doubling gives y' = (y^2 + x^2) / (2 - y^2 +
x^2), which is 0 if x^2 = -y^2, and on the curve that is d y^4 + 2 y^2 = 1. A key is the 255 bits of y, which
need not be below p, and the sign of x: neither way of writing y nor the sign changes the order.
"""

_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P) % _P


def has_small_order(key: bytes) -> bool:
    """Whether a public key is a point of order 1, 2, 4 or 8, however it is written.

    Parameters
    ----------
    key : bytes
        32 of them.

    Returns
    -------
    bool
        True also for y = 0, 1 and -1 with any sign of x.
    """
    y = (int.from_bytes(key, "little") & (2**255 - 1)) % _P
    return y in (0, 1, _P - 1) or (_D * y**4 + 2 * y**2 - 1) % _P == 0
