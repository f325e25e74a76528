"""A site's whole job: scores in, a few numbers out."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._text import quoted
from fedconformal.documents import Plan, Report, ReportPart, Sent, SigningKey, unique_labels
from fedconformal.privacy import Ledger, fingerprint
from fedconformal.protocol._models import Model, check_model
from fedconformal.protocol._policy import SitePolicy
from fedconformal.protocol._request import Request, of_group, ranks_of, request_of, with_account
from fedconformal.protocol._scores import Scores, flat_numbers, flat_scores

Parts = Mapping[str | None, Scores]
"""The scores of each group by label; under None where there are no groups."""


def report(
    plan: Plan,
    scores: ArrayLike,
    *,
    site: str,
    groups: ArrayLike | None = None,
    key: SigningKey | None = None,
    policy: SitePolicy | None = None,
    model: Model | None = None,
    in_place: bool = False,
    ledger: Ledger | None = None,
    dataset: str | None = None,
) -> Report:
    """Answer a plan: find the ranks for this site's number of scores and send the scores of these ranks.

    The returned Report is everything that leaves the site: its name, and for all points, or for each group
    that it has points of, their number, the ranks, and for each confidence level the scores of these ranks
    (Infinity where a rank is above the number of scores). For a group without points, or with fewer than the
    site's policy wants, nothing is sent, and the site counts as missing there; nor for one that the plan does
    not ask it for, as no answer of it could change the threshold.

    Parameters
    ----------
    plan : Plan
        The plan to answer.
    scores : array-like
        The site's calibration scores, any order. Integers are taken as they are, +inf is allowed, NaN is
        refused.
    site : str
        The site's name.
    groups : array-like, optional
        For a plan with groups, the group of each score, as text or whole numbers; all of them groups of the
        plan.
    key : SigningKey, optional
        Signs the report as a whole, where the plan asks for it.
    policy : SitePolicy, optional
        What this site lets out, whatever the plan asks for; safe defaults if left out.
    model : str or path-like, optional
        The file of the model that made the scores, or its digest: compared with the one the plan is for.
    in_place : bool
        Select inside ``scores`` itself, leaving it shuffled; saves a copy of a very large array.
    ledger, dataset : Ledger and str, optional
        For a private plan, the account that the answer is charged to and what the data are called in it. It
        is charged once, for all groups that are answered for. NaN and scores outside the bins are then
        clipped, never refused. With a plan that is not private they are an error, unless the policy says
        ``private_only=False``: the exact answer is then recorded there.

    Returns
    -------
    Report
        Everything that leaves the site.

    Raises
    ------
    ValueError
        If the scores do not fit the plan, or the policy (a PolicyError) or the ledger (a LedgerError) does
        not allow the answer; nothing has been charged then.

    Examples
    --------
    >>> import fedconformal as fc
    >>> chosen = fc.plan(n_sites=5, n_points=4, confidence_level=0.8, criterion="marginal")
    >>> fc.report(chosen, [0.3, 0.1, 0.9, 0.5], site="A").value
    0.5
    """
    if key is not None and not isinstance(key, SigningKey):
        raise TypeError(f"key must be a SigningKey, got {key!r}")
    if plan.privacy is not None and plan.privacy.one_hot:
        raise ValueError(
            "this plan is to be answered only as one-hot vectors, to be summed: see private_bins"
        )
    answering = _Answering.of(plan, scores, groups, site, policy, ledger, dataset, model)
    if plan.privacy is not None:
        drawn = answering.drawn()
        made = [_private_part(plan, label, answering.parts[label].size, bins, site) for label, bins in drawn]
    else:
        answering.record()
        made = [_part(plan, label, values, site, in_place=in_place) for label, values in answering.asked()]
    answer = Report(plan=plan.digest, site=site, parts=tuple(made))
    return answer if key is None else key.sign(answer)


def request(
    plan: Plan,
    scores: ArrayLike,
    *,
    site: str,
    groups: ArrayLike | None = None,
    policy: SitePolicy | None = None,
    model: Model | None = None,
    ledger: Ledger | None = None,
    dataset: str | None = None,
) -> Request:
    """What a plan asks of this site, before anything is selected, drawn, charged or written.

    Parameters
    ----------
    plan, scores, site, groups, policy, model, ledger, dataset : as for `report`
        What would be given to it.

    Returns
    -------
    Request
        How many numbers would leave and what that would cost; its ``sentence`` says it in words.

    Raises
    ------
    ValueError
        Where `report` would refuse.

    Examples
    --------
    >>> import fedconformal as fc
    >>> chosen = fc.plan(n_sites=5, n_points=40, numbers=3)
    >>> fc.protocol.request(chosen, range(40), site="A").sentence
    'This plan asks for 3 of your 40 scores.'
    """
    return _Answering.of(plan, scores, groups, site, policy, ledger, dataset, model).quoted()


def private_bins(
    plan: Plan,
    scores: ArrayLike,
    *,
    site: str,
    ledger: Ledger | None,
    dataset: str | None,
    policy: SitePolicy | None = None,
    model: Model | None = None,
) -> tuple[int, ...]:
    """The bins that a site releases under a private plan without groups, charged to its ledger.

    Parameters
    ----------
    plan : Plan
        The plan to answer.
    scores : array-like
        The site's calibration scores.
    site : str
        The site's name.
    ledger, dataset : Ledger and str
        The account that the answer is charged to and what the data are called in it.
    policy, model : SitePolicy, and str or path-like, optional
        As for `report`.

    Returns
    -------
    tuple of int
        A bin for each level, 0 the first.
    """
    if plan.privacy is None:
        raise ValueError("this plan is not private: there are no bins to release")
    answering = _Answering.of(plan, scores, None, site, policy, ledger, dataset, model)
    return tuple(dict(answering.drawn())[None])


@dataclass(frozen=True)
class _Answering:
    """A site about to answer: its scores, and what the plan asks of it, which the policy allows."""

    plan: Plan
    parts: Parts
    site: str
    policy: SitePolicy
    request: Request
    ledger: Ledger | None
    dataset: str | None

    @classmethod
    def of(
        cls,
        plan: Plan,
        scores: ArrayLike,
        groups: ArrayLike | None,
        site: str,
        policy: SitePolicy | None,
        ledger: Ledger | None,
        dataset: str | None,
        model: Model | None,
    ) -> "_Answering":
        policy = SitePolicy() if policy is None else policy
        if not isinstance(policy, SitePolicy):
            raise TypeError(f"policy must be a SitePolicy, got {policy!r}")
        check_model(plan, model)
        flat = flat_scores if plan.privacy is None else flat_numbers
        parts = _by_group(plan, flat(scores), groups)
        asked = request_of(
            plan,
            {label: values.size for label, values in parts.items()},
            site=site,
            policy=policy,
            has_ledger=ledger is not None or dataset is not None,
        )
        return cls(plan, parts, site, policy, asked, ledger, dataset)

    def asked(self) -> list[tuple[str | None, Scores]]:
        """The scores of each group that is answered for."""
        return [(label, self.parts[label]) for label in self.request.sizes]

    def quoted(self) -> Request:
        """The request with what the ledger says of it."""
        if self.plan.privacy is None:
            return self.request
        ledger, dataset = self._account()
        return with_account(
            self.request,
            ledger,
            dataset,
            plan=self.plan,
            site=self.site,
            data_fingerprint=self._fingerprint(),
        )

    def _account(self) -> tuple[Ledger, str]:
        if self.ledger is None or self.dataset is None:
            raise ValueError(
                "this plan is private: ledger and dataset are needed, so that no budget is overspent"
            )
        return self.ledger, self.dataset

    def _fingerprint(self) -> str:
        return fingerprint(np.concatenate(list(self.parts.values())))

    def record(self) -> None:
        """Write down that exact numbers leave, where there is a ledger."""
        if self.ledger is None and self.dataset is None:
            return
        if self.ledger is None or self.dataset is None:
            raise ValueError("ledger and dataset go together: an exact answer is recorded under that name")
        self.ledger.record_exact(
            self.dataset,
            plan_digest=self.plan.digest,
            site=self.site,
            numbers=self.request.numbers,
            data_fingerprint=self._fingerprint(),
            most=self.policy.max_answers,
        )

    def drawn(self) -> list[tuple[str | None, list[int]]]:
        """The bins of all groups, one per level, from one charge, and so one stored answer.

        Scores are clipped into the end bins, NaN into the last one, and never raise: whether an error was
        raised would be a release of its own.
        """
        ledger, dataset = self._account()
        draws = {label: _prepared(of_group(self.plan, label), values) for label, values in self.asked()}
        assert self.request.epsilon is not None
        text = ledger.answer(
            dataset,
            plan_digest=self.plan.digest,
            site=self.site,
            epsilon=self.request.epsilon,
            data_fingerprint=self._fingerprint(),
            by_plan=self.plan.model is not None,
            sample=lambda: json.dumps([[label, draw()] for label, draw in draws.items()]),
        )
        bins = dict(json.loads(text))
        if bins.keys() != draws.keys():
            raise ValueError(f"the ledger's answer to this plan is for other groups: {quoted(sorted(bins))}")
        return list(bins.items())


def _by_group(plan: Plan, scores: Scores, groups: ArrayLike | None) -> Parts:
    """The scores of each group that is there, by label in order."""
    if not plan.is_grouped:
        if groups is not None:
            raise ValueError("groups go with a plan that has groups: this one has a single threshold")
        return {None: scores}
    if groups is None:
        raise ValueError(f"groups must give the group of each score: the plan has {quoted(plan.labels)}")
    names, which = unique_labels(groups)
    if which.size != scores.size:
        raise ValueError(f"groups must be one label for each of the {scores.size} scores, got {which.size}")
    if strange := [name for name in names if name not in plan.labels]:
        count = int(np.isin(which, [names.index(name) for name in strange]).sum())
        raise ValueError(
            f"groups must be groups of the plan, got {quoted(strange)} in {count} of {scores.size} rows: "
            "correct these, or leave them out"
        )
    return {name: scores[which == i] for i, name in sorted(enumerate(names), key=lambda pair: pair[1])}


# -- exact answers -----------------------------------------------------------------------------------------


def _part(plan: Plan, label: str | None, values: Scores, site: str, *, in_place: bool) -> ReportPart:
    ranks = ranks_of(plan, label, values.size, site)
    selected = _selected(values, ranks, in_place=in_place)
    sent = [Sent(ranks=each, values=tuple(selected.get(rank, math.inf) for rank in each)) for each in ranks]
    return ReportPart(label=label, n=values.size, levels=tuple(sent))


def _selected(values: Scores, ranks: Sequence[Sequence[int]], *, in_place: bool) -> dict[int, float]:
    """The scores of these ranks, in one linear-time selection; ranks above their number are left out."""
    wanted = sorted({rank for each in ranks for rank in each if rank <= values.size})
    places = [rank - 1 for rank in wanted]
    if places:
        # Floats are ordered after selection only at these places, which is all that is needed.
        if in_place:
            values.partition(places)
        else:
            values = np.partition(values, places)
    return {rank: float(values[rank - 1]) for rank in wanted}


# -- private answers ---------------------------------------------------------------------------------------


def _prepared(plan: Plan, scores: Scores) -> Callable[[], list[int]]:
    """Everything short of the draw: calling it draws the bins, one per level, and must be paid for first."""
    assert plan.bins is not None
    assert plan.releases is not None
    counts = plan.bins.place(scores)
    draws = [release.prepare(counts) for release in plan.releases]
    return lambda: [draw() for draw in draws]


def _private_part(plan: Plan, label: str | None, n: int, bins: Sequence[int], site: str) -> ReportPart:
    """The part of a report of a site that has drawn these bins."""
    assert plan.bins is not None
    ranks = ranks_of(plan, label, n, site)
    sent = [
        Sent(ranks=each, values=(plan.bins.value(chosen),)) for each, chosen in zip(ranks, bins, strict=True)
    ]
    return ReportPart(label=label, n=n, levels=tuple(sent))
