"""A site's answer after a check: how many new cases are covered, exact or with noise."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import ValidationError

from fedconformal._text import count, quoted
from fedconformal._typing import Bools, Floats, Ints
from fedconformal.documents import Calibration, Check, CheckedGroup, first_problem
from fedconformal.monitoring._cases import (
    Checked,
    GroupedCases,
    covered_cases,
    group_cases,
    refuse_groups,
    refuse_levels,
    thresholds_of_cases,
)
from fedconformal.monitoring._coverage import common_thresholds
from fedconformal.privacy import Ledger, exact_text, fingerprint, prepare_count
from fedconformal.protocol import PolicyError, SitePolicy, flat_scores, private_numbers


def answer(
    calibration: Checked,
    scores: ArrayLike,
    *,
    site: str,
    epsilon: float | None = None,
    by: Mapping[str, ArrayLike] | None = None,
    groups: ArrayLike | None = None,
    policy: SitePolicy | None = None,
    ledger: Ledger | None = None,
    dataset: str | None = None,
) -> Check:
    """Return everything that leaves the site after a check: its name, how many new cases, how many covered.

    The calibration is verified first, as far as it can be without the reports: whoever asks may still have
    chosen the threshold, and the site's policy and its ledger bound what can be learned that way. With
    ``epsilon`` the numbers of covered cases are differentially private when one case is replaced; how many
    cases there are is public. The ledger is charged before anything is drawn, and gives the same answer again
    for the same calibration and data set.

    Parameters
    ----------
    calibration : Calibration
        As for `check`; one with groups as a whole, too.
    scores : array-like
        As for `check`: they must be new. Private answers never refuse a score: NaN is not covered by any
        finite threshold.
    site : str
        The site's name.
    epsilon : float, optional
        Privacy loss of the whole answer, in [1e-6, 100]; exact counts if left out. With ``by`` it is shared
        evenly by all counts, and how many cases have which values is public.
    by : mapping from str to array-like, optional
        Columns and the value of every case in them, as in ``{"truth": y}``: the counts are then those of each
        combination of values. Combinations of fewer cases than the policy's ``min_group`` are left out of
        the answer, with their cases.
    groups : array-like, optional
        For a calibration with groups, the group of every case (its true class, where groups are classes).
        The answer is by these unless ``by`` says otherwise.
    policy : SitePolicy, optional
        Limits on what this site discloses; safe defaults if left out. Every level of every group counts as
        one number.
    ledger, dataset : Ledger and str, optional
        For a private answer, the account that it is charged to and what the new cases are called in it. With
        an exact answer they are an error, unless the policy says ``private_only=False``: it is then recorded.

    Returns
    -------
    Check
        Everything that leaves the site.

    Raises
    ------
    ValueError
        If the answer cannot be given; nothing has been charged then.

    Examples
    --------
    >>> import numpy as np
    >>> import fedconformal as fc
    >>> scores = np.random.default_rng(0).random((2, 200))
    >>> calibration = fc.conformalize({"A": scores[0]})
    >>> fc.monitoring.answer(calibration, scores[1], site="A")
    <Check: 188 of 200 new cases covered, site 'A'>
    """
    return prepare_answer(
        calibration,
        scores,
        site=site,
        epsilon=epsilon,
        by=by,
        groups=groups,
        policy=policy,
        ledger=ledger,
        dataset=dataset,
    ).make()


def prepare_answer(
    calibration: Checked,
    scores: ArrayLike,
    *,
    site: str,
    epsilon: float | None = None,
    by: Mapping[str, ArrayLike] | None = None,
    groups: ArrayLike | None = None,
    policy: SitePolicy | None = None,
    ledger: Ledger | None = None,
    dataset: str | None = None,
) -> "PreparedAnswer":
    """Prepare an answer: nothing is drawn, charged or written yet.

    Parameters
    ----------
    calibration, scores, site, epsilon, by, groups, policy, ledger, dataset : as for `answer`
        What would be given to it.

    Returns
    -------
    PreparedAnswer
        Its ``sentence`` says what would leave and what that costs; its ``make`` makes the Check.

    Raises
    ------
    ValueError
        Where `answer` would refuse.

    Examples
    --------
    >>> import numpy as np
    >>> import fedconformal as fc
    >>> scores = np.random.default_rng(0).random((2, 200))
    >>> calibration = fc.conformalize({"A": scores[0]})
    >>> type(fc.monitoring.prepare_answer(calibration, scores[1], site="A")).__name__
    'PreparedAnswer'
    """
    if (ledger is None) != (dataset is None) or (epsilon is not None and ledger is None):
        raise ValueError(
            "a private answer needs ledger and dataset, so that no budget is overspent: give both"
        )
    policy = SitePolicy() if policy is None else policy
    if not isinstance(policy, SitePolicy):
        raise TypeError(f"policy must be a SitePolicy, got {policy!r}")
    policy.check_exact(is_exact=epsilon is None, has_ledger=ledger is not None)
    published = calibration.whole
    policy.check_author("calibration", published)
    policy.check_names(published.plan)
    refuse_levels(calibration)
    values = flat_scores(scores) if epsilon is None else fill_missing(scores)
    cases = _Cases.of(calibration, values, by, groups, site)
    cases, left_out = cases.allowed(policy)
    _check_policy(calibration, cases, values.size, policy)
    _refuse_unverified(published)
    # Made before any charge, so that what no document can hold costs nothing.
    blank = _filled(calibration, site, epsilon, cases, np.zeros_like(cases.counts))
    if epsilon is not None:
        policy.check_epsilon(Fraction(str(epsilon)))
        epsilon_per_count(calibration, blank)
    if ledger is not None and dataset is not None:
        _refuse_used(calibration, ledger, dataset)
    return PreparedAnswer(calibration, blank, cases, left_out, policy, ledger, dataset)


@dataclass(frozen=True, eq=False)
class _Cases:
    """New cases, which of them are covered, and their groups where the answer distinguishes them."""

    values: NDArray[np.floating[Any]]
    inside: Bools
    grouped: GroupedCases | None

    @classmethod
    def of(
        cls,
        calibration: Checked,
        values: NDArray[np.floating[Any]],
        by: Mapping[str, ArrayLike] | None,
        groups: ArrayLike | None,
        site: str,
    ) -> "_Cases":
        if groups is None and calibration.whole.plan.grouping.has_labels:
            refuse_groups(calibration)
        thresholds = thresholds_of_cases(calibration, values.size, groups, site)
        if by is None and groups is not None:
            by = {"group": groups}
        grouped = None if by is None else group_cases(by, values.size)
        return cls(values, covered_cases(values, thresholds), grouped)

    def allowed(self, policy: SitePolicy) -> "tuple[_Cases, tuple[str, ...]]":
        """Return the cases of groups that are large enough, and the names of the other groups."""
        if self.grouped is None:
            return self, ()
        kept, there = self.grouped.of_size(policy.min_group)
        small = tuple(name for name in self.grouped.names if name not in kept.names)
        if not kept.values:
            raise PolicyError(
                f"no group has {count(policy.min_group, 'case')}, and the site's policy says min_group = "
                f"{policy.min_group}: min_group = {self.grouped.sizes.max()} would allow one"
            )
        return _Cases(self.values[there], self.inside[there], kept), small

    @property
    def counts(self) -> Ints:
        """Covered cases of each group, or of all, at each level."""
        if self.grouped is None:
            return np.asarray(np.count_nonzero(self.inside, axis=0))[np.newaxis]
        return self.grouped.counts(self.inside)

    @property
    def sizes(self) -> list[int]:
        """Number of cases in each group, or in all."""
        return [self.values.size] if self.grouped is None else self.grouped.sizes.tolist()

    def question(self, group: str | None) -> str:
        """Return what makes this another question than one about all cases; nothing if it is that."""
        if self.grouped is None:
            return "" if group is None else json.dumps([group])
        order = np.argsort(self.values, kind="stable")
        return json.dumps([group, self.grouped.by, self.grouped.values, self.grouped.which[order].tolist()])


def _check_policy(calibration: Checked, cases: _Cases, n: int, policy: SitePolicy) -> None:
    numbers, told = cases.counts.size, cases.values.size  # without the cases of groups that are left out
    if numbers > policy.numbers_of(told):
        raise PolicyError(
            f"this answer holds {count(numbers, 'count')} of your {count(told, 'case')}, and the site's "
            f"policy allows {policy.numbers_of(told):,}: max_numbers = {numbers} would allow it"
        )
    group = calibration.group
    if group is not None and n < policy.min_group:
        raise PolicyError(
            f"{count(n, 'case')} of group {group!r}, and the site's policy says "
            f"min_group = {policy.min_group}: min_group = {n} would allow it"
        )


def _refuse_unverified(calibration: Calibration) -> None:
    """Refuse thresholds whose claim does not hold: they may be questions in disguise."""
    from fedconformal.audit import verify  # which only answers need

    for finding in verify(calibration):
        if not finding.holds:
            raise ValueError(f"this calibration does not verify: {finding.claim} ({finding.detail})")


@dataclass(frozen=True)
class PreparedAnswer:
    """A site about to answer a calibration, as its policy allows; `prepare_answer` makes it.

    Parameters
    ----------
    calibration : Calibration, or one group of it
        The calibration that is answered.
    _blank : Check
        The answer without its counts.
    _cases : _Cases
        The new cases.
    left_out : tuple of str
        Groups with too few cases for the site's policy.
    _policy : SitePolicy
        Limits on what the site discloses.
    _ledger, _dataset : Ledger and str, optional
        The account, and the name of the new cases in it.

    Examples
    --------
    >>> import numpy as np
    >>> import fedconformal as fc
    >>> calibration = fc.conformalize({"A": np.arange(200), "B": np.arange(200)})
    >>> prepared = fc.monitoring.prepare_answer(calibration, np.arange(100), site="A")
    >>> prepared.sentence
    'This answer tells 1 number about your 100 new cases: how many of them are covered, exactly.'
    """

    calibration: Checked
    _blank: Check
    _cases: _Cases
    left_out: tuple[str, ...]
    _policy: SitePolicy
    _ledger: Ledger | None
    _dataset: str | None

    @property
    def sentence(self) -> str:
        """Describe what would leave and what that costs; refuse what the ledger does not allow."""
        numbers = count(self._cases.counts.size, "number")
        told = f"This answer tells {numbers} about your {count(self._blank.n, 'new case')}{self._groups()}"
        if self._ledger is None or self._dataset is None or self._blank.epsilon is None:
            return f"{told}: how many of them are covered, exactly.{self._small()}"
        quote = self._ledger.quote(self._dataset, epsilon=self._blank.epsilon, **self._question)
        cost = (
            "costs nothing: the ledger holds the answer that was given before"
            if quote.cost == 0
            else f"costs epsilon {self._blank.epsilon:g} of the {exact_text(quote.remaining)} that are left"
        )
        return f"{told}, with noise, and {cost}.{self._small()}"

    def _groups(self) -> str:
        groups = self._blank.groups
        return (
            "" if groups is None else f", and how many of them are in each of {count(len(groups), 'group')}"
        )

    def _small(self) -> str:
        if not self.left_out:
            return ""
        return (
            f" Left out, with fewer cases than the site's policy allows (min_group = "
            f"{self._policy.min_group}): {quoted(self.left_out)}."
        )

    def make(self) -> Check:
        """Make the answer, charged or recorded where it has to be.

        Returns
        -------
        Check
            Everything that leaves the site.
        """
        if self._blank.epsilon is None:
            self._record()
            counts = self._cases.counts
        else:
            counts = self._drawn()
        return _filled(self.calibration, self._blank.site, self._blank.epsilon, self._cases, counts)

    @cached_property
    def _question(self) -> dict[str, Any]:
        digest = self.calibration.whole.digest
        more = self._cases.question(self.calibration.group)
        return {
            "plan_digest": f"sha256:{sha256((digest + more).encode()).hexdigest()}" if more else digest,
            "site": self._blank.site,
            "data_fingerprint": fingerprint(self._cases.values),
        }

    def _record(self) -> None:
        if self._ledger is not None and self._dataset is not None:
            numbers, most = self._cases.counts.size, self._policy.max_answers
            self._ledger.record_exact(self._dataset, numbers=numbers, most=most, **self._question)

    def _drawn(self) -> Ints:
        assert self._ledger is not None
        assert self._dataset is not None
        assert self._blank.epsilon is not None
        draws = _draws(self.calibration, self._cases, epsilon_per_count(self.calibration, self._blank))
        text = self._ledger.answer(
            self._dataset,
            epsilon=self._blank.epsilon,
            sample=lambda: json.dumps([draw() for draw in draws]),
            **self._question,
        )
        return np.array(json.loads(text)).reshape(self._cases.counts.shape)


def fill_missing(scores: ArrayLike) -> Floats:
    """Return scores of which none can be refused, for private answers: an error would tell of the data.

    Parameters
    ----------
    scores : array-like
        Any numbers.

    Returns
    -------
    array of float
        NaN has become +inf, and -inf the smallest float.

    Examples
    --------
    >>> from fedconformal.monitoring import fill_missing
    >>> fill_missing([1.0, float("nan")])
    array([ 1., inf])
    """
    return np.nan_to_num(private_numbers(scores).astype(np.float64), nan=np.inf, posinf=np.inf)


def epsilon_per_count(calibration: Checked, answer: Check) -> Fraction:
    """Return the part of one count: those of an infinite threshold cover everything and need no noise."""
    finite = sum(threshold != math.inf for threshold in common_thresholds(calibration))
    if not finite:
        raise ValueError("every threshold is infinite: a private answer would spend epsilon for nothing")
    return Fraction(str(answer.epsilon)) / (finite * len(answer.groups or (None,)))


def _refuse_used(calibration: Checked, ledger: Ledger, dataset: str) -> None:
    """Refuse data that the ledger has charged for the calibration itself."""
    if ledger.has_answered(dataset, calibration.whole.plan.digest):
        raise ValueError(f"dataset {dataset!r} was used for this calibration: a check needs new cases")


def _draws(calibration: Checked, cases: _Cases, share: Fraction) -> list[Callable[[], int]]:
    """Return a draw of the count of each group and level; without noise where everything is covered."""
    thresholds = common_thresholds(calibration)
    return [
        partial(int, n) if threshold == math.inf else prepare_count(covered, n, share)
        for n, row in zip(cases.sizes, cases.counts.tolist(), strict=True)
        for covered, threshold in zip(row, thresholds, strict=True)
    ]


def _filled(calibration: Checked, site: str, epsilon: float | None, cases: _Cases, counts: Ints) -> Check:
    """Return the answer with these counts, (n_groups, n_levels)."""
    grouped = cases.grouped
    try:
        rows = None if grouped is None else zip(grouped.values, cases.sizes, counts.tolist(), strict=True)
        return Check(
            calibration=calibration.whole.digest,
            label=calibration.group,
            site=site,
            n=sum(cases.sizes),
            epsilon=epsilon,
            covered=tuple(counts.sum(axis=0).tolist()),
            by=None if grouped is None else grouped.by,
            groups=None
            if rows is None
            else tuple(CheckedGroup(values=values, n=n, covered=tuple(row)) for values, n, row in rows),
        )
    except ValidationError as error:
        raise ValueError(first_problem(error)) from None
