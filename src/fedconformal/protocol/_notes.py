"""Notes and assumptions of a plan, as sentences."""

import math
from collections.abc import Callable, Iterator, Sequence
from enum import Enum

from fedconformal._text import count, percent, plain_spaces
from fedconformal.documents import MOST_CLASSES, Advice, Calibration, Design, Gridded, Level, Plan, SiteKind
from fedconformal.messages import of
from fedconformal.planning import CRITERIA, PROMISES
from fedconformal.privacy import exact_text
from fedconformal.protocol._plan import score_cautions
from fedconformal.protocol._report import is_private
from fedconformal.scores import SCORES, LabelScore, from_name

# -- what a guarantee rests on: codes in the document, sentences for people --------------------------------

# A calibration holds the codes, so that rewording a sentence changes no digest.


def assumption_codes(plan: Plan, n_missing: int) -> tuple[str, ...]:
    """Return the codes of the assumptions of a calibration.

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
    """Relation of a sentence to a promise."""

    CONDITION = "the promise holds if this is true"
    CAVEAT = "true whatever happens, and good to know"
    UNCHECKED = "nobody has checked it"


def assumption_sentences(calibration: Calibration, kind: AssumptionKind | None = None) -> tuple[str, ...]:
    """Return the assumptions of a calibration as sentences.

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
    plan, missing = calibration.plan, calibration.n_missing
    whether = "Whether a site answers"
    if plan.is_grouped:
        whether += " for a group"
    elif missing:
        whether = f"{count(missing, 'site')} did not answer; whether a site answers"
    faulty = f"At most {plan.max_faulty} of the reports"
    if plan.is_grouped:
        faulty = f"In each group at most as many reports as its plan allows (up to {plan.max_faulty})"
    facts = {
        "whether": whether,
        "faulty": faulty,
        "epsilon": float(max(of(design.message).epsilon(design) or 0 for design in plan.designs)),
        "sizes": _PUBLIC_SIZES if plan.is_grouped else "",
    }
    known = {code: text.format(**facts) for code, text in _SENTENCES.items()}
    for promise in (PROMISES[name]() for name in PROMISES):
        known[promise.assumption] = promise.assumed_in_groups() if plan.is_grouped else promise.assumed()
    return tuple(
        known.get(code, f"An assumption that this version does not know: {code}.")
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

_SENTENCES = {
    "labels-first": "New cases get their labels in the same way as calibration cases, before their truth is "
    "known.",
    "true-classes": "Each class is covered individually: how common the classes are may differ between sites "
    "and between these and new cases in any way, but new cases of a class are like its calibration cases.",
    "own-site": "A threshold is used for new cases of its own site alone.",
    "ties": "With ties among scores the coverage can only be larger than stated.",
    "silence": "{whether} does not depend on any site's scores.",
    "faulty": "{faulty} are wrong, in whatever way; which sites these are does not depend on the scores of "
    "the others.",
    "as-planned": "Every report was made as the plan says.",
    "private": "Each report is {epsilon:g}-differentially private for every record behind it, if the site "
    "kept its ledger; the guarantee allows for the noise and holds for every data set.{sizes}",
    "signed-whole": "Every message was signed as a whole with its site's key.",
    "not-authenticated": "The reports were not authenticated: whoever could deliver a file could pose as a "
    "site.",
    "several-levels": "Each level's guarantee holds individually; a level whose threshold was below that of "
    "a lower level got the larger one, which can only add coverage.",
}
_PUBLIC_SIZES = (
    " The number of cases of each group is public; a person with cases in several groups pays for each."
)


# -- what is to be known of a plan, and of thresholds that admit everything ---------------------------------


def describe_problems(plan: Plan) -> tuple[str, ...]:
    """Describe each level that cannot be reached, and what would suffice; an attribute of a plan."""
    return tuple(_in_groups(plan, lambda design: _problems(design, one_site=plan.grouping.by_site)))


def describe_notes(plan: Plan) -> tuple[str, ...]:
    """Describe problems, sites that are too small or not asked, and missing sites; an attribute of a plan."""
    return (
        *describe_problems(plan),
        *_in_groups(plan, _unusual_ranks),
        *_absent(plan),
        *_in_groups(plan, _not_asked),
        *_in_groups(plan, _missing),
        *score_cautions(plan),
    )


def _in_groups(plan: Plan, describe: Callable[[Design], Iterator[str]]) -> Iterator[str]:
    for design in plan.designs:
        for sentence in describe(design):
            yield sentence if design.group is None else f"Group {design.group!r}: {sentence}"


def _problems(design: Design, *, one_site: bool) -> Iterator[str]:
    sizes = [kind.n for kind in design.kinds]
    sure = plain_spaces(
        CRITERIA[design.criterion]().surety(None if design.delta is None else float(design.delta))
    )
    for level in design.levels:
        if level.advice is None or not sizes:
            continue
        several = len(set(sizes)) > 1
        cases = f"{min(sizes):,} to {max(sizes):,} cases" if several else count(sizes[0], "case")
        epsilon = of(design.message).epsilon(design)
        private = "" if epsilon is None else f" and epsilon {exact_text(epsilon)}"
        ways = _ways(level.advice, design, min(sizes), one_site=one_site)
        remedy = f"You need {', or '.join(ways)}." if ways else "No number that was tried would suffice."
        if not ways and isinstance(design.message, Gridded):
            remedy += " A grid with more cells, or one that reaches further, may."
        yield (
            f"{_level(level)} coverage {sure} cannot be guaranteed with "
            f"{count(design.n_sites or 0, 'site')} of {cases}{_tolerated(design)}{private}, "
            f"so the threshold is infinite. {remedy}"
        )


def _unusual_ranks(design: Design) -> Iterator[str]:
    for place, level in enumerate(design.levels):
        ranks = of(design.message).local_ranks(design, place) or ()
        most = max(map(len, ranks), default=0)
        pairs = list(zip(design.kinds, ranks, strict=False))
        if small := [kind for kind, own in pairs if own and own[0] > kind.n]:
            number, listed = _listed(small)
            few = "has too few cases" if number == 1 else "have too few cases"
            yield (
                f"At {_level(level)}, {count(number, 'site')} {few} for the rank "
                f"asked for, which counts as infinite: {listed}."
            )
        whole = [kind for kind, own in pairs if len(own) == kind.n]
        if most > 1 and whole:
            number, listed = _listed(whole)
            has, sends = ("has", "sends") if number == 1 else ("have", "send")
            yield (
                f"At {_level(level)}, {count(number, 'site')} {has} no more "
                f"cases than numbers are asked for, up to {most}, and {sends} all scores: {listed}."
            )


def _not_asked(design: Design) -> Iterator[str]:
    idle = [kind for kind in design.kinds if not kind.asked]
    if idle:
        number, listed = _listed(idle)
        whose = "is not asked, as its answer" if number == 1 else "are not asked, as their answers"
        yield f"{count(number, 'site')} {whose} could not change any threshold: {listed}."


def _missing(design: Design) -> Iterator[str]:
    message = of(design.message)
    for place, level in enumerate(design.levels):
        is_open = design.is_open or level.advice is not None or (design.n_sites or 0) < 2
        if not is_open and not message.tolerates(design, place, 1):
            yield (
                f"At {_level(level)}, one missing site could make the threshold "
                f"infinite; {PROMISES[design.promise].missing_remedy}."
            )


def _absent(plan: Plan) -> Iterator[str]:
    grouping = plan.grouping
    for site, label in grouping.absent[:10]:
        what = f"every set contains {label!r}" if grouping.by_class else "their threshold is infinite"
        yield (
            f"Site {site!r} has too few cases of {label!r}, or none, for a threshold of its own: there, "
            f"{what}."
        )
    if len(grouping.absent) > 10:
        yield f"The same holds for {len(grouping.absent) - 10} more pairs of a site and a label."


def _listed(kinds: Sequence[SiteKind]) -> tuple[int, str]:
    """Return the number of sites of some kinds, and a few of them by name, or by size."""
    names = [name for kind in kinds for name in kind.names]
    shown = names or [f"n = {n}" for n in sorted({kind.n for kind in kinds})]
    return sum(kind.count for kind in kinds), ", ".join(shown[:10]) + ", ..." * (len(shown) > 10)


def _level(level: Level) -> str:
    return plain_spaces(percent(float(level.confidence_level)))


def _tolerated(design: Design) -> str:
    missing = f", any {design.max_missing:,} of which may be missing" if design.max_missing else ""
    faulty = f"{' and' if missing else ', of which'} {design.max_faulty:,} may be faulty"
    return missing + (faulty if design.max_faulty else "")


def _ways(advice: Advice, design: Design, least: int, *, one_site: bool) -> list[str]:
    ways = []
    if advice.n_points is not None:
        ways.append(f"{count(advice.n_points, 'case')} per site")
        small = [kind for kind in design.kinds if kind.n < advice.n_points]
        if PROMISES[design.promise].smallest_decides and len(small) < len(design.kinds):
            is_named = design.site_names is not None
            left_out = _listed(small)[1] if is_named else f"sites with fewer than {advice.n_points:,}"
            ways.append(f"to leave out {left_out}")
    if advice.n_sites is not None and not one_site:
        ways.append(f"{count(advice.n_sites, 'site')} of {count(least, 'case')}")
    if advice.epsilon is not None:
        ways.append(f"an epsilon of {float(advice.epsilon):g}")
    return ways


def everything_sentences(calibration: Calibration) -> tuple[str, ...]:
    """Describe finite thresholds that put a label into every set, where the plan fixes a score of labels.

    Examples
    --------
    >>> import fedconformal as fc
    >>> from fedconformal.protocol import everything_sentences
    >>> calibration = fc.conformalize({"A": [1.0] * 40}, score="lac")
    >>> len(everything_sentences(calibration))
    1
    """
    plan = calibration.plan
    if plan.score is None or plan.score.name not in SCORES:
        return ()
    rule = from_name(plan.score.name, **plan.score.parameters)
    if not isinstance(rule, LabelScore):
        return ()
    n_classes = MOST_CLASSES if plan.classes is None else len(plan.classes)
    sentences = []
    for part in calibration.parts:
        group = part.design.group
        for level, threshold in zip(plan.confidence_levels, part.thresholds, strict=True):
            if threshold < math.inf and rule.admits_all(threshold, n_classes):
                where = "" if group is None else f", group {group!r}"
                by_class = group is not None and plan.grouping.by_class
                what = f"label {group!r} is in every set" if by_class else "every label is in every set"
                sentences.append(
                    f"Level {level:g}{where}: the threshold, {threshold:g}, is as large as a score can be, "
                    f"so {what}."
                )
    return tuple(sentences)
