"""A site's whole job: scores in, a few numbers out."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._text import quoted
from fedconformal.documents import Plan, Report, ReportPart, Sent, SigningKey, unique_labels
from fedconformal.privacy import Ledger, fingerprint
from fedconformal.protocol._cases import drawn_ranks
from fedconformal.protocol._models import Model, check_model
from fedconformal.protocol._policy import SitePolicy
from fedconformal.protocol._request import Request, Sizes, admit, of_group, ranks_of, request_of
from fedconformal.protocol._scores import Scores, flat_scores, private_numbers

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
    accept: str | None = None,
) -> Report:
    """Answer a plan: find the ranks for this site's number of scores and send the scores of these ranks.

    The returned Report is everything that leaves the site: its name, and for all points, or for each group
    that it has points of, their number, the ranks, and for each confidence level the scores of these ranks
    (Infinity where a rank is above the number of scores). Where sites draw cases at random, the plan's round
    and the site's name decide which. For a group without points, or with fewer than the site's policy wants,
    nothing is sent, and the site counts as missing there; nor for one that the plan does
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
        For a plan with groups, the label of each score, as text or whole numbers, all of them known to the
        plan: its group, or its true class (``group_by="class"``). Not needed where groups are sites.
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
        is charged once, for all groups that are answered for. NaN, cells that hold no number and scores
        outside the bins are then clipped, never refused. With a plan that is not private they are an error,
        unless the policy says ``private_only=False``: the exact answer is then recorded there.
    accept : str, optional
        For a private plan, why scores that the ledger has not seen are of the same records nonetheless, as
        under a new model: they are accepted with this reason if the answer is charged.

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
    prepared = prepare(
        plan,
        scores,
        site=site,
        groups=groups,
        policy=policy,
        model=model,
        ledger=ledger,
        dataset=dataset,
        accept=accept,
    )
    return prepared.report(key=key, in_place=in_place)


