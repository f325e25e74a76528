"""What a guarantee rests on, once more: the codes that follow from the plan and from who is missing."""

from collections.abc import Iterator

from fedconformal._text import count
from fedconformal.audit._answers import named, who_is_missing
from fedconformal.audit._finding import Finding
from fedconformal.documents import Calibration, Plan

_PROMISED = {
    "population": "alike",
    "each-site": "each-site-alike",
    "mixture": "known-mixture",
    "new-site": "sites-exchangeable",
}
"""What the promises that this auditor knows rest on."""

_OTHERS = (
    "labels-first",
    "true-classes",
    "own-site",
    "ties",
    "silence",
    "faulty",
    "as-planned",
    "private",
    "signed-whole",
    "not-authenticated",
    "several-levels",
)


def of_assumptions(calibration: Calibration) -> Finding:
    """Whether the assumptions are exactly those that follow from the plan and from who is missing.

    A promise that this auditor does not know has a code of its own, which must be none of the others.

    Parameters
    ----------
    calibration : Calibration
        The whole.

    Returns
    -------
    Finding
    """
    given, expected = calibration.assumptions, _expected(calibration)
    strange = [code for code in given if code not in expected]
    left_out = [code for code in expected if code not in given]
    words = [
        *([f"not {named(strange)}"] if strange else []),
        *([f"without {named(left_out)}"] if left_out else []),
    ]
    holds = given == expected
    found = "; ".join(words) or (count(len(given), "assumption") if holds else "in another order, or twice")
    return Finding("the assumptions are those that the plan and the answers imply", found, holds)


def _expected(calibration: Calibration) -> tuple[str, ...]:
    plan = calibration.plan
    promises = dict.fromkeys(part.promise for part in plan.parts)
    first = [_PROMISED.get(promise) or _unknown(calibration, place) for place, promise in enumerate(promises)]
    return (*dict.fromkeys(first), *_implied(plan, silent=_is_silent(calibration)))


def _unknown(calibration: Calibration, place: int) -> str:
    """The code of a promise that this auditor does not know, as it is claimed."""
    given = calibration.assumptions[place : place + 1]
    own = {*_PROMISED.values(), *_OTHERS}
    return given[0] if given and given[0] not in own else "one-of-its-own"


def _implied(plan: Plan, *, silent: bool) -> Iterator[str]:
    made_of = plan.group_by or ("label",) * plan.is_grouped
    applies = (
        "label" in made_of,
        "class" in made_of,
        "site" in made_of,
        True,
        silent or plan.is_grouped,
        plan.max_faulty > 0,
        plan.max_faulty == 0,
        plan.privacy is not None,
        plan.is_grouped and plan.keys is not None,
        plan.keys is None,
        len(plan.confidence_levels) > 1,
    )
    return (code for code, here in zip(_OTHERS, applies, strict=True) if here)


def _is_silent(calibration: Calibration) -> bool:
    """Whether a site did not answer, counted anew; with groups, that is assumed anyway."""
    if calibration.plan.is_grouped:
        return True
    there = [answer.site for answer in calibration.answers]
    return who_is_missing(calibration.plan, there, calibration.n_answers)[1] > 0
