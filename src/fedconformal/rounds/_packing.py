"""The wire format: a compressed plan one way, a report or a fixed code the other, both checked when read."""

import enum
import json
import math
import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from fedconformal.documents import Calibration, CalibrationView, Check, DocumentError, Plan, Report

T = TypeVar("T")

_LENGTH_OF_A_LEVEL, _LENGTH_OF_A_COUNT = 2**10, 2**5
"""Characters that a report may take for each level of a group, and for each count of a curve."""


class Failure(enum.IntEnum):
    """Reasons for sending no report. Only the number travels; the detail stays in the site's own log."""

    SITE = 100
    PLAN = 101
    SCORES = 102
    REPORT = 103
    BUDGET = 104
    POLICY = 105
    CALIBRATION = 106

    @property
    def meaning(self) -> str:
        """Description of the code, the same for every site and every error."""
        return f"the site{_MEANINGS[self]}; its own log says why"


_MEANINGS = {
    Failure.SITE: " failed",
    Failure.PLAN: " could not read the plan",
    Failure.SCORES: " could not compute its scores",
    Failure.REPORT: " could not answer this plan",
    Failure.BUDGET: "'s privacy ledger refused an answer",
    Failure.POLICY: "'s policy does not allow this answer",
    Failure.CALIBRATION: " could not read the calibration",
}


@dataclass(frozen=True)
class Unexpected:
    """Content that an engine's adapter refuses to read.

    Parameters
    ----------
    reason : str
        Reason of the refusal.

    Examples
    --------
    >>> from fedconformal.rounds import Unexpected
    >>> Unexpected("no reply").reason
    'no reply'
    """

    reason: str


def check_seconds(name: str, seconds: object, *, least: float) -> None:
    """Refuse a number of seconds that is too short or infinite.

    Parameters
    ----------
    name : str
        Name of the argument.
    seconds : object
        Its value.
    least : float
        The smallest number that is allowed.

    Examples
    --------
    >>> from fedconformal.rounds import check_seconds
    >>> check_seconds("timeout", 60, least=0)
    """
    if not (isinstance(seconds, int | float) and least <= seconds < math.inf):
        raise ValueError(f"{name} must be a finite number of seconds, at least {least:g}, got {seconds!r}")


def pack_plan(plan: Plan) -> bytes:
    """Turn a plan into bytes for the wire.

    Parameters
    ----------
    plan : Plan
        The plan to be answered.

    Returns
    -------
    bytes
        For `unpack_plan`.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_sites=3, n_points=40)
    >>> fc.rounds.unpack_plan(fc.rounds.pack_plan(plan)) == plan
    True
    """
    return zlib.compress(plan.to_json(indent=None).encode(), 9)


def unpack_plan(packed: object) -> Plan:
    """Read the plan that a site is asked to answer.

    Parameters
    ----------
    packed : object
        Content of the message.

    Returns
    -------
    Plan
        Read and checked.

    Raises
    ------
    DocumentError
        If there is none in it.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_sites=3, n_points=40)
    >>> fc.rounds.unpack_plan(fc.rounds.pack_plan(plan)) == plan
    True
    """
    return _read_plan(_check_type(packed, bytes, "the message carries no plan"))


def _check_type(packed: object, kind: type[T], otherwise: str) -> T:
    """Return the content of a message, or refuse it with a reason if it has another type."""
    if isinstance(packed, Unexpected):
        raise DocumentError(packed.reason)
    if not isinstance(packed, kind):
        raise DocumentError(otherwise)
    return packed


@lru_cache(maxsize=4)
def _read_plan(packed: bytes) -> Plan:
    """Read a plan; simulated sites share a process and get the same one."""
    return Plan.from_json(_decompress(packed, "plan", Plan.limit.largest))


def _decompress(packed: bytes, kind: str, largest: int) -> bytes:
    """Return the text of a document, refusing what is too large or something else."""
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(packed, largest)
    except zlib.error:
        raise DocumentError(f"the {kind} in the message is not compressed as {kind}s are") from None
    if not unpacking.eof or unpacking.unused_data:
        raise DocumentError(f"the {kind} in the message is cut short, too large, or not alone")
    return text


