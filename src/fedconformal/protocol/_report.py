"""A site's whole job: scores in, a report out."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._text import quoted
from fedconformal.documents import Payload, Plan, Report, ReportPart, SigningKey, message_kinds, unique_labels
from fedconformal.messages import of
from fedconformal.privacy import Ledger, fingerprint
from fedconformal.protocol._policy import SitePolicy
from fedconformal.protocol._request import Request, admit, make_request
from fedconformal.protocol._rows import Scores, flat_scores, private_numbers
from fedconformal.protocol._terms import Model, check_model

Parts = Mapping[str | None, Scores]
"""Scores of each group by label; under None where there are no groups."""


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
    """Answer a plan with what its message asks of this site.

    The returned Report is everything that leaves the site: its name, and for all cases, or for each group
    that it has cases of, their number and the payload of the plan's message. For a group without cases, or
    with fewer than the site's policy wants, nothing is sent, and the site counts as missing there; nor for
    one that the plan does not ask it for.

    Parameters
    ----------
    plan : Plan
        The plan to answer.
    scores : array-like
        The site's calibration scores, in any order. Integers are taken as they are, +inf is allowed, NaN is
        refused.
    site : str
        The site's name.
    groups : array-like, optional
        For a plan with groups, the label of each score, as text or whole numbers, all of them known to the
        plan: its group, or its true class (``group_by="class"``). Not needed where groups are sites.
    key : SigningKey, optional
        Signs the report, where the plan asks for it.
    policy : SitePolicy, optional
        Limits on what this site discloses, regardless of the plan; safe defaults if left out.
    model : str or path-like, optional
        The file of the model that made the scores, or its digest: compared with that of the plan.
    in_place : bool
        Select inside ``scores`` itself, leaving it shuffled; saves a copy of a very large array.
    ledger, dataset : Ledger and str, optional
        For a private plan, the account to which the answer is charged and the name of the data in it. It is
        charged once, for all groups and levels. NaN, cells that hold no number and scores outside the bins
        are then clipped, never refused. With a plan that is not private they are an error, unless the policy
        says ``private_only=False``: the exact answer is then recorded there.
    accept : str, optional
        For a private plan, the reason why scores that the ledger has not seen are of the same records, as
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
    >>> plan = fc.plan(n_sites=5, n_points=4, confidence_level=0.8, criterion="marginal")
    >>> fc.report(plan, [0.3, 0.1, 0.9, 0.5], site="A").payload.levels[0].values
    (0.5,)
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
    """Prepare to answer a plan: nothing is selected, drawn, charged or written yet.

    Parameters
    ----------
    plan, scores, site, groups, policy, model, ledger, dataset, accept : as for `report`
        The arguments of `report`.

    Returns
    -------
    Prepared
        Its ``request`` describes what would leave and what that would cost; its ``report`` makes the report.

    Raises
    ------
    ValueError
        Where `report` would refuse.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_sites=5, n_points=40, numbers=3)
    >>> fc.protocol.prepare(plan, range(40), site="A").request.sentence
    'This plan asks for 3 of your 40 scores (the 34th, 36th, 38th smallest).'
    """
    policy = SitePolicy() if policy is None else policy
    if not isinstance(policy, SitePolicy):
        raise TypeError(f"policy must be a SitePolicy, got {policy!r}")
    admit(plan, policy=policy, has_ledger=ledger is not None or dataset is not None)
    check_model(plan, model)
    parts = _by_group(plan, (private_numbers if is_private(plan) else flat_scores)(scores), groups, site)
    sizes = {group: values.size for group, values in parts.items()}
    request = make_request(plan, sizes, site=site, policy=policy)
    return Prepared(plan, site, policy, parts, request, ledger, dataset, accept)


def is_private(plan: Plan) -> bool:
    """Return whether reports have a privacy loss, so that whatever the data hold must not be refused.

    Parameters
    ----------
    plan : Plan
        The plan.

    Returns
    -------
    bool

    Examples
    --------
    >>> import fedconformal as fc
    >>> fc.protocol.is_private(fc.plan(n_sites=3, n_points=40))
    False
    """
    return any(of(design.message).epsilon(design) is not None for design in plan.designs)


