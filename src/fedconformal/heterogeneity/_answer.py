"""What a site may send back after a check: how many new cases are covered, exact or with noise."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import ValidationError

from fedconformal._text import count
from fedconformal._typing import Floats
from fedconformal.audit import verify
from fedconformal.documents import Calibration, Check, first_problem
from fedconformal.heterogeneity._coverage import count_covered
from fedconformal.heterogeneity._documents import refuse_groups
from fedconformal.privacy import Ledger, exact_text, fingerprint, prepare_count
from fedconformal.protocol import PolicyError, SitePolicy, flat_scores, private_numbers


def answer(
    calibration: Calibration,
    scores: ArrayLike,
    *,
    site: str,
    epsilon: float | None = None,
    policy: SitePolicy | None = None,
    ledger: Ledger | None = None,
    dataset: str | None = None,
) -> Check:
    """Everything that leaves the site after a check: its name, how many new cases, how many are covered.

    The calibration is verified first: thresholds that somebody made up are not answered. With ``epsilon`` the
    numbers of covered cases are differentially private when one case is replaced; how many cases there are is
    public. The ledger is charged before anything is drawn, and gives the same answer again for the same
    calibration and data set.

    Parameters
    ----------
    calibration : Calibration
        As for `check`.
    scores : array-like
        As for `check`: they must be new. Private answers never refuse a score: NaN is not covered by any
        finite threshold.
    site : str
        The site's name.
    epsilon : float, optional
        Privacy loss of the whole answer, in [1e-6, 100]; exact counts if left out.
    policy : SitePolicy, optional
        What this site lets out; safe defaults if left out. Every level counts as one number.
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
    """
    return prepare_answer(
        calibration, scores, site=site, epsilon=epsilon, policy=policy, ledger=ledger, dataset=dataset
    ).make()


def prepare_answer(
    calibration: Calibration,
    scores: ArrayLike,
    *,
    site: str,
    epsilon: float | None = None,
    policy: SitePolicy | None = None,
    ledger: Ledger | None = None,
    dataset: str | None = None,
) -> "PreparedAnswer":
    """Get ready to answer: nothing is drawn, charged or written yet.

    Parameters
    ----------
    calibration, scores, site, epsilon, policy, ledger, dataset : as for `answer`
        What would be given to it.

    Returns
    -------
    PreparedAnswer
        Its ``sentence`` says what would leave and what that costs; its ``make`` makes the Check.

    Raises
    ------
    ValueError
        Where `answer` would refuse.
    """
    refuse_groups(calibration)
    if (ledger is None) != (dataset is None) or (epsilon is not None and ledger is None):
        raise ValueError(
            "a private answer needs ledger and dataset, so that no budget is overspent: give both"
        )
    policy = SitePolicy() if policy is None else policy
    if not isinstance(policy, SitePolicy):
        raise TypeError(f"policy must be a SitePolicy, got {policy!r}")
    policy.check_exact(is_exact=epsilon is None, has_ledger=ledger is not None)
    policy.check_author("calibration", calibration.published)
    policy.check_names(calibration.plan)
    values = flat_scores(scores) if epsilon is None else fill_missing(scores)
    n_levels = len(calibration.levels)
    asked = f"this calibration asks for {count(n_levels, 'count')} of your {count(values.size, 'case')}"
    policy.check_numbers(asked, n_levels, values.size)
    if calibration.label is not None and values.size < policy.min_group:
        raise PolicyError(
            f"{count(values.size, 'case')} of group {calibration.label!r}, and the site's policy says "
            f"min_group = {policy.min_group}: min_group = {values.size} would allow it"
        )
    _refuse_unverified(calibration.published)
    # Made before any charge, so that what no document can hold costs nothing.
    blank = _filled(calibration, site, values.size, epsilon, (0,) * len(calibration.levels))
    if epsilon is not None:
        policy.check_epsilon(Fraction(str(epsilon)))
    if ledger is not None and dataset is not None:
        _refuse_used(calibration, ledger, dataset)
    return PreparedAnswer(calibration, blank, values, policy, ledger, dataset)


def _refuse_unverified(calibration: Calibration) -> None:
    """Refuse thresholds whose claim does not hold: they may be questions in disguise."""
    for finding in verify(calibration):
        if not finding.holds:
            raise ValueError(f"this calibration does not verify: {finding.claim} ({finding.found})")


@dataclass(frozen=True)
class PreparedAnswer:
    """A site about to answer a calibration, as its policy allows; `prepare_answer` makes it.

    Parameters
    ----------
    calibration : Calibration
        What is answered.
    _blank : Check
        The answer without its counts.
    _values : array of float
        The scores of the new cases.
    _policy : SitePolicy
        What the site lets out.
    _ledger, _dataset : Ledger and str, optional
        The account, and what the new cases are called in it.
    """

    calibration: Calibration
    _blank: Check
    _values: NDArray[np.floating[Any]]
    _policy: SitePolicy
    _ledger: Ledger | None
    _dataset: str | None

    @property
    def sentence(self) -> str:
        """What would leave and what that costs, in plain words; refuses what the ledger does not allow."""
        levels = count(len(self.calibration.levels), "number")
        told = f"This answer tells {levels} about your {count(self._blank.n, 'new case')}"
        if self._ledger is None or self._dataset is None or self._blank.epsilon is None:
            return f"{told}: how many of them are covered, exactly."
        quote = self._ledger.quote(self._dataset, epsilon=self._blank.epsilon, **self._question)
        cost = (
            "costs nothing: the ledger holds the answer that was given before"
            if quote.cost == 0
            else f"costs epsilon {self._blank.epsilon:g} of the {exact_text(quote.remaining)} that are left"
        )
        return f"{told}, with noise, and {cost}."

    def make(self) -> Check:
        """Make the answer, charged or recorded where it has to be.

        Returns
        -------
        Check
            Everything that leaves the site.
        """
        if self._blank.epsilon is None:
            self._record()
            covered = count_covered(self.calibration, self._values)
        else:
            covered = self._drawn(self._blank.epsilon)
        return self._blank.model_copy(update={"covered": covered})

    @cached_property
    def _question(self) -> dict[str, Any]:
        return {
            "plan_digest": self.calibration.digest,
            "site": self._blank.site,
            "data_fingerprint": fingerprint(self._values),
        }

    def _record(self) -> None:
        if self._ledger is not None and self._dataset is not None:
            numbers, most = len(self.calibration.levels), self._policy.max_answers
            self._ledger.record_exact(self._dataset, numbers=numbers, most=most, **self._question)

    def _drawn(self, epsilon: float) -> tuple[int, ...]:
        assert self._ledger is not None
        assert self._dataset is not None
        draws = _draws(self.calibration, self._values, epsilon_per_level(self.calibration, epsilon))
        text = self._ledger.answer(
            self._dataset,
            epsilon=epsilon,
            sample=lambda: json.dumps([draw() for draw in draws]),
            **self._question,
        )
        return tuple(json.loads(text))


def fill_missing(scores: ArrayLike) -> Floats:
    """Scores of which none can be refused, for private answers: an error would tell of the data.

    Parameters
    ----------
    scores : array-like
        Any numbers.

    Returns
    -------
    array of float
        NaN has become +inf, and -inf the smallest float.
    """
    return np.nan_to_num(private_numbers(scores).astype(np.float64), nan=np.inf, posinf=np.inf)


def epsilon_per_level(calibration: Calibration, epsilon: float) -> Fraction:
    """The share of one level: an infinite threshold covers everything and needs no noise."""
    finite = sum(threshold < math.inf for threshold in calibration.thresholds)
    if not finite:
        raise ValueError("every threshold is infinite: a private answer would spend epsilon for nothing")
    return Fraction(str(epsilon)) / finite


def _refuse_used(calibration: Calibration, ledger: Ledger, dataset: str) -> None:
    """Refuse data that the ledger has charged for the calibration itself."""
    if ledger.has_answered(dataset, calibration.plan.answered_digest):
        raise ValueError(f"dataset {dataset!r} was used for this calibration: a check needs new cases")


def _draws(
    calibration: Calibration, values: NDArray[np.floating[Any]], share: Fraction
) -> list[Callable[[], int]]:
    """For each level what draws its noisy count; without noise where everything is covered."""
    counts = zip(count_covered(calibration, values), calibration.thresholds, strict=True)
    return [
        (lambda: values.size) if threshold == math.inf else prepare_count(covered, values.size, share)
        for covered, threshold in counts
    ]


def _filled(
    calibration: Calibration, site: str, n: int, epsilon: float | None, covered: tuple[int, ...]
) -> Check:
    try:
        return Check(
            calibration=calibration.published_digest,
            label=calibration.label,
            site=site,
            n=n,
            epsilon=epsilon,
            covered=covered,
        )
    except ValidationError as error:
        raise ValueError(first_problem(error)) from None
