"""What travels: a compressed plan one way, a report or a fixed code the other, read with suspicion."""

import enum
import json
import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from fedconformal.documents import Calibration, Check, DocumentError, Plan, Report

T = TypeVar("T")

_LENGTH_OF_A_LEVEL = 2**10
"""Characters that a report may take for each level of a group, where a plan has many groups."""


class Failure(enum.IntEnum):
    """Why a site sent no report. The number is all that travels; the reason stays in the site's own log."""

    SITE = 100
    PLAN = 101
    SCORES = 102
    REPORT = 103
    BUDGET = 104
    POLICY = 105
    CALIBRATION = 106

    @property
    def meaning(self) -> str:
        """The code in words, the same for every site and every error."""
        return _MEANINGS[self]

    @classmethod
    def meaning_of(cls, code: int | str, engine: str) -> str:
        """A code in words, which may be one of the engine's own.

        Parameters
        ----------
        code : int or str
            What came instead of a report.
        engine : str
            What the engine is called.

        Returns
        -------
        str
            The meaning; whatever text came with the code is not repeated.
        """
        return cls(code).meaning if code in set(cls) else f"{engine}'s error code {code}"


_MEANINGS = {
    Failure.SITE: "the site failed; its own log says why",
    Failure.PLAN: "the site could not read the plan; its own log says why",
    Failure.SCORES: "the site could not compute its scores; its own log says why",
    Failure.REPORT: "the site could not answer this plan; its own log says why",
    Failure.BUDGET: "the site's privacy ledger refused an answer; its own log says why",
    Failure.POLICY: "the site's policy does not allow this answer; its own log says why",
    Failure.CALIBRATION: "the site could not read the calibration; its own log says why",
}


@dataclass(frozen=True)
class Unexpected:
    """What an engine's adapter found in place of a plan or a report that came alone.

    Parameters
    ----------
    reason : str
        Why it is not looked at.

    Examples
    --------
    >>> from fedconformal.rounds import Unexpected
    >>> Unexpected("no reply").reason
    'no reply'
    """

    reason: str


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

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_sites=3, n_points=40)
    >>> fc.rounds.unpack_plan(fc.rounds.pack_plan(plan)) == plan
    True
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

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_sites=3, n_points=40)
    >>> fc.rounds.unpack_plan(fc.rounds.pack_plan(plan)) == plan
    True
    """
    return _read_plan(_found(packed, bytes, "the message carries no plan"))


def _found(packed: object, kind: type[T], otherwise: str) -> T:
    """What came over the wire, if it is of the right kind; else the reason why nothing is read."""
    if isinstance(packed, Unexpected):
        raise DocumentError(packed.reason)
    if not isinstance(packed, kind):
        raise DocumentError(otherwise)
    return packed


@lru_cache(maxsize=4)
def _read_plan(packed: bytes) -> Plan:
    """Read a plan; simulated sites share a process and get the same one."""
    return Plan.from_json(_inflated(packed, "plan", Plan.ceiling.largest))


def _inflated(packed: bytes, kind: str, largest: int) -> bytes:
    """What was compressed, unless it is too large or something else."""
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(packed, largest)
    except zlib.error:
        raise DocumentError(f"the {kind} in the message is not compressed as {kind}s are") from None
    if not unpacking.eof or unpacking.unused_data:
        raise DocumentError(f"the {kind} in the message is cut short, too large, or not alone")
    return text


def pack_calibration(calibration: Calibration) -> bytes:
    """A calibration as bytes for the wire, for sites to check.

    Parameters
    ----------
    calibration : Calibration
        As published; or one group of it, ``calibration["child"]``.

    Returns
    -------
    bytes
        For `unpack_calibration`.

    Examples
    --------
    >>> import fedconformal as fc
    >>> calibration = fc.conformalize({"A": range(40), "B": range(60)})
    >>> packed = fc.rounds.pack_calibration(calibration)
    >>> fc.rounds.unpack_calibration(packed) == calibration
    True
    """
    text = f"{json.dumps(calibration.label)}\n{calibration.published.to_json(indent=None)}"
    return zlib.compress(text.encode(), 9)


def unpack_calibration(packed: object) -> Calibration:
    """The calibration that a site is asked to check.

    Parameters
    ----------
    packed : object
        What came over the wire.

    Returns
    -------
    Calibration
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
    found = _found(packed, bytes, "the message carries no calibration")
    first, _, text = _inflated(found, "calibration", Calibration.ceiling.largest).partition(b"\n")
    published = Calibration.from_json(text)
    try:
        label = json.loads(first)
        return published if label is None else published[label]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DocumentError("the message asks about no group of the calibration") from None


def unpack_check(packed: object) -> Check:
    """The check that a reply carries.

    Parameters
    ----------
    packed : object
        What came over the wire.

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
    >>> check = fc.heterogeneity.answer(calibration, range(40), site="A")
    >>> fc.rounds.unpack_check(check.to_json()) == check
    True
    """
    return Check.from_json(_found(packed, str, "the reply carries no check"))


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

    Examples
    --------
    >>> import fedconformal as fc
    >>> report = fc.report(fc.plan(n_sites=3, n_points=40), range(40), site="A")
    >>> fc.rounds.unpack_report(fc.rounds.pack_report(report)) == report
    True
    """
    return report.to_json(indent=None)


def longest_report(plan: Plan) -> int:
    """How long a report on a plan may be: a longer one is refused unread.

    Parameters
    ----------
    plan : Plan
        The plan that is answered.

    Returns
    -------
    int
        Characters.

    Examples
    --------
    >>> import fedconformal as fc
    >>> fc.rounds.longest_report(fc.plan(n_sites=3, n_points=40)) > 100
    True
    """
    wanted = _LENGTH_OF_A_LEVEL * len(plan.parts) * len(plan.confidence_levels)
    return min(max(Report.ceiling.size, wanted), Report.ceiling.largest)


def unpack_report(packed: object, *, longest: int = Report.ceiling.size) -> Report:
    """The report that a reply carries.

    Parameters
    ----------
    packed : object
        What came over the wire.
    longest : int
        How long it may be.

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
    text = _found(packed, str, "the reply carries no report")
    if len(text) > longest:
        raise DocumentError(f"a report of {len(text)} characters, more than {longest}")
    return Report.from_json(text)
