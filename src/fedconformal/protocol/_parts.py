"""From wishes to one part of a plan: what is asked of the sites, for all points or for one group of them."""

from fractions import Fraction
from functools import lru_cache

import numpy as np

from fedconformal.documents import Advice, Level, PlanPart, fraction_text
from fedconformal.planning import Cases, Design, Goal, Private, Promise, Sending, Sites, usual_spacing
from fedconformal.privacy import Privacy
from fedconformal.protocol._federation import Asked
from fedconformal.protocol._wishes import Wishes

_REMEMBERED = 1000  # different sizes up to which a choice is remembered


def planned_part(asked: Asked, wishes: Wishes, privacy: Privacy | None, label: str | None = None) -> PlanPart:
    """What is planned for all points together, or for one group."""
    m = asked.n_sites
    if m is not None and 2 * wishes.max_faulty >= m:
        raise ValueError(
            f"max_faulty must be below half the number of sites, {m} / 2, got {wishes.max_faulty}"
        )
    if m is None and wishes.max_faulty:
        raise ValueError(
            f"max_faulty must be 0 while anybody may answer, got {wishes.max_faulty}: name the sites, or say "
            "how many there are"
        )
    if privacy is not None:
        _check_private_sites(privacy, asked, wishes)
    for level, share in zip(wishes.levels, wishes.shares, strict=True):
        wishes.promise.check(
            wishes.goal(level),
            private=privacy is not None,
            is_open=asked.is_open,
            searched=share is None,
            numbers=wishes.numbers,
        )
    designs = [
        _design(asked, wishes, level, share, privacy)
        for level, share in zip(wishes.levels, wishes.shares, strict=True)
    ]
    named = asked.names if asked.is_open else None
    sendings = [design.sending for design in designs]
    return PlanPart(
        label=label,
        promise=wishes.promise.name,
        criterion=wishes.criterion.name,
        delta=float(wishes.delta) if wishes.criterion.takes_delta else None,
        max_faulty=wishes.max_faulty,
        max_missing=wishes.max_missing,
        epsilon=None if privacy is None or label is None else privacy.epsilon,
        cases=next((sending.numbers for sending in sendings if isinstance(sending, Cases)), None),
        levels=tuple(_level(design, wishes.numbers) for design in designs),
        blocks=None if asked.is_open else asked.blocks(designs),
        names=named,
        expected=m if asked.is_open and named is None else None,
    )


def _design(
    asked: Asked, wishes: Wishes, level: Fraction, share: Fraction | None, privacy: Privacy | None
) -> Design:
    goal, promise = wishes.goal(level), wishes.promise
    sending: Sending = promise.sending(goal, wishes.numbers)
    if privacy is not None:
        sending = Private(privacy.release(len(wishes.levels)), len(wishes.levels))
    if asked.is_open:
        return promise.open_design(goal, sending, share, asked.n_sites)
    sites = asked.by_size
    if privacy is not None or sites.n_points.size > _REMEMBERED:
        return promise.choose(sites, goal, sending, share)
    kinds = tuple(sites.n_points.tolist()), tuple(sites.counts.tolist()), sites.shares
    return _chosen(promise, *kinds, goal, sending, share)


@lru_cache(maxsize=64)
def _chosen(
    promise: Promise,
    sizes: tuple[int, ...],
    counts: tuple[int, ...],
    shares: tuple[Fraction, ...] | None,
    goal: Goal,
    sending: Sending,
    share: Fraction | None,
) -> Design:
    """What a promise chooses, remembered: simulations and cross-validation ask for the same sizes again."""
    return promise.choose(Sites(np.array(sizes), np.array(counts), shares), goal, sending, share)


def _level(design: Design, numbers: int) -> Level:
    release = design.sending.release
    quantile, slope = (None, None) if release is None else (release.quantile, release.slope)
    by_rule = design.is_open and design.share is not None
    spacing = usual_spacing(numbers) if by_rule else None
    return Level(
        confidence_level=float(design.goal.level),
        share=None if design.share is None else fraction_text(design.share),
        server_rank=design.server_rank,
        advice=None if design.advice is None else Advice(**vars(design.advice)),
        quantile=None if quantile is None else fraction_text(quantile),
        slope=None if slope is None else fraction_text(slope),
        numbers=numbers if by_rule else 1,
        spacing=None if spacing is None else fraction_text(spacing),
        eta=None if design.eta is None else fraction_text(design.eta),
    )


def _check_private_sites(privacy: Privacy, asked: Asked, wishes: Wishes) -> None:
    """Refuse what does not go together with privacy."""
    if asked.is_open:
        raise ValueError("privacy needs n_points: the noise depends on how many scores each site has")
    if any(share is not None for share in wishes.shares):
        raise ValueError("local_ranks does not go with privacy: private sites aim at one common quantile")
    if privacy.one_hot and wishes.max_faulty:
        raise ValueError(
            f"max_faulty must be 0 with one-hot sums, where one site could cast every vote, got "
            f"{wishes.max_faulty}"
        )
    release = privacy.release()
    release.analysis.check(
        mechanism=release.mechanism,
        n_sizes=asked.by_size.n_points.size,
        criterion=wishes.criterion.name,
        max_faulty=wishes.max_faulty,
    )
