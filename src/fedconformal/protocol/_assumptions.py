"""What a guarantee rests on: codes in the document, sentences for people.

A calibration holds the codes, so that rewording a sentence changes no digest.
"""

from collections.abc import Callable
from enum import Enum

from fedconformal.documents import Calibration, Plan
from fedconformal.planning import PROMISES


def assumptions_of(plan: Plan, n_missing: int) -> tuple[str, ...]:
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
    >>> from fedconformal.protocol import assumptions_of
    >>> assumptions_of(fc.plan(n_sites=3, n_points=40), n_missing=0)[0]
    'alike'
    """
    applies = {
        **{PROMISES[part.promise].assumption: True for part in plan.parts},
        "labels-first": plan.grouping.by_label,
        "true-classes": plan.grouping.by_class,
        "own-site": plan.grouping.by_site,
        "ties": True,
        "silence": n_missing > 0 or plan.is_grouped,
        "faulty": plan.max_faulty > 0,
        "as-planned": plan.max_faulty == 0,
        "private": plan.privacy is not None,
        "signed-whole": plan.is_grouped and plan.keys is not None,
        "not-authenticated": plan.keys is None,
        "several-levels": len(plan.confidence_levels) > 1,
    }
    return tuple(code for code, here in applies.items() if here)


class Bearing(Enum):
    """What a sentence has to do with a promise."""

    CONDITION = "the promise holds if this is true"
    CAVEAT = "true whatever happens, and good to know"
    UNCHECKED = "nobody has checked it"


def assumption_sentences(calibration: Calibration, bearing: Bearing | None = None) -> tuple[str, ...]:
    """What a calibration rests on, in plain words.

    Parameters
    ----------
    calibration : Calibration
        Whose codes are to be read.
    bearing : Bearing, optional
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
        if bearing in (None, _BEARINGS.get(code, Bearing.CONDITION))
    )


_BEARINGS = {
    "ties": Bearing.CAVEAT,
    "private": Bearing.CAVEAT,
    "signed-whole": Bearing.CAVEAT,
    "several-levels": Bearing.CAVEAT,
    "not-authenticated": Bearing.UNCHECKED,
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
    epsilon = float(calibration.plan.epsilon or 0)
    if calibration.plan.is_grouped:
        return (
            f"Each site's message is {epsilon:g}-differentially private, even for somebody with one record "
            "in every group, if the site kept its ledger; how many points of each group a site has is public."
        )
    return (
        f"Each report is {epsilon:g}-differentially private for the records behind it, if the site kept its "
        "ledger; the guarantee allows for the noise and holds for every data set."
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
