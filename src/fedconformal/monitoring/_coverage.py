"""New cases of a site, and inference on the coverage from the number that is covered,
with or without noise.

Let c be the coverage here, X ~ Binomial(n, c) the covered cases, and Y what is known of
X: X itself, or X plus symmetric noise Z independent of X, cut off at 0 and n. X is
stochastically increasing in c, so is Y, and P_c(Y <= y) does not grow with c, for any
y. Two things follow.

*p-value.* If c >= level, then P_c(Y <= y) <= P_level(Y <= y) =: p(y) for every y, hence
P_c(p(Y) <= a) <= P_level(p(Y) <= a) <= a, because p is the cdf of Y at the level, taken
at Y itself.

*Interval.* It holds all c with P_c(Y <= y) > a/2 and P_c(Y >= y) > a/2. The true c is
missing on one side only if Y fell where its own cdf is at most a/2, which has
probability at most a/2; the same on the other side. So the interval covers c with
probability at least 1 - a, for every c. Both sets of c are intervals because the
probabilities are monotone. Without noise this is Clopper's and Pearson's.

By symmetry (n - X ~ Binomial(n, 1 - c), Z and -Z alike) the lower end is that of a
mirrored count.
"""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from fedconformal._text import quoted
from fedconformal._util import Bools, Floats, Ints, fraction
from fedconformal.documents import (
    MOST_CHECKED,
    MOST_COLUMNS,
    Calibration,
    CalibrationView,
    CheckQuestion,
    Plan,
    PlanView,
    group_name,
    unique_labels,
)
from fedconformal.metrics import clopper_pearson
from fedconformal.privacy import CountNoise
from fedconformal.protocol import refuse_answers

Checked = Calibration | CalibrationView
"""A calibration, or one group of it."""

Answerable = Checked | CheckQuestion
"""What a site can answer: the question alone has the thresholds, too."""

_POWER = 0.8  # with which a check detects the coverage that it is said to detect
_MOST_CASES = 30_000


# -- new cases, their groups, and which of them are covered ----------------------------


@dataclass(frozen=True, eq=False)
class Cases:
    """New cases, covered or not, in groups by their values in some columns; one group
    without columns.

    Parameters
    ----------
    scores : array of shape (n,)
        Their scores.
    inside : bool array of shape (n, n_levels)
        True where a case is covered.
    by : tuple of str
        The columns.
    values : tuple of tuples of str
        The combinations of values that occur, in alphabetical order.
    which : array of int
        For each case the place of its combination among them.
    """

    scores: NDArray[np.floating[Any]]
    inside: Bools
    by: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    which: Ints

    @property
    def names(self) -> tuple[str, ...]:
        """Name of each group."""
        return tuple(group_name(self.by, values) for values in self.values)

    @property
    def sizes(self) -> list[int]:
        """Number of cases in each group."""
        sizes: list[int] = np.bincount(self.which, minlength=len(self.values)).tolist()
        return sizes

    @property
    def counts(self) -> Ints:
        """Number of covered cases in each group at each level, (n_groups, n_levels)."""
        counts = np.zeros((len(self.values), self.inside.shape[1]), dtype=np.int64)
        np.add.at(counts, self.which, self.inside)
        return counts

    def keep_large(self, fewest: int) -> "Cases":
        """Return the cases of groups with at least this many."""
        kept = np.array(self.sizes) >= fewest
        mask, place = kept[self.which], np.cumsum(kept) - 1
        values = tuple(
            values for values, keep in zip(self.values, kept, strict=True) if keep
        )
        return Cases(
            self.scores[mask],
            self.inside[mask],
            self.by,
            values,
            place[self.which[mask]],
        )


def count_cases(
    checked: Answerable,
    scores: NDArray[np.floating[Any]],
    *,
    by: Mapping[str, ArrayLike] | None = None,
    groups: ArrayLike | None = None,
    site: str | None = None,
) -> Cases:
    """Compare scores with the thresholds of their cases; an infinite threshold covers
    everything.
    """
    if not isinstance(checked, CheckQuestion):
        refuse_answers(checked.whole.sets)
    thresholds = _thresholds_of_cases(checked, scores.size, groups, site)
    exact = scores.astype(
        np.result_type(scores, np.float64), copy=False
    )  # else the threshold is rounded
    inside = (exact[:, np.newaxis] <= thresholds) | np.isposinf(thresholds)
    if by is None:
        return Cases(scores, inside, (), ((),), np.zeros(scores.size, dtype=np.int64))
    return Cases(scores, inside, tuple(by), *_combine_columns(by, scores.size))


