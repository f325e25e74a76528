"""Names that a server goes by."""

LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Names of this machine that no other machine can reach it by."""


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server that listens at an address.

    Parameters
    ----------
    host : str
        The address.

    Returns
    -------
    bool
        True for this machine's own names.

    Examples
    --------
    >>> from fedconformal.web import is_loopback
    >>> is_loopback("127.0.0.1"), is_loopback("0.0.0.0")
    (True, False)
    """
    return host.lower() in LOOPBACK


def host_name(host: str) -> str:
    """Return the name in a Host header, without the port.

    Parameters
    ----------
    host : str
        The header, such as ``"[::1]:8484"``.

    Returns
    -------
    str
        In lower case.
    """
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()
