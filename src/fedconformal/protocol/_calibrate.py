"""The server's whole job: reports in, thresholds out."""

import math
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fedconformal import _validation
from fedconformal._text import count
from fedconformal.documents import (
    Advice,
    Aggregate,
    Answer,
    Calibration,
    CalibrationPart,
    Plan,
    Received,
    Refusal,
    Report,
    Threshold,
    weights_of,
)
from fedconformal.planning import Block, merged
from fedconformal.protocol._assumptions import assumptions_of
from fedconformal.protocol._intake import Intake, RefusedReportsError, take_in
from fedconformal.protocol._request import check_whole

Ballots = Sequence[tuple[float, int]]
"""The numbers that came in at one level, each with its votes."""


def calibrate(
    plan: Plan,
    reports: Iterable[Report],
    *,
    on_refused: Literal["raise", "skip"] = "raise",
    unreadable: Iterable[Refusal] = (),
) -> Calibration:
    """Turn reports into a threshold with its law, for all points or for each group.

    Every report is checked against the plan: its digest, the site and its signature, no second report of a
    site, sizes and ranks as planned. The votes are then solved anew for the sites that answered. The order of
    the reports does not matter.

    Parameters
    ----------
    plan : Plan
        The plan that was answered.
    reports : iterable of Report
        One per site; sites that are not there count as missing.
    on_refused : {"raise", "skip"}
        Raise a RefusedReportsError that names everything that was refused, or skip it: it then counts as
        missing, and the calibration says so.
    unreadable : iterable of Refusal
        Refusals from before, of reports that could not even be read.

    Returns
    -------
    Calibration
        Thresholds, who answered, and what the guarantee rests on.

    Raises
    ------
    RefusedReportsError
        If reports were refused and ``on_refused="raise"``.
    ValueError
        If too few sites answered for any threshold.

    Examples
    --------
    >>> import numpy as np
    >>> import fedconformal as fc
    >>> rng = np.random.default_rng(0)
    >>> chosen = fc.plan(n_sites=5, n_points=50, confidence_level=0.9)
    >>> reports = [fc.report(chosen, rng.random(50), site=name) for name in "ABCDE"]
    >>> round(fc.calibrate(chosen, reports).threshold, 2)
    0.92
    """
    _validation.choice("on_refused", on_refused, ("raise", "skip"))
    if plan.privacy is not None and plan.privacy.one_hot:
        raise ValueError(
            "this plan asks for secure aggregation: its answers are summed and calibrated as a histogram"
        )
    _check_plan(plan)
    intake = take_in(plan, reports, unreadable=unreadable)
    if on_refused == "raise" and intake.all_refused:
        raise RefusedReportsError(intake.all_refused)
    _check_enough(plan, intake)
    parts = [_part(plan, label, intake) for label in intake.numbers]
    return Calibration(
        plan=plan,
        parts=tuple(parts),
        reports=tuple(
            Received(
                site=report.site,
                report=report.digest,
                signature=None if plan.keys is None else report.signature,
            )
            for report in intake.reports
        ),
        refused=intake.refused,
        assumptions=assumptions_of(plan, max(part.n_missing for part in parts)),
    )


def _check_plan(plan: Plan) -> None:
    check_whole(plan)
    if plan.has_expired():
        raise ValueError(f"this plan expired at {plan.expires}: nothing is calibrated any more")


def _check_enough(plan: Plan, intake: Intake) -> None:
    """Refuse to calibrate on too few answers; with groups, one answer for any of them is enough."""
    needed = 1 if plan.is_grouped else plan.fewest_answers
    if len(intake.reports) >= needed:
        return
    faulty = "" if plan.is_grouped or not plan.max_faulty else f" with max_faulty = {plan.max_faulty}"
    verb = "is" if needed == 1 else "are"
    answered = count(len(intake.reports), "site")
    raise ValueError(f"{answered} answered: at least {needed} {verb} needed{faulty}")


def _part(plan: Plan, label: str | None, intake: Intake) -> CalibrationPart:
    """The thresholds of all points, or of one group, and who answered."""
    alone, numbers = plan if label is None else plan[label], intake.numbers[label]
    names, n_asked = alone.part.asked_names, alone.part.n_asked or 0
    missing = tuple(sorted(set(names or ()) - set(numbers)))
    votes = {site: alone.part.votes_for(part.n, site=site) for site, part in numbers.items()}
    shares = {site: alone.part.share_for(part.n, site=site) for site, part in numbers.items()}
    levels = range(len(alone.levels))
    blocks = [
        merged(
            Block(1, part.n, part.ranks[i], votes[site][i], shares[site]) for site, part in numbers.items()
        )
        for i in levels
    ]
    ballots = [
        [pair for site, part in numbers.items() for pair in zip(part.values[i], votes[site][i], strict=True)]
        for i in levels
    ]
    return CalibrationPart(
        label=label,
        levels=_thresholds(alone, len(numbers), blocks, ballots),
        answers=tuple(
            Answer(site=site, n=part.n, ranks=part.ranks, weights=weights_of(votes[site]))
            for site, part in numbers.items()
        ),
        missing=missing,
        n_missing=max(0, n_asked - len(numbers)) if names is None else len(missing),
        refused=intake.refused_in[label],
    )