def _combine_columns(
    by: Mapping[str, ArrayLike], n: int
) -> tuple[tuple[tuple[str, ...], ...], Ints]:
    """Return every combination of values that occurs, and the place of each case's
    among them.
    """
    if not isinstance(by, Mapping) or not 1 <= len(by) <= MOST_COLUMNS:
        raise ValueError(
            f"by must map 1 to {MOST_COLUMNS} columns to the values of all cases, got"
            f" {by!r:.80}"
        )
    columns = []
    for column, labels in by.items():
        names, which = unique_labels(labels)
        if which.size != n:
            raise ValueError(
                f"by must hold a value for each of the {n} cases, got {which.size} of"
                f" {column!r}"
            )
        columns.append([names[i] for i in which])
    rows = list(zip(*columns, strict=True))
    values = sorted(set(rows))
    if len(values) > MOST_CHECKED:
        raise ValueError(
            f"by must make at most {MOST_CHECKED} groups, got {len(values)} of"
            f" {', '.join(by)}: make bands of numbers first"
        )
    places = {row: i for i, row in enumerate(values)}
    return tuple(values), np.array([places[row] for row in rows], dtype=np.int64)


def _thresholds_of_cases(
    checked: Answerable, n: int, groups: ArrayLike | None, site: str | None
) -> Floats:
    """Return the thresholds of each of n cases, (n, n_levels): those of its group,
    where there are groups.
    """
    calibration, grouping = checked.whole, checked.whole.plan.grouping
    if (
        isinstance(calibration, CheckQuestion)
        or checked.group is not None
        or not calibration.plan.is_grouped
    ):
        if groups is not None:
            raise ValueError(
                "`groups` was given, but all these cases have the same thresholds"
            )
        return np.tile(np.array(checked.selected_parts[0].thresholds), (n, 1))
    if not grouping.has_labels:
        groups = np.full(n, grouping.group_of_site(site), dtype=object)
    elif groups is None:
        raise ValueError(
            "groups must be given: this calibration has a threshold for each "
            f"{'true class' if grouping.by_class else 'group'}"
        )
    thresholds = calibration.threshold_of(groups, site=site)
    thresholds = thresholds.reshape(-1, len(calibration.plan.confidence_levels))
    if len(thresholds) != n:
        raise ValueError(
            f"groups must hold the group of each of the {n} cases, got"
            f" {len(thresholds)}"
        )
    return thresholds


def refuse_groups(document: Plan | PlanView | Checked) -> None:
    """Refuse a document with groups of which none is selected, and name them."""
    groups = [
        design.group for design in document.selected_designs if design.group is not None
    ]
    if groups and document.group is None:
        raise ValueError(
            f"this {document.kind} has groups, {quoted(groups)}: ask about one of them,"
            f" as in {document.kind}[{groups[0]!r}]"
        )


def refuse_levels(checked: Answerable) -> None:
    """Refuse a view of some levels where an answer has a count for every level."""
    levels = checked.whole.plan.confidence_levels
    if len(checked.selected_levels) < len(levels):
        raise ValueError(
            f"an answer has a count for each of the {len(levels)} levels: give the"
            " calibration, or one group"
        )


def level_places(
    document: Plan | PlanView | Checked, confidence_level: float | None
) -> Sequence[int]:
    """Return the place of a confidence level in a document; those of all its levels by
    default.
    """
    if confidence_level is None:
        return document.selected_levels
    levels = [
        (i, document.selected_designs[0].levels[i].confidence_level)
        for i in document.selected_levels
    ]
    wanted = fraction("confidence_level", confidence_level)
    if places := [i for i, level in levels if level == wanted]:
        return places
    known = ", ".join(str(float(level)) for _, level in levels)
    raise ValueError(
        f"confidence_level must be one of the {document.kind}'s, {known}, got"
        f" {confidence_level}"
    )


# -- inference -------------------------------------------------------------------------


def count_cdf(n: int, y: int, miss: float, noise: CountNoise | None = None) -> float:
    """Return P(Y <= y) where each of n cases is missed with probability ``miss``.

    With noise it is ``sum_k P(Z = y - k) P(X <= k)`` over all k, of which those are
    added up that matter: up to 1e-29 in all, P(X <= k) is 0 or 1 outside of a window of
    Hoeffding's width (the rest of the sum is then P(Z <= z) in closed form), and so
    large a noise that y - k is not in the other window does not occur.
    """
    if y >= n:
        return 1.0
    if noise is None:
        return float(special.betainc(n - y, y + 1, miss))
    centre, width = math.floor(n * (1 - miss)), math.ceil(math.sqrt(34.6 * n)) + 1
    noisy = math.ceil(min(70 * noise.scale, n)) + 1
    low, high = max(0, centre - width, y - noisy), min(n, centre + width, y + noisy)
    k = np.arange(low, high)
    inside = float(noise.pmf(y - k) @ special.betainc(n - k, k + 1, miss))
    return min(1.0, inside + float(noise.cdf(y - high)))


def interval(
    n: int, y: int, confidence: Fraction, noise: CountNoise | None = None
) -> tuple[float, float]:
    """Return a confidence interval for the coverage."""
    if noise is None:
        low, high = clopper_pearson(y, n, confidence=float(confidence))
        return float(low), float(high)
    tail = float((1 - confidence) / 2)
    return _smallest_miss(n, n - y, tail, noise), 1 - _smallest_miss(n, y, tail, noise)


