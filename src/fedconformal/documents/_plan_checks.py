"""Whether what a plan says fits together, whoever wrote it."""

from collections.abc import Sequence
from fractions import Fraction

from fedconformal.documents._grouping import KINDS, Grouping, Made, check_grouping
from fedconformal.documents._plan_designs import designs_of
from fedconformal.documents._plan_parts import PlanPart, PrivacyRule
from fedconformal.documents._plan_views import largest_cost, privacy_of
from fedconformal.documents._terms import is_random
from fedconformal.planning import PROMISES, Cases, Design, Promise
from fedconformal.privacy import ANALYSES, MECHANISMS


def check_classes(classes: Sequence[str] | None) -> None:
    """Refuse a class that is named twice."""
    if classes is not None and len(set(classes)) < len(classes):
        raise ValueError("classes must be different")


def check_groups(
    parts: Sequence[PlanPart],
    group_by: tuple[Made, ...] | None,
    grouping: Grouping,
    classes: Sequence[str] | None,
    privacy: PrivacyRule | None,
) -> None:
    """Refuse groups that are not made of what they say, or do not go together."""
    if group_by is not None and group_by not in KINDS:
        known = " or ".join(" and ".join(made) for made in KINDS)
        raise ValueError(f"groups must be made of a label, or of {known}")
    if grouping.by_site and any(len(part.site_names or ()) != 1 for part in parts):
        raise ValueError("where groups are made of sites, each has one site, with a name")
    check_grouping(grouping, classes)
    if len({tuple(level.confidence_level for level in part.levels) for part in parts}) > 1:
        raise ValueError("all groups must have the same confidence levels")
    if privacy is not None and privacy.one_hot:
        raise ValueError("groups do not go with one-hot vectors")
    if any((part.epsilon is None) != (privacy is None) for part in parts):
        raise ValueError("every group has a part of epsilon if the plan is private, and none otherwise")
    whole = None if privacy is None else Fraction(str(privacy.epsilon))
    if whole is not None and largest_cost(parts, grouping, grouping.groups) > whole:
        raise ValueError("the groups' parts of epsilon add up to more than the whole")
    for part in parts:
        if not PROMISES[part.promise].allows_groups:
            raise ValueError(f"promise {part.promise!r} does not go with groups: it is a plan of its own")


def check_faulty(parts: Sequence[PlanPart], privacy: PrivacyRule | None) -> None:
    """How many reports are wrong means nothing where nobody knows how many there may be, or whose."""
    if not any(part.max_faulty for part in parts):
        return
    if any(part.n_sites is None for part in parts):
        raise ValueError("max_faulty must be 0 while anybody may answer: name the sites, or count them")
    if privacy is not None and privacy.one_hot:
        raise ValueError("max_faulty must be 0 with one-hot sums, where one site could cast every vote")


def check_part(part: PlanPart, privacy: PrivacyRule | None, round_id: str | None) -> None:
    """Refuse a part whose levels and blocks are not those of its promise, or of the plan's privacy."""
    if any((privacy is None) != (level.quantile is None) for level in part.levels):
        raise ValueError("every level has a quantile if the plan is private, and none otherwise")
    if part.blocks is None and privacy is not None:
        raise ValueError("a private plan needs the sizes of the sites")
    if privacy is not None:
        ANALYSES[privacy.analysis]().check(
            mechanism=MECHANISMS[privacy.mechanism](),
            n_sizes=len({block.n for block in part.blocks or ()}),
            criterion=part.criterion,
            max_faulty=part.max_faulty,
        )
    if part.cases is not None and (round_id is None or not is_random(round_id)):
        raise ValueError("a plan for cases drawn at random has a random round: 32 hexadecimal digits")
    promise, private = PROMISES[part.promise](), privacy is not None
    for level, design in zip(part.levels, designs_of(part, privacy_of(part, privacy)), strict=True):
        numbers = part.cases or level.numbers
        promise.check(design.goal, private=private, is_open=design.is_open, numbers=numbers)
        _check_fitting(promise, part, design)
        promise.check_design(design)
        if private and any(block.weights != (1,) for block in design.blocks):
            raise ValueError("in a private plan every site sends one number, of one vote")
        release = design.sending.release
        if release is not None and any(b.ranks[0] != release.rank(b.n) for b in design.blocks):
            raise ValueError("the ranks of private sites do not follow from the quantile")


def _check_fitting(promise: Promise, part: PlanPart, design: Design) -> None:
    """Refuse fields of another promise."""
    if (part.cases is not None) != isinstance(promise.sending(design.goal, 1), Cases):
        raise ValueError("cases are drawn for a promise on average over new sites, and only there")
    if design.eta is not None and not (promise.takes_eta and design.goal.criterion.takes_delta):
        raise ValueError("eta goes with a promise to new sites one by one")
    if not promise.takes_mixture and any(block.share is not None for block in design.blocks):
        raise ValueError("a share of new points goes with a promise to a mixture")