def _thresholds(
    plan: Plan, n_answers: int, blocks: Sequence[tuple[Block, ...]], ballots: Sequence[Ballots]
) -> tuple[Threshold, ...]:
    """One threshold per level from the sites that answered and their numbers.

    A higher level never gets a smaller threshold.
    """
    levels = plan.confidence_levels
    if n_answers < plan.fewest_answers:
        return tuple(Threshold(confidence_level=level, threshold=math.inf) for level in levels)
    found, largest = {}, -math.inf
    for i in sorted(range(len(levels)), key=lambda i: levels[i]):
        design = plan.designs[i].for_answers(block for block in blocks[i] if block.ranks)
        votes = design.server_rank or 1
        largest = max(largest, smallest_with(ballots[i], votes))
        found[i] = Threshold(
            confidence_level=levels[i],
            server_rank=votes,
            threshold=largest,
            advice=None if design.advice is None else Advice(**vars(design.advice)),
        )
    return tuple(found[i] for i in range(len(levels)))


def smallest_with(ballots: Ballots, votes: int) -> float:
    """The smallest number at which the votes of all numbers up to it reach those needed; else +inf."""
    for value, vote in sorted(ballots):
        votes -= vote
        if votes <= 0:
            return value
    return math.inf


def calibrate_histogram(plan: Plan, histogram: ArrayLike) -> Calibration:
    """Turn the sum of all sites' one-hot vectors into a threshold: the same as from separate reports.

    The server learns how many sites chose each bin, not who chose it. Unless every site answered, all sites
    must have the same size: nobody knows whose vector is missing.

    Parameters
    ----------
    plan : Plan
        A private plan.
    histogram : array-like of int
        Counts, one per bin, or one row per level.

    Returns
    -------
    Calibration
        Thresholds, and how many sites answered.

    Examples
    --------
    >>> import fedconformal as fc
    >>> privacy = fc.Privacy(8.0, fc.Bins.uniform(0, 1, 10), one_hot=True)
    >>> plan = fc.plan(n_sites=5, n_points=100, privacy=privacy)
    >>> fc.calibrate_histogram(plan, [0, 0, 0, 0, 0, 0, 0, 0, 1, 4]).n_answers
    5
    """
    if plan.bins is None or plan.is_grouped or plan.blocks is None:
        raise ValueError("a histogram goes with a private plan without groups")
    _check_plan(plan)
    if plan.max_faulty:
        raise ValueError(
            f"a histogram goes with max_faulty = 0, got {plan.max_faulty}: one site could cast every vote"
        )
    if plan.keys is not None:
        raise ValueError("this plan asks for signed reports, and nobody signs a sum")
    sums = _checked_histogram(plan, histogram)
    m, planned = int(sums[0].sum()), plan.n_sites or 0
    if m == planned:
        blocks = [(block.count, block.n, block.ranks) for block in plan.blocks]
    elif len({block.n for block in plan.blocks}) == 1:
        blocks = [(m, plan.blocks[0].n, plan.blocks[0].ranks)]
    else:
        missing = count(planned - m, "site")
        raise ValueError(f"{missing} did not answer, and sizes differ: nobody knows whose is missing")
    values = [plan.bins.value(b) for b in range(plan.bins.n_bins)]
    levels = range(len(plan.levels))
    answered = [merged(Block(count, n, ranks[i]) for count, n, ranks in blocks) for i in levels]
    ballots = [[(value, int(vote)) for value, vote in zip(values, row, strict=True) if vote] for row in sums]
    part = CalibrationPart(
        levels=_thresholds(plan, m, answered, ballots),
        aggregated=tuple(Aggregate(count=count, n=n, ranks=ranks) for count, n, ranks in blocks),
        n_missing=planned - m,
    )
    return Calibration(plan=plan, parts=(part,), assumptions=assumptions_of(plan, planned - m))


def _checked_histogram(plan: Plan, histogram: ArrayLike) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    assert plan.bins is not None
    sums = np.atleast_2d(_validation.plain_array(histogram))
    shape = (len(plan.levels), plan.bins.n_bins)
    if sums.dtype.kind not in "iu" or sums.shape != shape or (sums < 0).any():
        raise ValueError(f"histogram must hold counts >= 0 of shape {shape}, got {sums.dtype} {sums.shape}")
    totals, planned = (
        {sum(row) for row in sums.tolist()},
        plan.n_sites or 0,
    )  # none wraps round
    m = totals.pop()
    if totals or not plan.fewest_answers <= m <= planned:
        least = plan.fewest_answers
        raise ValueError(f"histogram must count {least} to {planned} sites, the same in every row, got {m}")
    return sums
