"""A site's whole job: scores in, a report out."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._text import count, quoted
from fedconformal.documents import (
    Payload,
    Plan,
    Report,
    ReportPart,
    SigningKey,
    check_site_name,
    message_kinds,
    unique_labels,
)
from fedconformal.laws import MOST_WORK
from fedconformal.messages import PROMISED, of
from fedconformal.planning import CRITERIA, PROMISES
from fedconformal.privacy import Ledger, exact_text, fingerprint
from fedconformal.protocol._policy import PolicyError, SitePolicy
from fedconformal.protocol._rows import Scores, flat_scores, private_numbers
from fedconformal.protocol._terms import Model, check_model

# -- whether a plan makes sense: its structure, and whether its message can keep its promise ---------------


_CHECKED = "_is_checked"


def check_plan(plan: Plan) -> None:
    """Refuse a plan that nobody should answer or calibrate, whoever wrote it.

    Parameters
    ----------
    plan : Plan
        The plan.

    Raises
    ------
    ValueError
        With the reason in one line.

    Examples
    --------
    >>> import fedconformal as fc
    >>> fc.protocol.check_plan(fc.plan(n_sites=3, n_points=40))
    """
    if plan.__dict__.get(_CHECKED):  # plans are immutable
        return
    plan.check()
    work = {(design.n_sites, of(design.message).work(design)) for design in plan.designs}
    if sum(points for _, points in work) > MOST_WORK:
        raise ValueError("the noise of this plan takes too long to check: use fewer cells or groups")
    for design in plan.designs:
        promise, criterion = PROMISES[design.promise], CRITERIA[design.criterion]
        if (design.delta is not None) != criterion.takes_delta:
            raise ValueError(f"delta does not fit the criterion {design.criterion!r}")
        if plan.is_grouped and not promise.allows_groups:
            raise ValueError(f"promise {design.promise!r} does not go with groups: it is a plan of its own")
        if not promise.takes_mixture and any(kind.share is not None for kind in design.kinds):
            raise ValueError("a share of new cases goes with a promise to a mixture")
        kind = design.message.kind
        if design.promise not in PROMISED.get(kind, (design.promise,)) and any(
            design.promise in row for row in PROMISED.values()
        ):
            raise ValueError(f"promise {design.promise!r} does not go with the message {kind!r}")
        of(design.message).check(design)
    plan.__dict__[_CHECKED] = True


# -- what a plan asks of a site: described, and allowed by the site, before anything is computed -----------


Sizes = Mapping[str | None, int]
"""Number of scores of a site in each group, under None where there are no groups."""


@dataclass(frozen=True)
class Request:
    """Request of a plan to one site.

    Attributes
    ----------
    sizes : mapping
        The groups that are answered for, each with the site's number of scores there; under None where there
        are no groups.
    discloses : mapping
        What leaves for each of them, in words.
    held_back : tuple of str
        Groups for which nothing is sent, as the site has too few cases of them.
    unreached : tuple of str
        Groups for which nothing is sent, as no epsilon should be spent on an infinite threshold.
    numbers : int
        Number of numbers that leave, other than the sizes.
    epsilon : Fraction or None
        Privacy loss of the answer, now or when it was first given; None if it is exact.
    left : Fraction or None
        Rest of the budget before it, where a ledger was given for a private plan.
    is_repeated : bool
        True if the ledger holds this answer already: it is then given again, at no cost.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_sites=5, n_points=40, numbers=3)
    >>> fc.protocol.prepare(plan, range(40), site="A").request.numbers
    3
    """

    sizes: Sizes
    discloses: Mapping[str | None, str]
    held_back: tuple[str, ...]
    unreached: tuple[str, ...]
    numbers: int
    epsilon: Fraction | None
    left: Fraction | None = None
    is_repeated: bool = False

    @property
    def n(self) -> int:
        """Number of scores of the site in the groups that are answered for."""
        return sum(self.sizes.values())

    @property
    def sentence(self) -> str:
        """Everything that leaves and what it costs, for the data owner."""
        if None in self.discloses:
            asked = f"This plan asks for {self.discloses[None]}, and for their number."
        else:
            listed = [f"{quoted([group or ''])}: {what}" for group, what in self.discloses.items()]
            shown = "; ".join(listed[:5]) + ("; ..." if len(listed) > 5 else "")
            asked = f"This plan asks for the sizes of {count(len(listed), 'group')}, and for {shown}."
        if self.epsilon is not None:
            asked += f" {self._cost}"
        if self.held_back:
            asked += f" Nothing is sent for {quoted(self.held_back)}: you have too few of these cases."
        if self.unreached:
            asked += f" Nothing is sent for {quoted(self.unreached)}: the threshold would be infinite."
        return asked

    @property
    def _cost(self) -> str:
        if self.is_repeated:
            return "It costs nothing: the ledger holds the answer that was given before."
        cost = f"It costs epsilon {exact_text(self.epsilon or Fraction(0))}"
        return f"{cost}." if self.left is None else f"{cost} of the {exact_text(self.left)} that are left."


def make_request(plan: Plan, sizes: Sizes, *, site: str, policy: SitePolicy) -> Request:
    """Describe what an admitted plan asks of a site of these sizes; refuse what its policy does not allow.

    Parameters
    ----------
    plan : Plan
        The plan to answer.
    sizes : mapping
        Number of scores of the site in each group, under None where there are no groups.
    site : str
        The site's name.
    policy : SitePolicy
        The site's limits.

    Returns
    -------
    Request
        Without what a ledger knows.

    Raises
    ------
    PolicyError
        If the policy does not allow it.
    ValueError
        If the plan does not ask this site.
    """
    check_site_name(site)
    held_back = tuple(group for group, n in sizes.items() if group is not None and n < policy.min_group)
    enough = {group: n for group, n in sizes.items() if group not in held_back}
    if not enough:
        raise PolicyError(
            f"nothing is sent: this site has fewer than {policy.min_group} cases of every group; "
            f"min_group = {max(sizes.values(), default=1)} would allow it"
        )
    numbers, unreached = _count_numbers(plan, enough, site)
    answered = {group: enough[group] for group in numbers}
    n = sum(answered.values())
    messages = {group: of(plan.by_group[group].message) for group in answered}
    costs = [messages[group].epsilon(plan.by_group[group]) for group in answered]
    exact = sum(
        each
        for each, cost, group in zip(numbers.values(), costs, numbers, strict=True)
        if cost is None and not messages[group].adds_up
    )
    policy.check_numbers(exact, n)
    # Groups are disjoint, so that a record costs the epsilon of its own group alone.
    epsilon = max((cost for cost in costs if cost is not None), default=None)
    if epsilon is not None:
        policy.check_epsilon(epsilon)
    words = {
        group: messages[group].discloses(plan.by_group[group], answered[group], site) for group in answered
    }
    if epsilon is None and policy.round_down_to > 1 and any(each.adds_up for each in messages.values()):
        words = {group: f"{what} (0 for fewer than {policy.round_down_to})" for group, what in words.items()}
    return Request(answered, words, held_back, unreached, sum(numbers.values()), epsilon)


def _count_numbers(plan: Plan, sizes: Sizes, site: str) -> tuple[dict[str | None, int], tuple[str, ...]]:
    """Count the numbers for each group that is answered for, and list those not worth any epsilon."""
    names = plan.site_names or ()
    expected = {
        group: n
        for group, n in sizes.items()
        if group is None or site not in names or site in (plan.by_group[group].site_names or (site,))
    }
    if not expected:
        raise ValueError(f"the plan does not ask site {site!r} for any group that it has cases of")
    numbers, hopeless = {}, list[str]()
    for group, n in expected.items():
        design = plan.by_group[group]
        message = of(design.message)
        unreached = all(level.advice is not None for level in design.levels)
        if message.epsilon(design) is not None and unreached:
            hopeless.append(group or "")
            continue
        try:
            place = design.find_kind(n, site=site)
            is_asked = place is None or design.kinds[place].asked
            asked = message.count_numbers(design, n, site) if is_asked else 0
        except ValueError as error:
            if group is None:
                raise
            raise ValueError(f"group {quoted([group])}: {error}") from None
        if asked:
            numbers[group] = asked
    if not numbers and hopeless:
        raise ValueError(
            "this private plan has an infinite threshold: answering it would spend epsilon for nothing"
        )
    if not numbers:
        raise ValueError(f"the plan does not ask site {site!r}: no answer of it could change the threshold")
    return numbers, tuple(hopeless)


def admit(plan: Plan, *, policy: SitePolicy, has_ledger: bool) -> None:
    """Refuse a plan that this site does not answer, before any score is read or computed.

    Parameters
    ----------
    plan : Plan
        The plan to answer.
    policy : SitePolicy
        The site's limits.
    has_ledger : bool
        True if a ledger or a data set was given to charge.

    Raises
    ------
    PolicyError
        If the policy does not allow it.
    ValueError
        If the plan makes no sense, has expired, or carries an invalid signature.

    Examples
    --------
    >>> import fedconformal as fc
    >>> fc.protocol.admit(fc.plan(n_sites=3, n_points=40), policy=fc.SitePolicy(), has_ledger=False)
    """
    check_current(plan, "answered")
    policy.check_plan(plan, has_ledger=has_ledger)


def check_current(plan: Plan, used: str) -> None:
    """Refuse a plan that makes no sense, has an invalid signature, or has expired."""
    if not isinstance(plan, Plan):
        raise TypeError(f"plan must be a Plan, got {type(plan).__name__}")
    check_plan(plan)
    if (plan.signature is not None or plan.signer is not None) and not plan.is_signed:
        raise ValueError("the signature of this plan is not that of the key it names")
    if plan.terms.has_expired():
        raise ValueError(f"the plan expired at {plan.terms.expires} and can no longer be {used}")


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
    'This plan asks for 3 of your 40 scores (the 34th, 36th, 38th smallest), and for their number.'
    """
    policy = SitePolicy() if policy is None else policy
    if not isinstance(policy, SitePolicy):
        raise TypeError(f"policy must be a SitePolicy, got {policy!r}")
    admit(plan, policy=policy, has_ledger=ledger is not None or dataset is not None)
    if model is not None:
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
    'This plan asks for 1 of your 40 scores (the 36th smallest), and for their number.'
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
        """Numbers that would leave, and their cost; refuses what the ledger does not allow."""
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
        sizes = [[group, n] for group, n in self._allowed.sizes.items()]
        labels = self._groups_digest

        def sample() -> str:
            payloads = [draw().model_dump(mode="json") for draw in draws.values()]
            return json.dumps({"sizes": sizes, "labels": labels, "payloads": payloads})

        epsilon = self._allowed.epsilon or 0
        stored = json.loads(ledger.answer(dataset, epsilon=epsilon, sample=sample, **self._question))
        if stored["sizes"] != sizes:
            raise ValueError("the ledger's answer to this plan is for other groups or numbers of scores")
        if self.plan.terms.model is None and stored["labels"] != labels:
            raise ValueError("the ledger's answer to this plan is for other labels of the same scores")
        payloads = {}
        for group, fields in zip(draws, stored["payloads"], strict=True):
            payload = message_kinds()[fields.pop("kind")][1]
            payloads[group] = payload.model_validate_json(json.dumps(fields))
        return payloads

    @property
    def _groups_digest(self) -> str:
        """Hash of the scores of each group, by which labels that were changed are noticed."""
        parts = [f"{group}: {fingerprint(values)}" for group, values in self._parts.items()]
        return hashlib.sha256("\n".join([self.plan.digest, *parts]).encode()).hexdigest()

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
