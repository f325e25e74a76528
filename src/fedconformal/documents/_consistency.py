"""Structure of documents: whether their parts fit together, whoever wrote them.

What a design promises is checked elsewhere: by its message when it is answered, and by the audit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedconformal.documents._grouping import KINDS, check_grouping
from fedconformal.documents._limits import (
    LARGEST_EPSILON,
    MOST_CELLS,
    MOST_LEVELS_OF_GROUPS,
    MOST_SENT,
    MOST_SITES,
    SMALLEST_EPSILON,
)
from fedconformal.documents._messages import (
    Bin,
    Cases,
    Curve,
    Gridded,
    MessageData,
    RankLevel,
    Ranks,
    RanksPayload,
)
from fedconformal.documents._names import check_labels, check_looks
from fedconformal.documents._terms import is_random

if TYPE_CHECKING:
    from fedconformal.documents._calibration import Calibration, CalibrationPart
    from fedconformal.documents._design import Design, SiteKind
    from fedconformal.documents._plan import Plan
    from fedconformal.documents._report import Report


def check_plan(plan: Plan) -> None:
    """Refuse a plan whose parts do not fit together."""
    check_labels([design.group for design in plan.designs])
    check_looks({name for design in plan.designs for name in design.site_names or ()})
    _check_work(plan.designs)
    if plan.classes is not None and len(set(plan.classes)) < len(plan.classes):
        raise ValueError("classes must be different")
    if plan.is_grouped:
        _check_groups(plan)
    elif plan.group_by is not None:
        raise ValueError("group_by was given, but there are no groups")
    if plan.keys is not None and sorted(key.site for key in plan.keys) != sorted(plan.site_names or ()):
        raise ValueError("keys must name exactly the sites that the plan names")
    for design in plan.designs:
        _check_design(design)
        drawn = isinstance(design.message, Cases)
        if drawn and not (plan.terms.round is not None and is_random(plan.terms.round)):
            raise ValueError("a plan for cases drawn at random needs a random round of 32 hexadecimal digits")


def _check_work(designs: Sequence[Design]) -> None:
    levels = sum(len(design.levels) for design in designs)
    if levels > MOST_LEVELS_OF_GROUPS:
        raise ValueError(f"levels times groups must be at most {MOST_LEVELS_OF_GROUPS:,}, got {levels:,}")
    cells = sum(
        design.message.n_cells * (1 if _serves_all_levels(design.message) else len(design.levels))
        for design in designs
        if isinstance(design.message, Gridded)
    )
    if cells > MOST_CELLS:
        raise ValueError(f"cells of all groups and levels must be at most {MOST_CELLS:,}, got {cells:,}")


def _serves_all_levels(message: Gridded) -> bool:
    return isinstance(message, Curve) and not message.offsets


def _check_groups(plan: Plan) -> None:
    if plan.group_by is not None and plan.group_by not in KINDS:
        known = " or ".join(" and ".join(kind) for kind in KINDS)
        raise ValueError(f"groups must be made of a label, or of {known}")
    if plan.grouping.by_site and any(len(design.site_names or ()) != 1 for design in plan.designs):
        raise ValueError("where groups are made of sites, each has one site, with a name")
    check_grouping(plan.grouping, plan.classes)
    if len({design.confidence_levels for design in plan.designs}) > 1:
        raise ValueError("all groups must have the same confidence levels")
    if len({design.message.kind for design in plan.designs}) > 1:
        raise ValueError("all groups must ask for the same kind of message")
    shared = ("edges", "bounded", "epsilon")
    if len({tuple(getattr(design.message, name, None) for name in shared) for design in plan.designs}) > 1:
        raise ValueError("all groups must have the same grid and epsilon")


def _check_design(design: Design) -> None:
    levels = [level.confidence_level for level in design.levels]
    if len(set(levels)) < len(levels):
        raise ValueError("a confidence level occurs twice")
    if design.delta is not None and 2 * design.delta > 1:
        raise ValueError("delta must be at most 0.5")
    names = design.site_names
    if names is not None and len(set(names)) < len(names):
        raise ValueError("a site occurs twice")
    if (design.n_sites or 0) > MOST_SITES:
        raise ValueError(f"a plan has at most {MOST_SITES:,} sites")
    if design.max_faulty and (design.n_sites is None or 2 * design.max_faulty >= design.n_sites):
        raise ValueError("max_faulty must be below half the number of sites, which must be known")
    if design.is_open:
        _check_open(design)
    else:
        _check_closed(design)
    check_message(design)


def _check_open(design: Design) -> None:
    if any(level.votes is not None or level.advice is not None for level in design.levels):
        raise ValueError("an open plan has neither votes nor advice: both depend on who answers")
    if design.names is not None and design.expected is not None:
        raise ValueError("an open plan has names or an expected number of sites, not both")


def _check_closed(design: Design) -> None:
    if not design.kinds or design.names is not None or design.expected is not None:
        raise ValueError("a plan of known sizes lists its sites, with their names")
    if len({bool(kind.names) for kind in design.kinds}) > 1:
        raise ValueError("either all sites have names or none")
    if any(kind.names and len(kind.names) != kind.count for kind in design.kinds):
        raise ValueError("count and the number of names differ")
    shares = {(kind.n, kind.share) for kind in design.kinds}
    if design.site_names is None and len({kind.n for kind in design.kinds}) < len(shares):
        raise ValueError("sites without names must have the same share if they have the same size")
    if any(level.votes is None for level in design.levels):
        raise ValueError("every level needs a number of votes where sizes are known")


def check_message(design: Design) -> None:
    """Refuse a message whose data do not fit the sites and levels of its design."""
    message = design.message
    epsilon = getattr(message, "epsilon", None)
    if epsilon is not None and not SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON:
        raise ValueError(f"epsilon must be between {SMALLEST_EPSILON:g} and {LARGEST_EPSILON:g}")
    if isinstance(message, Ranks):
        _check_ranks(design, message)
    elif isinstance(message, Curve):
        _check_curve(design, message)
    elif isinstance(message, Bin) and len(message.levels) != len(design.levels):
        raise ValueError("a bin has ranks for each level")


def _check_ranks(design: Design, message: Ranks) -> None:
    if len(message.levels) != len(design.levels):
        raise ValueError("ranks must be given for each level")
    for level in message.levels:
        if design.is_open:
            _check_rule(level)
        else:
            _check_ranks_of_level(design.kinds, level)
    if design.is_open:
        most = sum(level.rule.numbers for level in message.levels if level.rule is not None)
    else:
        most = max(
            sum(map(len, sent)) for sent in zip(*(level.ranks for level in message.levels), strict=True)
        )
        _check_alike(design, message)
    if most > MOST_SENT:
        raise ValueError(f"a site sends at most {MOST_SENT} numbers over all levels, got {most:,}")


def _check_ranks_of_level(kinds: Sequence[SiteKind], level: RankLevel) -> None:
    """Refuse ranks that sites do not have, and votes that are not those of the ranks."""
    if len(level.ranks) != len(kinds) or len(level.votes) not in (0, len(kinds)):
        raise ValueError("ranks and votes must be given for each kind of sites")
    for kind, ranks in zip(kinds, level.ranks, strict=True):
        if ranks and (ranks[-1] > kind.n + 1 or not kind.asked):
            raise ValueError("a rank must lie between 1 and n + 1, and a site that is not asked has none")
    pairs = zip(level.votes, level.ranks, strict=bool(level.votes))
    if any(len(votes) not in ({1, len(ranks)} if ranks else {0}) for votes, ranks in pairs):
        raise ValueError("votes must be one for all numbers of a site, or one for each")
    if level != RankLevel.of(level.ranks, level.all_votes(), level.rule):
        raise ValueError("votes must be written in their shortest form")


def _check_rule(level: RankLevel) -> None:
    """Refuse a level of an open plan without a rule by which sites find their ranks."""
    rule = level.rule
    if rule is None or level.ranks or level.votes:
        raise ValueError("an open plan has a rule for every level, and no ranks")
    if (rule.share is None) == (rule.eta is None):
        raise ValueError("a rule has a share or an eta")
    if (rule.spacing is None) != (rule.numbers == 1):
        raise ValueError("spacing must be given with several numbers, and only with them")


def _check_alike(design: Design, message: MessageData) -> None:
    """Refuse sites without names that have one size and different ranks: nobody could tell them apart."""
    if design.site_names is not None or not isinstance(message, Ranks):
        return
    columns = zip(
        *(zip(level.ranks, level.all_votes(), strict=True) for level in message.levels), strict=True
    )
    kinds = {(kind.n, column) for kind, column in zip(design.kinds, columns, strict=True)}
    if len({kind.n for kind in design.kinds}) < len(kinds):
        raise ValueError("sites without names must have the same ranks if they have the same size")


def _check_curve(design: Design, message: Curve) -> None:
    n_levels = len(design.levels)
    if bool(message.offsets) != (message.epsilon is not None and not design.is_open):
        raise ValueError("offsets must be given with noise, and only with it")
    if message.offsets and (
        len(message.offsets) != n_levels
        or any(len(each) not in (0, message.n_cells - 1) for each in message.offsets)
    ):
        raise ValueError("offsets must be given for each level and each edge but the last")
    if message.own and (
        len(message.own) != n_levels or any(len(each) != len(design.kinds) for each in message.own)
    ):
        raise ValueError("own counts must be given for each level and each kind of sites")


def check_report(report: Report) -> None:
    """Refuse a report whose parts do not fit together."""
    check_labels([part.group for part in report.parts])
    for part in report.parts:
        for sent in part.payload.levels if isinstance(part.payload, RanksPayload) else ():
            if len(sent.values) != len(sent.ranks):
                raise ValueError("ranks and values must have the same length")
            for rank, value in zip(sent.ranks, sent.values, strict=True):
                if rank > part.n + 1:
                    raise ValueError(f"a rank must lie between 1 and n + 1 = {part.n + 1}")
                if rank > part.n and value != math.inf:
                    raise ValueError("a rank above n has the value Infinity")


def check_calibration(calibration: Calibration) -> None:
    """Refuse a calibration whose parts do not fit together, or not its plan."""
    check_plan(calibration.plan)
    if [part.design.group for part in calibration.parts] != [
        design.group for design in calibration.plan.designs
    ]:
        raise ValueError("the parts must be those of the plan")
    sites = [received.site for received in calibration.reports]
    if sites != sorted(set(sites)):
        raise ValueError("the sites that answered must be different, in alphabetical order")
    counted = {name for part in calibration.parts for name in part.design.site_names or ()}
    if not counted <= set(sites):
        raise ValueError("a site answered without a report")
    for part, planned in zip(calibration.parts, calibration.plan.designs, strict=True):
        _check_part(planned, part)


_KEPT = ("promise", "criterion", "delta", "max_faulty", "max_missing")


def _check_part(planned: Design, part: CalibrationPart) -> None:
    """Refuse a part that cannot be the answer to a design of the plan."""
    design = part.design
    if any(getattr(design, name) != getattr(planned, name) for name in _KEPT):
        raise ValueError(f"{', '.join(_KEPT)} must be those of the plan")
    if [each.confidence_level for each in design.levels] != [
        each.confidence_level for each in planned.levels
    ]:
        raise ValueError("the levels must be those of the plan")
    if len(part.thresholds) != len(design.levels):
        raise ValueError("there must be a threshold for each level")
    if design.message.kind != planned.message.kind or not (design.sites or design.message == planned.message):
        raise ValueError("the message must be that of the plan")
    if len(part.missing) > part.n_missing:
        raise ValueError("n_missing must count the missing sites, named or not")
    _check_answers(design)
    too_few = (design.n_sites or 0) < design.fewest_answers
    for level, threshold in zip(design.levels, part.thresholds, strict=True):
        if (level.votes is None) != too_few:
            raise ValueError("votes must be left out if too few sites answered, and only then")
        if (level.votes is None or level.advice is not None) and threshold != math.inf:
            raise ValueError("the threshold must be Infinity where the level is not reached")
    if design.sites:
        check_message(design)
    _check_sizes(planned, design)


def _check_answers(design: Design) -> None:
    """Refuse sites that answered without a name, or twice."""
    if design.sites is None or (not design.sites and design.group is None):
        raise ValueError("at least one site must have answered")
    if any(not kind.names or len(kind.names) != kind.count or not kind.asked for kind in design.sites):
        raise ValueError("the sites that answered must have names")
    names = [name for kind in design.sites for name in kind.names]
    if len(set(names)) < len(names):
        raise ValueError("a site answered twice")


def _check_sizes(planned: Design, design: Design) -> None:
    """Refuse answers of sites, or of sizes, that the plan does not have."""
    if planned.site_names is not None:
        asked = set(planned.asked_names or ())
        if not {name for kind in design.kinds for name in kind.names} <= asked:
            raise ValueError("a site answered that the plan does not ask")
    for kind in design.kinds:
        for name in kind.names if planned.site_names is not None else (None,):
            planned.find_kind(kind.n, site=name)
    if planned.site_names is None and not planned.is_open:
        room, came = Counter[int](), Counter[int]()
        for kind in planned.kinds:
            room[kind.n] += kind.count * kind.asked
        for kind in design.kinds:
            came[kind.n] += kind.count
        if any(came[n] > room[n] for n in came):
            raise ValueError("more sites of a size answered than the plan has")