@dataclass(frozen=True)
class Prepared:
    """A site about to answer what its policy allows; `prepare` makes it.

    Parameters
    ----------
    plan : Plan
        The plan to answer.
    site : str
        The site's name.
    policy : SitePolicy
        The site's limits.
    _parts : mapping
        Its scores by group.
    _allowed : Request
        What leaves, without what the ledger knows.
    _ledger, _dataset, _accept : Ledger, str and str, optional
        The account, the name of the data in it, and the reason to accept changed data.

    Examples
    --------
    >>> import fedconformal as fc
    >>> prepared = fc.protocol.prepare(fc.plan(n_sites=5, n_points=40), range(40), site="A")
    >>> prepared.request.sentence
    'This plan asks for 1 of your 40 scores (the 36th smallest).'
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
        if self._allowed.epsilon is None:
            return self._allowed
        ledger, dataset = self._account()
        quote = ledger.quote(dataset, epsilon=self._allowed.epsilon, **self._question)
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
        has_ledger = self._ledger is not None or self._dataset is not None
        admit(self.plan, policy=self.policy, has_ledger=has_ledger)  # it may have expired meanwhile
        options = {"in_place": in_place, "round_down_to": self.policy.round_down_to}
        draws = {
            group: of(self.plan.by_group[group].message).prepare(
                self.plan.by_group[group],
                self._parts[group],
                site=self.site,
                round_id=self.plan.terms.round,
                options=options,
            )
            for group in self._allowed.sizes
        }
        if self._allowed.epsilon is None:
            self._record()
            payloads = {group: draw() for group, draw in draws.items()}
        else:
            payloads = self._draw(draws)
        parts = [
            ReportPart(group=group, n=n, payload=payloads[group]) for group, n in self._allowed.sizes.items()
        ]
        answer = Report(plan=self.plan.digest, site=self.site, parts=tuple(parts))
        return answer if key is None else key.sign(answer)

    def _draw(self, draws: Mapping[str | None, Callable[[], Payload]]) -> dict[str | None, Payload]:
        """Draw the payloads of all groups from one charge, and so one stored answer."""
        ledger, dataset = self._account()
        text = ledger.answer(
            dataset,
            epsilon=self._allowed.epsilon or 0,
            sample=lambda: json.dumps(
                [[group, draw().model_dump(mode="json")] for group, draw in draws.items()]
            ),
            **self._question,
        )
        stored = dict(json.loads(text))
        if stored.keys() != draws.keys():
            others = quoted([str(group) for group in stored])
            raise ValueError(f"the ledger's answer to this plan is for other groups: {others}")
        payloads = {}
        for group, fields in stored.items():
            payload = message_kinds()[fields.pop("kind")][1]
            payloads[group] = payload.model_validate_json(json.dumps(fields))
        return payloads

    @cached_property
    def _fingerprint(self) -> str:
        return fingerprint(np.concatenate(list(self._parts.values())))

    @property
    def _question(self) -> dict[str, Any]:
        """Fields by which the ledger knows this answer again: the plan alone if it names its model."""
        return {
            "plan_digest": self.plan.digest,
            "site": self.site,
            "data_fingerprint": self._fingerprint,
            "by_plan": self.plan.terms.model is not None,
            "accept": self._accept,
        }

    def _account(self) -> tuple[Ledger, str]:
        if self._ledger is None or self._dataset is None:
            raise ValueError(
                "this plan is private: ledger and dataset are needed, so that no budget is overspent"
            )
        return self._ledger, self._dataset

    def _record(self) -> None:
        """Record that exact numbers leave, where there is a ledger."""
        if self._ledger is None and self._dataset is None:
            return
        if self._ledger is None or self._dataset is None:
            raise ValueError("ledger and dataset must be given together to record an exact answer")
        self._ledger.record_exact(
            self._dataset,
            plan_digest=self.plan.digest,
            site=self.site,
            numbers=self._allowed.numbers,
            data_fingerprint=self._fingerprint,
            most=self.policy.max_answers,
        )


def _by_group(plan: Plan, scores: Scores, groups: ArrayLike | None, site: str) -> Parts:
    """Return the scores of each group that is there, by label in order."""
    grouping = plan.grouping
    if not grouping.has_labels:
        if groups is not None:
            raise ValueError("groups was given, but this plan has no groups by label")
        return {grouping.group_of_site(site) if grouping.by_site else None: scores}
    what = "class" if grouping.by_class else "group"
    if groups is None:
        raise ValueError(f"groups must give the {what} of each score: the plan has {quoted(grouping.labels)}")
    names, which = unique_labels(groups)
    if which.size != scores.size:
        raise ValueError(f"groups must be one label for each of the {scores.size} scores, got {which.size}")
    if unknown := [name for name in names if name not in grouping.labels]:
        count = int(np.isin(which, [names.index(name) for name in unknown]).sum())
        raise ValueError(
            f"groups must be {'classes' if grouping.by_class else 'groups'} of the plan, got "
            f"{quoted(unknown)} in {count} of {scores.size} rows: correct these, or leave them out"
        )
    by_label = grouping.groups_of(names, site)
    there = sorted({group for group in by_label if group is not None})
    return {
        group: scores[np.isin(which, [i for i, each in enumerate(by_label) if each == group])]
        for group in there
    }