def prepare(
    plan: Plan,
    scores: ArrayLike,
    *,
    site: str,
    groups: ArrayLike | None = None,
    policy: SitePolicy | None = None,
    model: Model | None = None,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    accept: str | None = None,
) -> "Prepared":
    """Get ready to answer a plan: nothing is selected, drawn, charged or written yet.

    Parameters
    ----------
    plan, scores, site, groups, policy, model, ledger, dataset, accept : as for `report`
        What would be given to it.

    Returns
    -------
    Prepared
        Its ``request`` says what would leave and what that would cost; its ``report`` makes the report.

    Raises
    ------
    ValueError
        Where `report` would refuse.

    Examples
    --------
    >>> import fedconformal as fc
    >>> chosen = fc.plan(n_sites=5, n_points=40, numbers=3)
    >>> fc.protocol.prepare(chosen, range(40), site="A").request.sentence
    'This plan asks for 3 of your 40 scores.'
    """
    policy = SitePolicy() if policy is None else policy
    if not isinstance(policy, SitePolicy):
        raise TypeError(f"policy must be a SitePolicy, got {policy!r}")
    admit(plan, policy=policy, has_ledger=ledger is not None or dataset is not None)
    check_model(plan, model)
    flat = flat_scores if plan.privacy is None else private_numbers
    parts = _by_group(plan, flat(scores), groups, site)
    allowed = request_of(
        plan,
        {label: values.size for label, values in parts.items()},
        site=site,
        policy=policy,
    )
    return Prepared(plan, site, policy, parts, allowed, ledger, dataset, accept)


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

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import fedconformal as fc
    >>> from fedconformal.protocol import private_bins
    >>> privacy = fc.Privacy(8.0, fc.Bins.uniform(0, 1, 10), one_hot=True)
    >>> plan = fc.plan(n_sites=5, n_points=100, privacy=privacy)
    >>> with TemporaryDirectory() as folder:
    ...     ledger = fc.Ledger.create(Path(folder) / "ledger.db")
    ...     ledger.set_budget("2024", 8)
    ...     [chosen] = private_bins(plan, [0.5] * 100, site="A", ledger=ledger, dataset="2024")
    >>> 0 <= chosen < 10
    True
    """
    if plan.privacy is None:
        raise ValueError("this plan is not private: there are no bins to release")
    prepared = prepare(plan, scores, site=site, policy=policy, model=model, ledger=ledger, dataset=dataset)
    return tuple(prepared.bins()[None])


@dataclass(frozen=True)
class Prepared:
    """A site about to answer: what the plan asks of it, which its policy allows; `prepare` makes it.

    Parameters
    ----------
    plan : Plan
        What is answered.
    site : str
        The site's name.
    policy : SitePolicy
        What the site lets out.
    _parts : mapping
        Its scores by group.
    _allowed : Request
        What leaves, without what the ledger says of it.
    _ledger, _dataset, _accept : Ledger, str and str, optional
        The account, what the data are called in it, and why changed data are accepted.

    Examples
    --------
    >>> import fedconformal as fc
    >>> prepared = fc.protocol.prepare(fc.plan(n_sites=5, n_points=40), range(40), site="A")
    >>> prepared.request.sentence
    'This plan asks for 1 of your 40 scores.'
    >>> prepared.report()
    <Report: 1 number for 40 scores, site 'A'>
    """

    plan: Plan
    site: str
    policy: SitePolicy
    _parts: Parts
    _allowed: Request
    _ledger: Ledger | None
    _dataset: str | None
    _accept: str | None

    @cached_property
    def request(self) -> Request:
        """What would leave, and what that would cost; refuses what the ledger does not allow."""
        if self.plan.privacy is None:
            return self._allowed
        ledger, dataset = self._account()
        quote = ledger.quote(dataset, epsilon=self._allowed.epsilon or 0, **self._question)
        return replace(self._allowed, left=quote.remaining, is_repeated=quote.cost == 0)

    def report(self, *, key: SigningKey | None = None, in_place: bool = False) -> Report:
        """Make the report, charged or recorded where it has to be.

        Parameters
        ----------
        key : SigningKey, optional
            Signs it.
        in_place : bool
            Select inside the scores that were given.

        Returns
        -------
        Report
            Everything that leaves the site.
        """
        if key is not None and not isinstance(key, SigningKey):
            raise TypeError(f"key must be a SigningKey, got {key!r}")
        private = self.plan.privacy
        if private is None:
            self._admit_again()
            self._record()
            made = [_part(self.plan, *asked, self.site, in_place=in_place) for asked in self._asked()]
        elif private.one_hot:
            raise ValueError(
                "this plan is to be answered only as one-hot vectors, to be summed: see private_bins"
            )
        else:
            sizes = self._allowed.sizes
            made = [_private_part(self.plan, *drawn, sizes, self.site) for drawn in self.bins().items()]
        answer = Report(plan=self.plan.digest, site=self.site, parts=tuple(made))
        return answer if key is None else key.sign(answer)

    def bins(self) -> Mapping[str | None, Sequence[int]]:
        """Draw the bins of all groups, one per level, from one charge, and so one stored answer.

        Scores are clipped into the end bins, NaN into the last one, and never raise: whether an error was
        raised would be a release of its own.

        Returns
        -------
        mapping
            For each group, or None where there are none, a bin for each level.
        """
        self._admit_again()
        ledger, dataset = self._account()
        draws = {label: _prepared(of_group(self.plan, label), values) for label, values in self._asked()}
        text = ledger.answer(
            dataset,
            epsilon=self._allowed.epsilon or 0,
            sample=lambda: json.dumps([[label, draw()] for label, draw in draws.items()]),
            **self._question,
        )
        bins: dict[str | None, Sequence[int]] = dict(json.loads(text))
        if bins.keys() != draws.keys():
            others = quoted([str(label) for label in bins])
            raise ValueError(f"the ledger's answer to this plan is for other groups: {others}")
        return bins

    def _admit_again(self) -> None:
        """The plan may have expired since it was looked at."""
        has_ledger = self._ledger is not None or self._dataset is not None
        admit(self.plan, policy=self.policy, has_ledger=has_ledger)

    def _asked(self) -> list[tuple[str | None, Scores]]:
        """The scores of each group that is answered for."""
        return [(label, self._parts[label]) for label in self._allowed.sizes]

    @cached_property
    def _fingerprint(self) -> str:
        return fingerprint(np.concatenate(list(self._parts.values())))

    @property
    def _question(self) -> dict[str, Any]:
        """How the ledger knows this answer again: by the plan alone if it says for which model it is."""
        return {
            "plan_digest": self.plan.digest,
            "site": self.site,
            "data_fingerprint": self._fingerprint,
            "by_plan": self.plan.model is not None,
            "accept": self._accept,
        }

    def _account(self) -> tuple[Ledger, str]:
        if self._ledger is None or self._dataset is None:
            raise ValueError(
                "this plan is private: ledger and dataset are needed, so that no budget is overspent"
            )
        return self._ledger, self._dataset

    def _record(self) -> None:
        """Write down that exact numbers leave, where there is a ledger."""
        if self._ledger is None and self._dataset is None:
            return
        if self._ledger is None or self._dataset is None:
            raise ValueError("ledger and dataset go together: an exact answer is recorded under that name")
        self._ledger.record_exact(
            self._dataset,
            plan_digest=self.plan.digest,
            site=self.site,
            numbers=self._allowed.counted,
            data_fingerprint=self._fingerprint,
            most=self.policy.max_answers,
        )


def _by_group(plan: Plan, scores: Scores, groups: ArrayLike | None, site: str) -> Parts:
    """The scores of each group that is there, by label in order."""
    grouping = plan.grouping
    if not grouping.has_labels:
        if groups is not None:
            raise ValueError("groups go with a plan that has groups by label: this one has none")
        return {grouping.group_of_site(site) if grouping.by_site else None: scores}
    what = "class" if grouping.by_class else "group"
    if groups is None:
        raise ValueError(f"groups must give the {what} of each score: the plan has {quoted(grouping.labels)}")
    names, which = unique_labels(groups)
    if which.size != scores.size:
        raise ValueError(f"groups must be one label for each of the {scores.size} scores, got {which.size}")
    if strange := [name for name in names if name not in grouping.labels]:
        count = int(np.isin(which, [names.index(name) for name in strange]).sum())
        raise ValueError(
            f"groups must be {'classes' if grouping.by_class else 'groups'} of the plan, got "
            f"{quoted(strange)} in {count} of {scores.size} rows: correct these, or leave them out"
        )
    found = grouping.groups_of(names, site)
    there = sorted({group for group in found if group is not None})
    return {
        group: scores[np.isin(which, [i for i, each in enumerate(found) if each == group])] for group in there
    }


# -- exact answers -----------------------------------------------------------------------------------------


def _part(plan: Plan, label: str | None, values: Scores, site: str, *, in_place: bool) -> ReportPart:
    ranks = ranks_of(plan, label, values.size, site)
    wanted = _drawn(of_group(plan, label), values.size, site, ranks)
    selected = _selected(values, wanted, in_place=in_place)
    sent = [
        Sent(ranks=each, values=tuple(selected.get(rank, math.inf) for rank in chosen))
        for each, chosen in zip(ranks, wanted, strict=True)
    ]
    return ReportPart(label=label, n=values.size, levels=tuple(sent))


def _drawn(plan: Plan, n: int, site: str, ranks: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """The ranks of the scores that are sent: those of the plan, or of the cases that the site draws."""
    if plan.part.cases is None:
        return ranks
    assert plan.round is not None
    return (drawn_ranks(plan.round, site, n, plan.part.cases),) * len(ranks)


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


def _private_part(plan: Plan, label: str | None, bins: Sequence[int], sizes: Sizes, site: str) -> ReportPart:
    """The part of a report of a site that has drawn these bins."""
    assert plan.bins is not None
    n = sizes[label]
    ranks = ranks_of(plan, label, n, site)
    sent = [
        Sent(ranks=each, values=(plan.bins.value(chosen),)) for each, chosen in zip(ranks, bins, strict=True)
    ]
    return ReportPart(label=label, n=n, levels=tuple(sent))
