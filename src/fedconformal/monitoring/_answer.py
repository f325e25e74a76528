"""A site's answer after a check: how many new cases are covered, exact or with
noise.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import ValidationError

from fedconformal._text import count, quoted
from fedconformal._util import Floats, Ints, flat_scores, fraction, private_numbers
from fedconformal.documents import (
    LARGEST_EPSILON,
    Calibration,
    Check,
    CheckedGroup,
    CheckQuestion,
    MaskedPayload,
    SiteKey,
    first_problem,
    is_signed_by,
)
from fedconformal.monitoring._coverage import (
    Answerable,
    Cases,
    Checked,
    common_thresholds,
    count_cases,
    refuse_groups,
    refuse_levels,
)
from fedconformal.planning import PROMISES
from fedconformal.privacy import Ledger, exact_text, fingerprint, prepare_count
from fedconformal.protocol import PolicyError, SitePolicy
from fedconformal.protocol._masking import add_up, sum_keys

TOGETHER = "all sites together"


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
    period: str | None = None,
    masked: bool = False,
) -> Check:
    """Return everything that leaves the site after a check: its name, how many new
    cases, how many covered.

    The calibration is verified first, as far as it can be without the reports: whoever
    asks may still have chosen the threshold, and the site's policy and its ledger bound
    what can be learned that way. With ``epsilon`` the numbers of covered cases are
    differentially private when one case is replaced; how many cases there are is
    public. The ledger is charged before anything is drawn, and gives the same answer
    again for the same calibration and data set.

    Parameters
    ----------
    calibration : Calibration
        As for `check`; one with groups as a whole, too.
    scores : array-like
        As for `check`: they must be new. Private answers never refuse a score: NaN is
        not covered by any finite threshold.
    site : str
        The site's name.
    epsilon : float, optional
        Privacy loss of the whole answer, in [1e-6, 100]; exact counts if left out. With
        ``by`` it is shared evenly by all counts, and how many cases have which values
        is public.
    by : mapping from str to array-like, optional
        Columns and the value of every case in them, as in ``{"truth": y}``: the counts
        are then those of each combination of values. Combinations of fewer cases than
        the policy's ``min_group`` are left out of the answer, with their cases.
    groups : array-like, optional
        For a calibration with groups, the group of every case (its true class, where
        groups are classes). The answer is by these unless ``by`` is given.
    policy : SitePolicy, optional
        Limits on what this site discloses; safe defaults if left out. Every level of
        every group counts as one number.
    ledger, dataset : Ledger and str, optional
        For a private answer, the account that it is charged to and what the new cases
        are called in it. With an exact answer they are an error, unless the policy has
        ``private_only=False``: it is then recorded.
    period : str, optional
        When these cases arose, for `watch`: a month, ``"2027-03"``, or
        ``"2027-03-01/2027-03-31"``.
    masked : bool
        Refused: the masks of a check would not be bound to the thresholds that each
        site was sent.

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
    return prepare_answer(**locals()).make()