def pack_calibration(calibration: Calibration | CalibrationView) -> bytes:
    """Turn a calibration into bytes for the wire, for sites to check.

    Parameters
    ----------
    calibration : Calibration or CalibrationView
        As published; of one with groups, one group: ``calibration["child"]``.

    Returns
    -------
    bytes
        For `unpack_calibration`.

    Raises
    ------
    ValueError
        If it has several groups, or levels were selected.

    Examples
    --------
    >>> import fedconformal as fc
    >>> calibration = fc.conformalize({"A": range(40), "B": range(60)})
    >>> packed = fc.rounds.pack_calibration(calibration)
    >>> fc.rounds.unpack_calibration(packed) == calibration
    True
    """
    whole, group = calibration.whole, calibration.group
    if calibration != (whole if group is None else whole[group]) or (group is None and whole.plan.is_grouped):
        example = f", as in calibration[{whole.plan.groups[0]!r}]" if whole.plan.is_grouped else ""
        raise ValueError(
            f"calibration must be one without groups, or one group of it{example}, with all its levels"
        )
    text = f"{json.dumps(group)}\n{whole.to_json(indent=None)}"
    return zlib.compress(text.encode(), 9)


def unpack_calibration(packed: object) -> Calibration | CalibrationView:
    """Read the calibration that a site is asked to check.

    Parameters
    ----------
    packed : object
        Content of the message.

    Returns
    -------
    Calibration or CalibrationView
        Read, but not verified; of one with groups the group that is asked about.

    Raises
    ------
    DocumentError
        If there is none in it.

    Examples
    --------
    >>> import fedconformal as fc
    >>> calibration = fc.conformalize({"A": range(40), "B": range(60)})
    >>> fc.rounds.unpack_calibration(fc.rounds.pack_calibration(calibration)) == calibration
    True
    """
    compressed = _check_type(packed, bytes, "the message carries no calibration")
    first, _, text = _decompress(compressed, "calibration", Calibration.limit.largest).partition(b"\n")
    whole = Calibration.from_json(text)
    try:
        group = json.loads(first)
    except (ValueError, RecursionError):
        group = ""
    if group not in whole.plan.groups and (group is not None or whole.plan.is_grouped):
        raise DocumentError("the message asks about no group of the calibration")
    return whole if group is None else whole[group]


def unpack_check(packed: object) -> Check:
    """Read the check that a reply carries.

    Parameters
    ----------
    packed : object
        Content of the reply.

    Returns
    -------
    Check
        Read, but not yet compared with any calibration.

    Raises
    ------
    DocumentError
        If there is none in it.

    Examples
    --------
    >>> import fedconformal as fc
    >>> calibration = fc.conformalize({"A": range(40), "B": range(60)})
    >>> check = fc.monitoring.answer(calibration, range(40), site="A")
    >>> fc.rounds.unpack_check(check.to_json()) == check
    True
    """
    return Check.from_json(_check_type(packed, str, "the reply carries no check"))


def pack_report(report: Report) -> str:
    """Turn a report into text for the wire.

    Parameters
    ----------
    report : Report
        Everything that leaves the site.

    Returns
    -------
    str
        For `unpack_report`.

    Examples
    --------
    >>> import fedconformal as fc
    >>> report = fc.report(fc.plan(n_sites=3, n_points=40), range(40), site="A")
    >>> fc.rounds.unpack_report(fc.rounds.pack_report(report)) == report
    True
    """
    return report.to_json(indent=None)


def longest_report(plan: Plan) -> int:
    """Return the length up to which a report on a plan is read; a longer one is refused unread.

    Parameters
    ----------
    plan : Plan
        The plan that is answered.

    Returns
    -------
    int
        Number of characters.

    Examples
    --------
    >>> import fedconformal as fc
    >>> fc.rounds.longest_report(fc.plan(n_sites=3, n_points=40)) > 100
    True
    """
    needed = sum(
        _LENGTH_OF_A_LEVEL * len(design.levels) + _LENGTH_OF_A_COUNT * getattr(design.message, "n_cells", 0)
        for design in plan.designs
    )
    return min(max(Report.limit.size, needed), Report.limit.largest)


def unpack_report(packed: object, *, longest: int = Report.limit.size) -> Report:
    """Read the report that a reply carries.

    Parameters
    ----------
    packed : object
        Content of the reply.
    longest : int
        Largest number of characters.

    Returns
    -------
    Report
        Read, but not yet compared with any plan.

    Raises
    ------
    DocumentError
        If there is none in it, or it is too long.

    Examples
    --------
    >>> import fedconformal as fc
    >>> report = fc.report(fc.plan(n_sites=3, n_points=40), range(40), site="A")
    >>> fc.rounds.unpack_report(fc.rounds.pack_report(report)) == report
    True
    """
    text = _check_type(packed, str, "the reply carries no report")
    if len(text) > longest:
        raise DocumentError(f"a report of {len(text)} characters, more than {longest}")
    return Report.from_json(text)
