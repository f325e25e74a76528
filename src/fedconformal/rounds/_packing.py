"""What travels: a compressed plan one way, a report as text the other; each is read with suspicion."""

import zlib
from functools import lru_cache

from fedconformal.documents import MAX_BYTES, DocumentError, Plan, Report

MAX_REPORT_LENGTH = 2**16
"""A report has some hundred characters; one that is much longer is refused unread."""


def pack_plan(plan: Plan) -> bytes:
    """A plan as bytes for the wire.

    Parameters
    ----------
    plan : Plan
        What sites are asked to answer.

    Returns
    -------
    bytes
        For `unpack_plan`.
    """
    return zlib.compress(plan.to_json(indent=None).encode(), 9)


def unpack_plan(packed: object) -> Plan:
    """The plan that a site is asked to answer.

    Parameters
    ----------
    packed : object
        What came over the wire.

    Returns
    -------
    Plan
        Read and checked.

    Raises
    ------
    DocumentError
        If there is none in it.
    """
    if not isinstance(packed, bytes):
        raise DocumentError("the message carries no plan")
    return _unpacked(packed)


@lru_cache(maxsize=4)
def _unpacked(packed: bytes) -> Plan:
    """Read a plan; simulated sites share a process and get the same one."""
    unpacking = zlib.decompressobj()
    text = unpacking.decompress(packed, MAX_BYTES)
    if not unpacking.eof or unpacking.unused_data:
        raise DocumentError("the plan in the message is cut short, too large, or not alone")
    return Plan.from_json(text)


def pack_report(report: Report) -> str:
    """A report as text for the wire.

    Parameters
    ----------
    report : Report
        Everything that leaves the site.

    Returns
    -------
    str
        For `unpack_report`.
    """
    return report.to_json(indent=None)


def unpack_report(packed: object) -> Report:
    """The report that a reply carries.

    Parameters
    ----------
    packed : object
        What came over the wire.

    Returns
    -------
    Report
        Read, but not yet compared with any plan.

    Raises
    ------
    DocumentError
        If there is none in it, or it is too long.
    """
    if not isinstance(packed, str):
        raise DocumentError("the reply carries no report")
    if len(packed) > MAX_REPORT_LENGTH:
        raise DocumentError(f"a report of {len(packed)} characters, more than {MAX_REPORT_LENGTH}")
    return Report.from_json(packed)