def prepare_answer(
    calibration: Answerable,
    scores: ArrayLike,
    *,
    site: str,
    epsilon: float | None = None,
    by: Mapping[str, ArrayLike] | None = None,
    groups: ArrayLike | None = None,
    policy: SitePolicy | None = None,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    period: str | None = None,
    masked: bool = False,
    among: ArrayLike | None = None,
    accept: str | None = None,
) -> PreparedAnswer:
    """Prepare an answer: nothing is drawn, charged or written yet.

    Takes the arguments of `answer`, and a question in the place of a calibration. For
    cases of one group, ``among`` are the scores of the whole data set, by which the
    ledger knows it; ``accept`` is as for `report`. The ``sentence`` of what is prepared
    describes what would leave and what that would cost; its ``make`` makes the Check.
    """
    if (ledger is None) != (dataset is None) or (
        epsilon is not None and ledger is None
    ):
        raise ValueError(
            "a private answer needs ledger and dataset, so that no budget is overspent:"
            " give both"
        )
    if masked:
        raise PolicyError(
            "masked checks are not answered: whoever asks could send each site other"
            " thresholds, and read one site's counts in the sum"
        )
    policy = SitePolicy() if policy is None else policy
    if not isinstance(policy, SitePolicy):
        raise TypeError(f"policy must be a SitePolicy, got {policy!r}")
    published, is_exact = calibration.whole, epsilon is None
    policy.check_document(
        published, published.plan, is_exact=is_exact, has_ledger=ledger is not None
    )
    refuse_levels(calibration)
    values = flat_scores(scores) if epsilon is None else _fill_missing(scores)
    if (
        groups is None
        and published.plan.grouping.has_labels
        and not isinstance(calibration, CheckQuestion)
    ):
        refuse_groups(calibration)
    if by is None and groups is not None:
        by = {"group": groups}
    cases = count_cases(calibration, values, by=by, groups=groups, site=site)
    kept = _apply_policy(calibration, cases, policy)
    left_out = tuple(name for name in cases.names if name not in kept.names)
    n_left_out = cases.scores.size - kept.scores.size
    if not isinstance(
        published, CheckQuestion
    ):  # of which only the coordinator can verify anything
        refuse_unverified(published)
    # Made before any charge, so that what no document can hold costs nothing.
    exact = (
        None
        if epsilon is None
        else fraction("epsilon", epsilon, high=LARGEST_EPSILON, closed=True)
    )
    blank = _make_check(
        calibration, site, exact, kept, np.zeros_like(kept.counts), period
    )
    if exact is None and policy.masked_only:
        policy.refuse_open()
    if epsilon is not None:
        policy.check_epsilon(blank.epsilon or Fraction(0))
        epsilon_per_count(calibration, blank)
    if (
        ledger is not None
        and dataset is not None
        and ledger.has_answered(dataset, calibration.plan_digest)
    ):
        raise ValueError(
            f"dataset {dataset!r} was used for this calibration: a check needs new"
            " cases"
        )
    data = kept.scores if among is None else _fill_missing(among)
    return PreparedAnswer(
        calibration,
        blank,
        kept,
        left_out,
        policy,
        ledger,
        dataset,
        data,
        accept,
        n_left_out,
    )


def refuse_unverified(calibration: Calibration) -> None:
    """Refuse a calibration whose claims do not hold: its thresholds may be questions in
    disguise.
    """
    from fedconformal.audit import verify  # which most answers do not need

    for finding in verify(calibration):
        if not finding.holds:
            raise ValueError(
                f"this calibration does not verify: {finding.claim} ({finding.detail})"
            )


def _apply_policy(calibration: Answerable, cases: Cases, policy: SitePolicy) -> Cases:
    """Return the cases of groups that are large enough, or refuse what the policy does
    not allow.
    """
    kept = cases.keep_large(policy.min_group) if cases.by else cases
    if not kept.values:
        raise PolicyError(
            f"no group has {count(policy.min_group, 'case')}, and the site's policy has"
            f" min_group = {policy.min_group}: min_group = {max(cases.sizes)} would"
            " allow one"
        )
    numbers, n = kept.counts.size, kept.scores.size
    if numbers > policy.numbers_of(n):
        raise PolicyError(
            f"this answer holds {count(numbers, 'count')} of your {count(n, 'case')},"
            f" and the site's policy allows {policy.numbers_of(n):,}: max_numbers ="
            f" {numbers} would allow it"
        )
    if calibration.group is not None and cases.scores.size < policy.min_group:
        raise PolicyError(
            f"{count(cases.scores.size, 'case')} of group {calibration.group!r}, and"
            f" the site's policy has min_group = {policy.min_group}: min_group ="
            f" {cases.scores.size} would allow it"
        )
    return kept


