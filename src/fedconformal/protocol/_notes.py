"""What a reader of a plan should know, in sentences."""

from collections.abc import Callable, Iterator, Sequence

from fedconformal._text import count, percent, plain_spaces
from fedconformal.documents import Advice, Design, Gridded, Plan, ScoreRule, SiteKind
from fedconformal.messages import of
from fedconformal.planning import PROMISES
from fedconformal.privacy import exact_text
from fedconformal.scores import SCORES, LabelScore, from_name


def describe_problems(plan: Plan) -> tuple[str, ...]:
    """Describe each level that cannot be reached, and what would suffice; an attribute of a plan."""
    return tuple(_in_groups(plan, lambda design: _problems(design, one_site=plan.grouping.by_site)))


def describe_notes(plan: Plan) -> tuple[str, ...]:
    """Describe problems, sites that are too small or not asked, and missing sites; an attribute of a plan."""
    return (
        *describe_problems(plan),
        *_in_groups(plan, _too_small),
        *_in_groups(plan, _send_all),
        *_absent(plan),
        *_in_groups(plan, _not_asked),
        *_in_groups(plan, _missing),
        *_score(plan.score, plan.classes),
    )


def _in_groups(plan: Plan, describe: Callable[[Design], Iterator[str]]) -> Iterator[str]:
    for design in plan.designs:
        for sentence in describe(design):
            yield sentence if design.group is None else f"Group {design.group!r}: {sentence}"


def _problems(design: Design, *, one_site: bool) -> Iterator[str]:
    sizes = [kind.n for kind in design.kinds]
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
            f"{plain_spaces(percent(float(level.confidence_level)))} coverage ({design.criterion}) cannot be "
            f"guaranteed with {count(design.n_sites or 0, 'site')} of {cases}{_tolerated(design)}{private}, "
            f"so the threshold is infinite. {remedy}"
        )


def _too_small(design: Design) -> Iterator[str]:
    for place, level in enumerate(design.levels):
        ranks = of(design.message).local_ranks(design, place) or ()
        small = [kind for kind, own in zip(design.kinds, ranks, strict=False) if own and own[0] > kind.n]
        if small:
            number, listed = _listed(small)
            few = "has too few cases" if number == 1 else "have too few cases"
            yield (
                f"At the level {float(level.confidence_level)}, {count(number, 'site')} {few} for the rank "
                f"asked for, which counts as infinite: {listed}."
            )


def _send_all(design: Design) -> Iterator[str]:
    for place, level in enumerate(design.levels):
        ranks = of(design.message).local_ranks(design, place) or ()
        most = max(map(len, ranks), default=0)
        whole = [kind for kind, own in zip(design.kinds, ranks, strict=False) if len(own) == kind.n]
        if most > 1 and whole:
            number, listed = _listed(whole)
            has, sends = ("has", "sends") if number == 1 else ("have", "send")
            yield (
                f"At the level {float(level.confidence_level)}, {count(number, 'site')} {has} no more "
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
                f"At the level {float(level.confidence_level)}, one missing site could make the threshold "
                f"infinite; {PROMISES[design.promise].missing_remedy}."
            )


def _score(score: ScoreRule | None, classes: Sequence[str] | None) -> Iterator[str]:
    if score is None or classes is None or score.name not in SCORES:
        return
    rule = from_name(score.name, **score.parameters)
    if isinstance(rule, LabelScore) and (caution := rule.caution(len(classes))):
        yield caution


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
            names = [name for kind in small for name in kind.names]
            listed = ", ".join(names[:10]) + ", ..." * (len(names) > 10)
            ways.append(f"to leave out {listed or f'sites with fewer than {advice.n_points:,}'}")
    if advice.n_sites is not None and not one_site:
        ways.append(f"{count(advice.n_sites, 'site')} of {count(least, 'case')}")
    if advice.epsilon is not None:
        ways.append(f"an epsilon of {float(advice.epsilon):g}")
    return ways
