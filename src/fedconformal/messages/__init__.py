"""Messages: what a site sends, a class and a file for each kind.

Each class holds everything about its message: how it is chosen, answered at the site, checked and combined at
the server, which distribution or guarantee follows, and what it discloses.
"""

from typing import Any

from fedconformal.documents import Design, MessageData, Plan
from fedconformal.laws import MOST_WORK
from fedconformal.messages._base import MESSAGES, Answer, Choice, DesignRequest, Message
from fedconformal.messages._bin import BinMessage, mechanisms
from fedconformal.messages._cases import CasesMessage, draw_ranks
from fedconformal.messages._curve import CurveMessage
from fedconformal.messages._ranks import RanksMessage
from fedconformal.planning import CRITERIA, PROMISES

PROMISED: dict[str, tuple[str, ...]] = {
    "ranks": ("population", "mixture", "each-site", "new-site"),
    "cases": ("new-site",),
    "curve": ("population", "mixture", "each-site"),
    "bin": ("population",),
}
"""Promises that each message can keep; a message that is not listed decides for itself."""


def _is_promised(message: str, promise: str) -> bool:
    """Return whether a message can keep a promise; one of an extension decides for itself."""
    ours = {each for row in PROMISED.values() for each in row}
    return promise not in ours or promise in PROMISED.get(message, (promise,))


def of(data: MessageData) -> Message:
    """Return the behaviour of a message.

    Parameters
    ----------
    data : MessageData
        As a design holds it.

    Returns
    -------
    Message

    Examples
    --------
    >>> import fedconformal as fc
    >>> fc.messages.of(fc.plan(n_sites=3, n_points=40).message).name
    'ranks'
    """
    return MESSAGES[data.kind]()


def choose_message(request: DesignRequest) -> Message:
    """Return the message that a request calls for, refusing what does not go together.

    Parameters
    ----------
    request : DesignRequest
        What is wanted.

    Returns
    -------
    Message

    Raises
    ------
    ValueError
        If the promise cannot be kept with the message that is asked for.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedconformal.messages import DesignRequest, choose_message
    >>> from fedconformal.planning import PROMISES, Goal
    >>> request = DesignRequest(PROMISES["population"](), (Goal(Fraction(9, 10)),), None, None)
    >>> choose_message(request).name
    'ranks'
    """
    if request.privacy is not None and request.curve is not None:
        raise ValueError("curve must be left out with privacy, whose bins are its grid")
    if request.privacy is not None:
        name = request.privacy.message
    elif request.curve is not None:
        name = CurveMessage.name
    else:
        name = request.promise.message(request.goals[0])
    promise = request.promise.name
    if not _is_promised(name, promise):
        without = ("mixture",) if request.privacy is not None else ()
        able = " or ".join(repr(each) for each in PROMISED[name] if each not in without)
        what = "privacy" if request.privacy is not None else "curve" if request.curve is not None else name
        raise ValueError(f"promise must be {able} with {what}, got {promise!r}")
    return MESSAGES[name]()


# -- whether a plan makes sense: its structure, and whether its message can keep its promise ---------------


_CHECKED = "_is_checked"


def check_plan(plan: Plan) -> None:
    """Refuse a plan that nobody should answer or calibrate, whoever wrote it.

    Parameters
    ----------
    plan : Plan
        The plan.

    Raises
    ------
    ValueError
        With the reason in one line.

    Examples
    --------
    >>> import fedconformal as fc
    >>> fc.messages.check_plan(fc.plan(n_sites=3, n_points=40))
    """
    if plan.__dict__.get(_CHECKED):  # plans are immutable
        return
    plan.check()
    work = {(design.n_sites, of(design.message).work(design)) for design in plan.designs}
    if sum(points for _, points in work) > MOST_WORK:
        raise ValueError("the noise of this plan takes too long to check: use fewer cells or groups")
    for design in plan.designs:
        promise, criterion = PROMISES[design.promise], CRITERIA[design.criterion]
        if (design.delta is not None) != criterion.takes_delta:
            raise ValueError(f"delta does not fit the criterion {design.criterion!r}")
        if plan.is_grouped and not promise.allows_groups:
            raise ValueError(f"promise {design.promise!r} does not go with groups: it is a plan of its own")
        if not promise.takes_mixture and any(kind.share is not None for kind in design.kinds):
            raise ValueError("a share of new cases goes with a promise to a mixture")
        kind = design.message.kind
        if not _is_promised(kind, design.promise):
            raise ValueError(f"promise {design.promise!r} does not go with the message {kind!r}")
        of(design.message).check(design)
    plan.__dict__[_CHECKED] = True


# -- attributes of plans and calibrations --------------------------------------------------------------


def law(design: Design, place: int) -> Any:
    """Return the distribution of the coverage at one level; None if open, or where there is none."""
    if design.is_open or design.levels[place].votes is None:
        return None
    return of(design.message).law(design, place)


def guarantee(design: Design, place: int) -> Any:
    """Return the guarantee at one level; None if open, or too few sites answered."""
    if design.is_open or design.levels[place].votes is None:
        return None
    return of(design.message).guarantee(design, place)


def local_ranks(design: Design, place: int) -> Any:
    """Return the ranks of each kind of site at one level; None where none are sent."""
    return None if design.is_open else of(design.message).local_ranks(design, place)


def votes(design: Design, place: int) -> Any:
    """Return the votes of each kind of site at one level; None while the design is open."""
    return of(design.message).votes(design, place)