@dataclass(frozen=True)
class PreparedAnswer:
    """A site about to answer a calibration, as its policy allows; `prepare_answer`
    makes it.
    """

    calibration: Answerable
    _blank: Check
    _cases: Cases
    left_out: tuple[str, ...]
    _policy: SitePolicy
    _ledger: Ledger | None
    _dataset: str | None
    _data: NDArray[np.floating[Any]]
    _accept: str | None
    _n_left_out: int

    @property
    def sentence(self) -> str:
        """Describe what would leave and what that costs; refuse what the ledger does
        not allow.
        """
        numbers = count(self._cases.counts.size, "number")
        cases = count(self._cases.scores.size, "new case")
        groups = self._blank.groups
        when = "" if self._blank.period is None else f" of {self._blank.period}"
        text = f"This answer gives {numbers} about your {cases}{when}"
        if groups is not None:
            text += (
                f", and how many of them are in each of {count(len(groups), 'group')}"
            )
        if self._ledger is None or self._dataset is None or self._blank.epsilon is None:
            text += ": how many of them are covered, exactly."
        else:
            quote = self._ledger.quote(
                self._dataset,
                epsilon=self._blank.epsilon,
                accept=self._accept,
                **self._question,
            )
            asked, left = exact_text(self._blank.epsilon), exact_text(quote.remaining)
            cost = f"costs epsilon {asked} of the {left} that are left"
            if quote.cost == 0:
                cost = (
                    "costs nothing: the ledger holds the answer that was given before"
                )
            text += f", with noise, and {cost}."
        if self.left_out:
            text += (
                f" {count(self._n_left_out, 'case')} left out, of groups with fewer"
                " than the site's policy allows"
                f" (min_group = {self._policy.min_group}): {quoted(self.left_out)}."
            )
        return text

    def make(self) -> Check:
        """Make the answer, charged or recorded where it has to be.

        Returns
        -------
        Check
            Everything that leaves the site.
        """
        if self._blank.epsilon is None:
            counts = self._cases.counts
            if self._ledger is not None and self._dataset is not None:
                n = self._cases.scores.size
                allow = partial(self._policy.check_life, self._dataset, counts.size, n)
                self._ledger.record_exact(
                    self._dataset, numbers=counts.size, allow=allow, **self._question
                )
        else:
            counts = self._draw_counts()
        blank = self._blank
        return _make_check(
            self.calibration,
            blank.site,
            blank.epsilon,
            self._cases,
            counts,
            blank.period,
        )

    @cached_property
    def _question(self) -> dict[str, Any]:
        """Identify the question and the data for the ledger: by the thresholds, which
        are the question.
        """
        checked, cases = self.calibration, self._cases
        asked: list[Any] = [checked.calibration_digest, checked.group]
        asked.append([part.thresholds for part in checked.selected_parts])
        if self._blank.period is not None:
            asked.append(self._blank.period)
        if cases.by:
            order = np.argsort(cases.scores, kind="stable")
            asked += [cases.by, cases.values, cases.which[order].tolist()]
        if self._data.size > cases.scores.size:
            asked.append(
                fingerprint(cases.scores)
            )  # which cases of the data set are meant
        return {
            "plan_digest": f"sha256:{sha256(json.dumps(asked).encode()).hexdigest()}",
            "site": self._blank.site,
            "data_fingerprint": fingerprint(self._data),
        }

    def _draw_counts(self) -> Ints:
        """Draw a noisy count for each group and level; without noise where everything
        is covered.
        """
        assert self._ledger is not None
        assert self._dataset is not None
        assert self._blank.epsilon is not None
        share, counts = (
            epsilon_per_count(self.calibration, self._blank),
            self._cases.counts,
        )
        thresholds = common_thresholds(self.calibration)
        draws: list[Callable[[], int]] = [
            (
                partial(int, n)
                if threshold == math.inf
                else prepare_count(covered, n, share)
            )
            for n, row in zip(self._cases.sizes, counts.tolist(), strict=True)
            for covered, threshold in zip(row, thresholds, strict=True)
        ]
        text = self._ledger.answer(
            self._dataset,
            epsilon=self._blank.epsilon,
            sample=lambda: json.dumps([draw() for draw in draws]),
            accept=self._accept,
            **self._question,
        )
        return np.array(json.loads(text)).reshape(counts.shape)


def _fill_missing(scores: ArrayLike) -> Floats:
    """Return scores without NaN and -inf for a private answer: an error would reveal
    some of the data.
    """
    return np.nan_to_num(
        private_numbers(scores).astype(np.float64), nan=np.inf, posinf=np.inf
    )


