"""What a guarantee rests on: codes in the document, sentences for people.

A calibration holds the codes, so that rewording a sentence changes no digest.
"""

from collections.abc import Callable
from enum import Enum

from fedconformal.documents import Calibration, Plan
from fedconformal.messages import of
from fedconformal.planning import PROMISES
from fedconformal.protocol._report import is_private


def assumption_codes(plan: Plan, n_missing: int) -> tuple[str, ...]:
    """The codes of what a calibration rests on.

    Parameters
    ----------
    plan : Plan
        The plan that was answered.
    n_missing : int
        How many sites did not answer, in any group.

    Returns
    -------
    tuple of str
        In the order in which they are read.

    Examples
    --------
    >>> import fedconformal as fc
    >>> from fedconformal.protocol import assumption_codes
    >>> assumption_codes(fc.plan(n_sites=3, n_points=40), n_missing=0)[0]
    'alike'
    """
    applies = {
        **{PROMISES[design.promise].assumption: True for design in plan.designs},
        "labels-first": plan.grouping.by_label,
        "true-classes": plan.grouping.by_class,
        "own-site": plan.grouping.by_site,
        "ties": True,
        "silence": n_missing > 0 or plan.is_grouped,
        "faulty": plan.max_faulty > 0,
        "as-planned": plan.max_faulty == 0,
        "private": is_private(plan),
        "signed-whole": plan.is_grouped and plan.keys is not None,
        "not-authenticated": plan.keys is None,
        "several-levels": len(plan.confidence_levels) > 1,
    }
    return tuple(code for code, here in applies.items() if here)


class AssumptionKind(Enum):
    """What a sentence has to do with a promise."""

    CONDITION = "the promise holds if this is true"
    CAVEAT = "true whatever happens, and good to know"
    UNCHECKED = "nobody has checked it"


def assumption_sentences(calibration: Calibration, kind: AssumptionKind | None = None) -> tuple[str, ...]:
    """What a calibration rests on, in plain words.

    Parameters
    ----------
    calibration : Calibration
        Whose codes are to be read.
    kind : AssumptionKind, optional
        Only sentences of this kind; all if left out.

    Returns
    -------
    tuple of str
        A sentence, or a few, for each code.

    Examples
    --------
    >>> import fedconformal as fc
    >>> from fedconformal.protocol import assumption_sentences
    >>> assumption_sentences(fc.conformalize({"A": range(40)}))[1]
    'With ties among scores the coverage can only be larger than stated.'
    """
    return tuple(
        _sentence(code, calibration)
        for code in calibration.assumptions
        if kind in (None, _KINDS.get(code, AssumptionKind.CONDITION))
    )


_KINDS = {
    "ties": AssumptionKind.CAVEAT,
    "private": AssumptionKind.CAVEAT,
    "signed-whole": AssumptionKind.CAVEAT,
    "several-levels": AssumptionKind.CAVEAT,
    "not-authenticated": AssumptionKind.UNCHECKED,
}
"""Of codes that are no conditions."""


def _sentence(code: str, calibration: Calibration) -> str:
    for name in PROMISES:
        if PROMISES[name].assumption == code:
            promise = PROMISES[name]()
            return promise.assumed_in_groups() if calibration.plan.is_grouped else promise.assumed()
    if code not in _SENTENCES:
        return f"An assumption that this version does not know: {code}."
    return _SENTENCES[code](calibration)


def _silence(calibration: Calibration) -> str:
    if calibration.plan.is_grouped:
        return "Whether a site answers for a group does not depend on any site's scores."
    missing = calibration.n_missing
    if missing == 0:
        return "Whether a site answers does not depend on any site's scores."
    who = "1 site did not answer" if missing == 1 else f"{missing} sites did not answer"
    return f"{who}; whether a site answers does not depend on any site's scores."


def _faulty(calibration: Calibration) -> str:
    most = calibration.plan.max_faulty
    where = (
        f"In each group at most as many reports as its plan allows (up to {most})"
        if calibration.plan.is_grouped
        else f"At most {most} of the reports"
    )
    return (
        f"{where} are wrong, in whatever way; which sites these are does not depend on the scores of the "
        "others."
    )


def _private(calibration: Calibration) -> str:
    losses = [of(design.message).epsilon(design) or 0 for design in calibration.plan.designs]
    sizes = (
        " The number of cases of each group is public; a person with cases in several groups pays for each."
        if calibration.plan.is_grouped
        else ""
    )
    return (
        f"Each report is {float(max(losses)):g}-differentially private for every record behind it, if the "
        f"site kept its ledger; the guarantee allows for the noise and holds for every data set.{sizes}"
    )


def _said(text: str) -> Callable[[Calibration], str]:
    return lambda calibration: text


_SENTENCES: dict[str, Callable[[Calibration], str]] = {
    "labels-first": _said(
        "New points get their labels in the same way as calibration points, before their truth is known."
    ),
    "true-classes": _said(
        "Each class is covered by itself: how common the classes are may differ between sites, and between "
        "these and new points, in any way, but new points of a class are like its calibration points."
    ),
    "own-site": _said("A threshold is used for new points of its own site alone."),
    "ties": _said("With ties among scores the coverage can only be larger than stated."),
    "silence": _silence,
    "faulty": _faulty,
    "as-planned": _said("Every report was made as the plan says."),
    "private": _private,
    "signed-whole": _said("Every message was signed as a whole with its site's key."),
    "not-authenticated": _said(
        "The reports were not authenticated: whoever could deliver a file could pose as a site."
    ),
    "several-levels": _said(
        "Each level's guarantee holds by itself; a level whose threshold was below that of a lower level "
        "got the larger one, which can only add coverage."
    ),
}
