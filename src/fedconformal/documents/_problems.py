"""What stands in the way of a plan, in sentences."""

from collections.abc import Iterator, Sequence

from fedconformal._text import count
from fedconformal.documents._grouping import Grouping
from fedconformal.documents._plan_parts import Advice, PlanBlock, PlanPart, PrivacyRule, ScoreRule
from fedconformal.planning import PROMISES, Design
from fedconformal.scores import SCORES, LabelScore, from_name


def problem_sentences(part: PlanPart, rule: PrivacyRule | None, *, one_site: bool = False) -> Iterator[str]:
    """A sentence for each level that no ranks reach, and what would be enough."""
    sizes = [block.n for block in part.blocks or ()]
    for level in part.levels:
        if level.advice is None or not sizes:
            continue
        several = len(set(sizes)) > 1
        points = f"{min(sizes):,} to {max(sizes):,} points" if several else count(sizes[0], "point")
        nothing = "No ranks reach" if level.share is None else "No server rank and these local ranks reach"
        ways = _ways(level.advice, part, min(sizes), one_site=one_site)
        private = "" if rule is None else f", epsilon {rule.epsilon:g} and {rule.n_bins} bins"
        yield (
            f"{nothing} the level {level.confidence_level!r} ({part.criterion}) with "
            f"{count(part.n_sites or 0, 'site')} of {points}{_borne(part)}{private}: the threshold is "
            f"infinite. It would take {', or '.join(ways) or 'more than this search could find'}."
        )


def size_sentences(part: PlanPart) -> Iterator[str]:
    """A sentence for each level at which some sites are too small for their rank."""
    for i, level in enumerate(part.levels):
        small = [block for block in part.blocks or () if block.ranks[i] and block.ranks[i][0] > block.n]
        if not small:
            continue
        how_many, listed = _listed(small)
        few = "has too few points" if how_many == 1 else "have too few points"
        yield (
            f"At the level {level.confidence_level!r}, {count(how_many, 'site')} {few} for the rank asked "
            f"for, which counts as Infinity: {listed}."
        )


def whole_sentences(part: PlanPart) -> Iterator[str]:
    """A sentence for each level at which sites with fewer points than numbers are asked for send them all."""
    for i, level in enumerate(part.levels):
        most = max((len(block.ranks[i]) for block in part.blocks or ()), default=0)
        whole = [block for block in part.blocks or () if len(block.ranks[i]) == block.n]
        if most < 2 or not whole:
            continue
        how_many, listed = _listed(whole)
        has, sends = ("has", "sends") if how_many == 1 else ("have", "send")
        yield (
            f"At the level {level.confidence_level!r}, {count(how_many, 'site')} {has} no more points than "
            f"numbers are asked for, up to {most}, and {sends} all scores: {listed}."
        )


def unasked_sentences(part: PlanPart) -> Iterator[str]:
    """A sentence if there are sites that can never change a threshold."""
    idle = [block for block in part.blocks or () if not any(block.ranks)]
    if idle:
        how_many, listed = _listed(idle)
        whose = "is not asked, as its answer" if how_many == 1 else "are not asked, as their answers"
        yield f"{count(how_many, 'site')} {whose} could not change any threshold: {listed}."


def silence_sentences(part: PlanPart, designs: Sequence[Design]) -> Iterator[str]:
    """A sentence for each level whose threshold one silent site would make infinite."""
    where = "" if part.label is None else f"Group {part.label!r}: "
    for level, design in zip(part.levels, designs, strict=True):
        if not design.is_open and design.is_finite and design.n_sites > 1 and not design.survives():
            yield (
                f"{where}At the level {level.confidence_level!r}, one silent site could make the threshold "
                f"infinite; {PROMISES[part.promise].bearing}."
            )


def score_sentences(score: ScoreRule | None, classes: Sequence[str] | None) -> Iterator[str]:
    """What to know of the score for so many classes, where both are fixed."""
    if score is None or classes is None or score.name not in SCORES:
        return
    rule = from_name(score.name, **score.parameters)
    if isinstance(rule, LabelScore) and (said := rule.caution(len(classes))):
        yield said


def absent_sentences(grouping: Grouping) -> Iterator[str]:
    """What becomes of labels of which a site has too few points, or none, where each has its own groups."""
    for site, label in grouping.absent[:10]:
        what = f"every set holds {label!r}" if grouping.by_class else "their threshold is infinite"
        few = f"Site {site!r} has too few points of {label!r}, or none, for a threshold of its own"
        yield f"{few}: there, {what}."
    if len(grouping.absent) > 10:
        yield f"So it is for {len(grouping.absent) - 10} more pairs of a site and a label."


def _listed(blocks: Sequence[PlanBlock]) -> tuple[int, str]:
    """How many sites there are in some blocks, and a few of them by name, or by size."""
    names = [name for block in blocks for name in block.names or ()]
    sizes = sorted({block.n for block in blocks})
    shown = names or [f"n = {n}" for n in sizes]
    return sum(block.count for block in blocks), ", ".join(shown[:10]) + ", ..." * (len(shown) > 10)


def _borne(part: PlanPart) -> str:
    """What the sites may do and still keep the promise."""
    silent = f", any {part.max_missing:,} of which may be silent" if part.max_missing else ""
    faulty = (
        f"{' and' if silent else ', of which'} {part.max_faulty:,} may be faulty" if part.max_faulty else ""
    )
    return silent + faulty


def _ways(advice: Advice, part: PlanPart, smallest: int, *, one_site: bool) -> list[str]:
    ways = []
    if advice.n_points is not None:
        where = "at the site" if part.n_sites == 1 else f"at each of {part.n_sites:,} sites"
        ways.append(f"{count(advice.n_points, 'point')} {where}")
        ways += _leaving_out(advice.n_points, part)
    if advice.n_sites is not None and not one_site:
        ways.append(f"{count(advice.n_sites, 'site')} of {count(smallest, 'point')}")
    if advice.epsilon is not None:
        ways.append(f"an epsilon of {advice.epsilon:g}")
    return ways


def _leaving_out(n_points: int, part: PlanPart) -> list[str]:
    """The sites without which the others would do, where one that is too small harms all."""
    small = [block for block in part.blocks or () if block.n < n_points]
    if not PROMISES[part.promise].smallest_decides or len(small) == len(part.blocks or ()):
        return []
    names = [name for block in small for name in block.names or ()]
    return [
        f"leaving out {', '.join(names[:10]) or f'sites with fewer than {n_points:,}'}"
        + ", ..." * (len(names) > 10)
    ]