def check_keys(calibration: Answerable) -> tuple[SiteKey, ...]:
    """Return the sites whose counts of new cases can be added up, or refuse a
    calibration that has no sum.
    """
    if isinstance(calibration, CheckQuestion):
        keys, promise = calibration.keys or (), calibration.promise
    else:
        refuse_groups(calibration)
        keys = sum_keys(calibration.whole.plan, calibration.group)
        promise = calibration.selected_designs[0].promise
    if PROMISES[promise].bears_differing_sites:
        raise ValueError(
            f"masked counts are of all sites together, and promise {promise!r} is not"
            " about these"
        )
    if len(keys) < 2:
        raise ValueError("masked needs a plan that lists the keys of the sites")
    return keys


def add_up_checks(calibration: Checked, checks: Sequence[Check]) -> list[Check]:
    """Return one check of all sites together for each period of masked checks; others
    as they are.
    """
    by_period: dict[str | None, list[Check]] = {}
    for check in checks:
        if check.masked is not None:
            by_period.setdefault(check.period, []).append(check)
    if not by_period:
        return list(checks)
    if sum(map(len, by_period.values())) < len(checks):
        raise ValueError(
            "masked and other checks cannot be assessed together: give one kind"
        )
    keys = {key.site: key.public_key for key in check_keys(calibration)}
    return [_add_up(calibration, keys, own) for own in by_period.values()]


def _add_up(
    calibration: Checked, keys: Mapping[str, str], checks: Sequence[Check]
) -> Check:
    """Return the sum of the masked checks of one period, which all sites must have sent
    once.
    """
    times, length = (
        Counter(check.site for check in checks),
        1 + len(calibration.whole.plan.confidence_levels),
    )
    missing = [site for site in keys if site not in times]
    reasons = [f"{quoted(missing)} did not answer"] if missing else []
    reasons += [
        f"{site}: answered {number} times"
        for site, number in times.items()
        if number > 1
    ]
    payloads = [
        MaskedPayload(values=check.masked)
        for check in checks
        if check.masked is not None
    ]
    for check, payload in zip(checks, payloads, strict=True):
        if (check.calibration, check.group) != (
            calibration.whole.digest,
            calibration.group,
        ):
            reasons.append(f"{check.site}: checks another calibration or group")
        elif check.site not in keys or not is_signed_by(check, keys[check.site]):
            reasons.append(
                f"{check.site}: is not signed with the key that the plan lists"
            )
        elif payload.n_numbers != length:
            reasons.append(
                f"{check.site}: has {payload.n_numbers} masked numbers instead of"
                f" {length}"
            )
    if reasons:
        raise ValueError(
            "masked checks are added up over all sites of the plan:"
            f" {'; '.join(reasons)}"
        )
    n, *covered = add_up(payloads)
    try:
        total = Check(
            calibration=calibration.whole.digest,
            group=calibration.group,
            site=TOGETHER,
            period=checks[0].period,
            n=n,
            epsilon=None,
            covered=tuple(covered),
        )
        total.check()
    except ValueError:
        raise ValueError(
            "the masked checks do not add up to counts of cases: one of them is wrong"
        ) from None
    return total


def epsilon_per_count(calibration: Answerable, answer: Check) -> Fraction:
    """Return the part of one count: those of an infinite threshold cover everything and
    need no noise.
    """
    finite = sum(threshold != math.inf for threshold in common_thresholds(calibration))
    if not finite:
        raise ValueError(
            "every threshold is infinite: a private answer would spend epsilon for"
            " nothing"
        )
    return (answer.epsilon or Fraction(0)) / (finite * len(answer.groups or (None,)))


def _make_check(
    calibration: Answerable,
    site: str,
    epsilon: Fraction | None,
    cases: Cases,
    counts: Ints,
    period: str | None,
) -> Check:
    """Make the answer with these counts, (n_groups, n_levels)."""
    rows = zip(cases.values, cases.sizes, counts.tolist(), strict=True)
    try:
        groups = tuple(
            CheckedGroup(values=values, n=n, covered=tuple(row))
            for values, n, row in rows
            if values
        )
        check = Check(
            calibration=calibration.calibration_digest,
            group=calibration.group,
            site=site,
            period=period,
            n=sum(cases.sizes),
            epsilon=epsilon,
            covered=tuple(counts.sum(axis=0).tolist()),
            by=cases.by or None,
            groups=groups or None,
        )
        check.check()
        return check
    except ValidationError as error:
        raise ValueError(first_problem(error)) from None