def _smallest_miss(n: int, y: int, tail: float, noise: CountNoise) -> float:
    """Return the smallest miss for which P(Y <= y) > tail; at most 3e-12 less, never
    more.
    """
    if count_cdf(n, y, 0.0, noise) > tail:
        return 0.0
    from scipy import optimize  # which takes long to import, and no site needs

    root = optimize.brentq(
        lambda miss: count_cdf(n, y, miss, noise) - tail, 0.0, 1.0, xtol=1e-12
    )
    return max(0.0, float(root) - 2e-12)


def detectable_coverage(
    n: int, level: Fraction, alarm: float, power: float
) -> float | None:
    """Return the largest coverage that a test of n cases at this false-alarm rate
    detects with this power.

    None if the test cannot detect anything, because even n misses out of n could be
    chance.
    """
    miss = float(1 - level)
    critical = bisect_right(range(n), alarm, key=lambda k: count_cdf(n, k, miss)) - 1
    return (
        None
        if critical < 0
        else 1 - float(special.betaincinv(n - critical, critical + 1, power))
    )


def holm(p_values: list[float]) -> list[float]:
    """Return adjusted p-values: reject those at most a, and a wrong one has probability
    at most a.
    """
    adjusted, largest = [0.0] * len(p_values), 0.0
    for place, i in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[i]))
        adjusted[i] = largest
    return adjusted


@dataclass(frozen=True)
class CoverageCheck:
    """Inference on the coverage at one level from n new cases.

    Attributes
    ----------
    confidence_level : float
        The level that the calibration was made for.
    threshold : float or None
        A case is covered if its score is at most this; None where cases have thresholds
        of their own groups.
    n : int
        Number of cases.
    covered : int
        Number of covered cases, perhaps with noise.
    interval : tuple of two floats
        For the true coverage; holds it with probability at least ``confidence``,
        whatever it is.
    p_value : float
        If the coverage is at least the level, this few covered cases or fewer have at
        most this probability.
    confidence : float
        Of the interval; a p-value of at most 1 - confidence is evidence of a shortfall.
    """

    confidence_level: float
    threshold: float | None
    n: int
    covered: int
    interval: tuple[float, float]
    p_value: float
    confidence: float

    @property
    def coverage(self) -> float:
        """Share of cases that are covered."""
        return self.covered / self.n

    @property
    def falls_short(self) -> bool:
        """True if chance alone does not explain this few covered cases; in case of
        rounding, False.
        """
        return self.p_value * (1 + 1e-12) <= self._alarm

    @property
    def detectable(self) -> float | None:
        """Coverage that a check of this many exact cases detects with 80 % power; None
        if it cannot.
        """
        return detectable_coverage(
            self.n, Fraction(str(self.confidence_level)), self._alarm, _POWER
        )

    @property
    def _alarm(self) -> float:
        return float(1 - Fraction(str(self.confidence)))


def common_thresholds(checked: Answerable) -> tuple[float | None, ...]:
    """Return the threshold of each level; None where groups have different ones."""
    by_level = zip(*(part.thresholds for part in checked.selected_parts), strict=True)
    return tuple(values[0] if len(set(values)) == 1 else None for values in by_level)


def infer_coverage(
    checked: Checked,
    level: int,
    n: int,
    covered: int,
    confidence: Fraction,
    noise: CountNoise | None = None,
) -> CoverageCheck:
    """Infer the coverage at one of the levels from a count."""
    wanted = checked.selected_designs[0].levels[level].confidence_level
    threshold = common_thresholds(checked)[level]
    everything = threshold == math.inf
    return CoverageCheck(
        float(wanted),
        threshold,
        n,
        covered,
        (1.0, 1.0) if everything else interval(n, covered, confidence, noise),
        1.0 if everything else count_cdf(n, covered, float(1 - wanted), noise),
        float(confidence),
    )


def cases_needed(
    confidence_level: float,
    coverage: float,
    *,
    confidence: float = 0.95,
    power: float = _POWER,
) -> int:
    """Return the smallest number of new cases with which a check detects that the
    coverage is this low.

    A check of this many cases finds a shortfall with probability at least ``power`` if
    the coverage is ``coverage``, and with probability at most 1 - ``confidence`` if it
    is at least the level.

    Parameters
    ----------
    confidence_level : float
        The level that was promised.
    coverage : float
        The true coverage that is to be detected, below the level.
    confidence : float
        Of the check.
    power : float
        Probability of detecting it, at least.

    Returns
    -------
    int
        Number of cases.

    Raises
    ------
    ValueError
        If more than 30,000 would be needed.

    Examples
    --------
    >>> cases_needed(0.9, 0.8)
    78
    """
    level = fraction("confidence_level", confidence_level)
    low = fraction("coverage", coverage, high=float(level))
    alarm = float(1 - fraction("confidence", confidence))
    wanted = float(fraction("power", power))
    critical = -1
    for n in range(1, _MOST_CASES + 1):
        # One more case raises the critical count by one or not at all.
        critical += count_cdf(n, critical + 1, float(1 - level)) <= alarm
        if critical >= 0 and count_cdf(n, critical, float(1 - low)) >= wanted:
            return n
    raise ValueError(
        f"coverage must be further below {confidence_level}, got {coverage}: "
        f"more than {_MOST_CASES:,} cases would be needed to detect it"
    )
