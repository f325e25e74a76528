"""Site side: a plan and scores in, a report out, as far as the site's policy allows
it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from itertools import count as count_from
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal._text import count, quoted, warn
from fedconformal._util import (
    Scores,
    all_rows,
    flat_scores,
    float_array,
    plain_array,
    private_numbers,
)
from fedconformal.documents import (
    Curve,
    Payload,
    Plan,
    Report,
    ReportPart,
    ScoreRule,
    SigningKey,
    check_site_name,
    label_text,
    unique_labels,
    variants,
)
from fedconformal.messages import Answer, check_plan, of
from fedconformal.privacy import Ledger, exact_text, fingerprint, keyed_generator
from fedconformal.protocol._masking import (
    check_own_key,
    mask,
    mask_salt,
    other_keys,
    sum_keys,
)
from fedconformal.protocol._plan import Model, model_digest
from fedconformal.protocol._policy import PolicyError, SitePolicy
from fedconformal.protocol._sum_record import SumQuestion, SumRecord, read_identifiers
from fedconformal.scores import LossScore, Score, from_name, list_scores

_USUAL_POLICY = SitePolicy()


def report(
    plan: Plan,
    scores: ArrayLike | None = None,
    *,
    site: str,
    losses: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    score: Score | ScoreRule | str | None = None,
    key: SigningKey | None = None,
    policy: SitePolicy | None = None,
    model: Model | None = None,
    in_place: bool = False,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    accept: str | None = None,
    identifiers: ArrayLike | None = None,
    received: str | None = None,
) -> Report:
    """Answer a plan with what its message asks of this site.

    The returned Report is everything that leaves the site: its name, and for all cases,
    or for each group that it has cases of, their number and the payload of the plan's
    message. For a group without cases, or with fewer than the site's policy wants,
    nothing is sent, and the site counts as missing there; nor for one that the plan
    does not ask it for.

    Parameters
    ----------
    plan : Plan
        The plan to answer.
    scores : array-like
        The site's calibration scores, in any order. Integers are taken as they are,
        +inf is allowed, NaN is refused.
    site : str
        The site's name.
    losses : array-like of shape (n, n_edges), optional
        Instead of scores, for a plan with ``parts``: the loss of each case at each edge
        of the plan's curve, from 0 to 1 and never rising. At a threshold of +inf it
        must be 0. With ``starts``, beside the confidences: 1 for each case whose answer
        is wrong, else 0.
    groups : array-like, optional
        For a plan with groups, the label of each score, as text or whole numbers, all
        of them known to the plan: its group, or its true class (``group_by="class"``).
        Not needed where groups are sites.
    score : Score or str, optional
        The score that was computed, or its name, which the report then says: it must be
        that of the plan, or where the plan fixes none that of the other reports.
    key : SigningKey, optional
        Signs the report, where the plan asks for it.
    policy : SitePolicy, optional
        Limits on what this site discloses, regardless of the plan; safe defaults if
        left out.
    model : str, path-like or mapping, optional
        The model that made the scores, as its file, parameters or digest: compared with
        that of the plan. For a masked plan it is needed here or in the policy: masks
        cancel only if all sites used one model.
    in_place : bool
        Select inside ``scores`` itself, leaving it shuffled; saves a copy of a very
        large array.
    ledger, dataset : Ledger and str, optional
        For a private plan, the account to which the answer is charged and the name of
        the data in it. It is charged once, for all groups and levels. NaN, cells that
        hold no number and scores outside the bins are then clipped, never refused. With
        a plan that is not private they are an error, unless the policy says
        ``private_only=False``: the exact answer is then recorded there.
    accept : str, optional
        For a private plan, the reason why scores that the ledger has not seen are of
        the same records, as under a new model: they are accepted with this reason if
        the answer is charged.
    identifiers : array-like, optional
        For a masked plan, what tells each case from all others, as text or whole
        numbers. Keyed hashes of it are kept, by which later sums are known to be of the
        same cases, or of none of them.
    received : str, optional
        For a masked plan, the digest of everything else that the server sent and that
        the scores may depend on, as an engine passes it.

    Returns
    -------
    Report
        Everything that leaves the site.

    Raises
    ------
    ValueError
        If the scores do not fit the plan, or the policy (a PolicyError) or the ledger
        (a LedgerError) does not allow the answer; nothing has been charged then.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(
    ...     n_sites=5, n_points=4, confidence_level=0.8, criterion="marginal"
    ... )
    >>> fc.report(plan, [0.3, 0.1, 0.9, 0.5], site="A").payload.levels[0].values
    (0.5,)
    """
    return prepare(**locals()).report()


def admit(plan: Plan, *, policy: SitePolicy, has_ledger: bool) -> None:
    """Refuse a plan that this site does not answer, before any score is read or
    computed.
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
    if plan.terms.expires is not None and plan.terms.has_expired():
        raise ValueError(
            f"the plan expired at {plan.terms.expires} and can no longer be {used}"
        )


def draw_source(
    score: Score,
    *cases: Any,
    site: str,
    policy: SitePolicy,
    ledger: Ledger | None,
    dataset: str | None,
    of_check: bool = False,
    period: str | None = None,
) -> np.random.Generator | None:
    """Return the random numbers for a site's randomized scores, which no plan or round
    can choose.

    They are keyed by a secret of the ledger, or else of the policy: one draw for each
    data set and score. The parameters of the score do not count, lest whoever writes
    plans try several.

    Parameters
    ----------
    score : Score
        Score of the plan.
    *cases : array-like
        Truth and prediction, which do not count either: a perturbed model would draw
        afresh.
    site, policy, ledger, dataset
        As for `report`.
    of_check : bool
        For a check, whose cases are new.
    period : str, optional
        When the cases of a check arose; other periods have other draws.

    Returns
    -------
    numpy Generator or None
        None: the system's own, with a warning where the score is randomized, as there
        is no secret.
    """
    names = [dataset or site or "cases", score.name, "check" if of_check else "report"]
    if of_check and period is not None:
        names.append(period)
    if ledger is not None:
        return ledger.generator(*names)
    if policy.secret is not None:
        return keyed_generator(policy.secret.encode(), *names)
    if score.needs_draws:
        warn(
            f"score {score.name!r} is drawn at random, and again in each round, as"
            " there is neither a ledger nor a policy with a secret: fedconformal"
            " policy new writes one"
        )
    return None


def is_private(plan: Plan) -> bool:
    """Return whether reports have a privacy loss, so that whatever the data hold must
    not be refused.
    """
    return any(
        of(design.message).epsilon(design) is not None for design in plan.designs
    )


def prepare(
    plan: Plan,
    scores: ArrayLike | None = None,
    *,
    site: str,
    losses: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    score: Score | ScoreRule | str | None = None,
    key: SigningKey | None = None,
    policy: SitePolicy | None = None,
    model: Model | None = None,
    in_place: bool = False,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    accept: str | None = None,
    identifiers: ArrayLike | None = None,
    received: str | None = None,
    leave_out: bool = False,
) -> Prepared:
    """Prepare to answer a plan: nothing is selected, drawn, charged or written yet.

    Takes the arguments of `report`. The ``sentence`` of what is prepared describes what
    would leave and what that would cost; its ``report`` makes the report. With
    ``leave_out``, and for private plans, cases with a label that the plan does not have
    are left out: an error would tell whoever asks that there are some.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_sites=5, n_points=40, numbers=3)
    >>> fc.protocol.prepare(plan, range(40), site="A").sentence
    'This plan asks for 3 of your 40 scores (the 34th, 36th, 38th smallest), and for
    their number.'
    """
    policy = _USUAL_POLICY if policy is None else policy
    for name, value, kind in (("policy", policy, SitePolicy), ("key", key, SigningKey)):
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"{name} must be a {kind.__name__}, got {value!r}")
    admit(plan, policy=policy, has_ledger=ledger is not None or dataset is not None)
    if model is not None:
        _check_model(plan, model)
    if plan.is_masked:
        _check_stated_model(plan, model, policy)
    rule = None if score is None else check_score(plan.score, score)
    values = _read_values(plan, scores, losses)
    rows = _rows_by_group(
        plan, values.size, groups, site, leave_out=leave_out or is_private(plan)
    )
    parts = {group: values[own] for group, own in rows.items()}
    check_site_name(site)
    _check_key(plan, site, key)
    enough = {
        group: own.size
        for group, own in parts.items()
        if group is None or own.size >= policy.min_group
    }
    if not enough:
        raise PolicyError(
            f"nothing is sent: this site has fewer than {policy.min_group} cases of"
            " every group; min_group ="
            f" {max((own.size for own in parts.values()), default=1)} would allow it"
        )
    if plan.is_masked:
        own_key = check_own_key(plan.keys or (), site, key)
        _refuse_few(plan, enough, site)
        for group in plan.by_group:
            policy.check_sum(sum_keys(plan, group), own_key.public_key)
    numbers, unreached = _count_numbers(plan, enough, site)
    held_back = tuple(
        group for group in parts if group is not None and group not in enough
    )
    round_down_to = (
        0 if plan.is_masked else policy.round_down_to
    )  # no count can be read individually
    options = {"in_place": in_place, "round_down_to": round_down_to}
    prepared = Prepared(
        plan,
        site,
        policy,
        numbers,
        held_back,
        unreached,
        values.size - sum(own.size for own in parts.values()),
        parts,
        options,
        rule,
        key,
        ledger,
        dataset,
        accept,
        _identifiers_by_group(identifiers, values.size, rows),
        received,
    )
    designs = {group: plan.by_group[group] for group in numbers}
    exact = [
        numbers[group]
        for group, design in designs.items()
        if of(design.message).epsilon(design) is None and not of(design.message).adds_up
    ]
    policy.check_numbers(sum(exact), sum(enough[group] for group in numbers))
    if prepared.epsilon is not None:
        policy.check_epsilon(prepared.epsilon)
    if plan.is_masked:
        _ = prepared.is_recorded  # refused before anything is shown
    return prepared


def _check_key(plan: Plan, site: str, key: SigningKey | None) -> None:
    """Refuse a report that the server could not accept, for want of the listed key."""
    if plan.keys is None:
        return
    listed = {each.site: each.public_key for each in plan.keys}
    if site not in listed:
        raise ValueError(f"the plan lists no public key of site {site!r}")
    if key is None:
        raise ValueError(
            f"key must be the private one of site {site!r}, whose public key the plan"
            " lists: only signed reports count"
        )
    if key.public_key != listed[site]:
        raise ValueError(
            f"key must be the one that the plan lists for site {site!r},"
            f" {listed[site][:16]}..., got {key.public_key[:16]}..."
        )


def _refuse_few(plan: Plan, enough: Collection[str | None], site: str) -> None:
    """Refuse a masked answer without a group that the plan asks for: masks would not
    cancel.
    """
    asked = {
        group
        for group, design in plan.by_group.items()
        if site in (design.asked_names or ())
    }
    if missing := sorted(group or "" for group in asked - set(enough)):
        raise PolicyError(
            "nothing is sent: a masked answer is for every group that the plan asks"
            f" for, and this site has too few cases of {quoted(missing)}"
        )


def loss_curve(plan: Plan) -> Curve | None:
    """Return the curve of a plan that asks for losses, or for answers; None if it asks
    for scores alone.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_points={"A": 90}, curve=fc.Bins([1, 2]), parts=100, risk=0.1)
    >>> fc.protocol.loss_curve(plan).edges
    (1.0, 2.0)
    """
    curves = [
        design.message for design in plan.designs if isinstance(design.message, Curve)
    ]
    kinds = {(curve.edges, curve.parts, curve.starts) for curve in curves}
    if not any(parts or starts for _, parts, starts in kinds):
        return None
    if len(curves) < len(plan.designs) or len(kinds) > 1:
        raise ValueError(
            "a plan that asks for losses must ask for the same ones in every group"
        )
    return curves[0]


def _read_values(plan: Plan, scores: Any, losses: Any) -> Any:
    """Return the scores, or an array with the losses of each case as one entry."""
    curve = loss_curve(plan)
    has_starts = curve is not None and curve.starts is not None
    has_parts = curve is not None and not has_starts
    if (losses is not None, scores is None) != (has_parts or has_starts, has_parts):
        wanted = "scores, and losses" if has_starts else "scores, and no losses"
        raise ValueError(
            f"this plan takes {'losses, and no scores' if has_parts else wanted}"
        )
    if curve is None and is_private(plan):
        return private_numbers(scores)
    if curve is None:
        values = flat_scores(scores)
        if plan.score is not None and plan.score.name in list_scores(LossScore):
            warn_of_empty(plan, np.mean(values == 0))
        return values
    values = float_array("losses", losses, ndim=2 if has_parts else 1)
    all_rows(
        "losses", values, (values >= 0) & (values <= 1), "must lie between 0 and 1"
    )
    if has_starts:
        confidence = flat_scores(scores)
        if values.shape != confidence.shape or not np.isin(values, (0, 1)).all():
            raise ValueError(
                f"losses must be 0 or 1 for each of the {confidence.size} cases"
            )
        values = np.column_stack([confidence, values])
    else:
        falls = values[:, 1:] <= values[:, :-1]
        all_rows("losses", values, falls, "must not rise from one setting to the next")
        if not len(values) or values.shape[1] != len(curve.edges):
            raise ValueError(
                f"losses must have a row for each case and {len(curve.edges)} columns,"
                f" got {values.shape}"
            )
    rows = np.empty(len(values), dtype=[("losses", np.float64, values.shape[1:])])
    rows["losses"] = values
    return rows


def warn_of_empty(plan: Plan, share: float) -> None:
    """Warn if cases that lose nothing at any threshold let the others lose more than is
    allowed.
    """
    risk = float(
        1
        - max(
            level.confidence_level for design in plan.designs for level in design.levels
        )
    )
    if share >= risk:
        warn(
            f"{100 * share:.1f} % of the cases have nothing to find, or it is found at"
            f" every threshold: with an allowed risk of {100 * risk:g} % the others may"
            " be missed more often. If these have no true label or pixel, leave them"
            " out to control the risk of the others"
        )


def _check_model(plan: Plan, model: Model) -> None:
    """Refuse scores of another model than the plan's."""
    if plan.terms.model is None:
        raise ValueError("model was given, but the plan names none to compare it with")
    digest = model_digest(model)
    if digest != plan.terms.model:
        raise ValueError(
            f"this plan is for another model, {plan.terms.model[:19]}..., than"
            f" {digest[:19]}..."
        )


def check_score(fixed: ScoreRule | None, score: Score | ScoreRule | str) -> ScoreRule:
    """Return the given score as a rule; refuse another one than a plan fixes, if it
    fixes one.
    """
    given = from_name(score) if isinstance(score, str) else score
    if isinstance(given, Score):
        given = ScoreRule(name=given.name, parameters=given.parameters())
    if not isinstance(given, ScoreRule):
        raise TypeError(f"score must be a score or its name, got {score!r}")
    if fixed is not None and given != fixed:
        raise ValueError(f"score must be that of the plan, {fixed}, got {given}")
    return given


def _check_stated_model(plan: Plan, model: Model | None, policy: SitePolicy) -> None:
    """Refuse a masked answer unless the plan names its model and the site says that it
    used this one.

    A server that gives the other sites another model, whose scores all lie in one cell,
    reads this site's counts in the sum.
    """
    if plan.terms.model is None:
        raise PolicyError(
            "this masked plan names no model, so that sites could be given different"
            ' ones: terms={"model": ...} names it'
        )
    stated = policy.model if model is None else model_digest(model)
    if stated is None:
        raise PolicyError(
            "a masked answer needs the model that made the scores, as masks cancel only"
            " if all sites used the same: give model (its file, parameters or digest),"
            " or name it in the site's policy"
        )
    if stated != plan.terms.model:
        raise PolicyError(
            f"this plan is for another model, {plan.terms.model[:19]}..., than the"
            f" site's policy names, {stated[:19]}..."
        )


def _identifiers_by_group(
    identifiers: ArrayLike | None, n_cases: int, rows: Mapping[str | None, Rows]
) -> Mapping[str | None, list[str]] | None:
    """Return the identifiers of the cases of each group; None without any."""
    if identifiers is None:
        return None
    texts = read_identifiers(identifiers, n_cases)
    return {group: texts[own].tolist() for group, own in rows.items()}


Rows = slice | NDArray[np.bool_]
"""The cases of one group."""


def _rows_by_group(
    plan: Plan, n_cases: int, groups: ArrayLike | None, site: str, *, leave_out: bool
) -> dict[str | None, Rows]:
    """Return the rows of each group that has cases, by label in order."""
    grouping = plan.grouping if plan.is_grouped else None
    if grouping is None or not grouping.has_labels:
        if groups is not None:
            raise ValueError("groups was given, but this plan has no groups by label")
        if grouping is None:
            return {None: slice(None)}
        return {grouping.group_of_site(site) if grouping.by_site else None: slice(None)}
    what = "class" if grouping.by_class else "group"
    if groups is None:
        raise ValueError(
            f"groups must give the {what} of each score: the plan has"
            f" {quoted(grouping.labels)}"
        )
    names, which = unique_labels(
        _known_labels(groups, grouping.labels) if leave_out else groups
    )
    if which.size != n_cases:
        raise ValueError(
            f"groups must be one label for each of the {n_cases} scores, got"
            f" {which.size}"
        )
    unknown = [name for name in names if name not in grouping.labels]
    if unknown and not leave_out:
        count = int(np.isin(which, [names.index(name) for name in unknown]).sum())
        raise ValueError(
            f"groups must be {'classes' if grouping.by_class else 'groups'} of the"
            f" plan, got {quoted(unknown)} in {count} of {n_cases} rows: correct these,"
            " or leave them out"
        )
    by_label = {
        group: i
        for i, group in enumerate(grouping.groups_of(names, site))
        if group is not None
    }
    return {group: which == by_label[group] for group in sorted(by_label)}


def _known_labels(groups: ArrayLike, known: Collection[str]) -> list[str]:
    """Return the labels as text, and whatever is none of the known ones as one that is
    not known either.
    """
    values = plain_array(groups, dtype=None if hasattr(groups, "dtype") else object)
    if values.ndim != 1:
        raise ValueError(
            f"groups must be a flat array, one for each score, got shape {values.shape}"
        )
    unknown = next(
        text for text in ("?" * i for i in count_from(1)) if text not in known
    )

    def text_of(value: object) -> str:
        is_label = isinstance(value, str | int) and not isinstance(value, bool)
        return text if is_label and (text := label_text(value)) in known else unknown

    return [text_of(value) for value in values.tolist()]


def _count_numbers(
    plan: Plan, sizes: Mapping[str | None, int], site: str
) -> tuple[dict[str | None, int], tuple[str, ...]]:
    """Count the numbers for each group that is answered for, and list those not worth
    any epsilon.
    """
    is_known = site in (plan.site_names or ())
    numbers: dict[str | None, int] = {}
    hopeless = []
    is_asked = False
    for group, n in sizes.items():
        design = plan.by_group[group]
        if (
            group is not None
            and is_known
            and site not in (design.site_names or (site,))
        ):
            continue
        is_asked, message = True, of(design.message)
        if message.epsilon(design) is not None and all(
            level.advice is not None for level in design.levels
        ):
            hopeless.append(group or "")
            continue
        try:
            place = design.find_kind(n, site=site)
            if place is None or design.kinds[place].asked:
                numbers[group] = message.count_numbers(design, n, site)
        except ValueError as error:
            if group is None:
                raise
            raise ValueError(f"group {quoted([group])}: {error}") from None
    numbers = {group: number for group, number in numbers.items() if number}
    if not is_asked:
        raise ValueError(
            f"the plan does not ask site {site!r} for any group that it has cases of"
        )
    if not numbers and hopeless:
        raise ValueError(
            "this private plan has an infinite threshold: answering it would spend"
            " epsilon for nothing"
        )
    if not numbers:
        raise ValueError(
            f"the plan does not ask site {site!r}: no answer of it could change the"
            " threshold"
        )
    return numbers, tuple(hopeless)


def _flatten(values: Any) -> Any:
    return values["losses"] if values.dtype.names else values


@dataclass(frozen=True)
class Prepared:
    """A site about to answer what its policy allows; `prepare` makes it.

    Attributes
    ----------
    plan, site, policy : Plan, str and SitePolicy
        The plan to answer, the site's name and its limits.
    numbers : mapping
        How many numbers leave for each group that is answered for, under None where
        there are no groups.
    held_back : tuple of str
        Groups for which nothing is sent, as the site has too few cases of them.
    unreached : tuple of str
        Groups for which nothing is sent, as no epsilon should be spent on an infinite
        threshold.
    left_out : int
        Number of cases with a label that the plan does not have.
    """

    plan: Plan
    site: str
    policy: SitePolicy
    numbers: Mapping[str | None, int]
    held_back: tuple[str, ...]
    unreached: tuple[str, ...]
    left_out: int
    _parts: Mapping[str | None, Scores]
    _options: Mapping[str, Any]
    _score: ScoreRule | None
    _key: SigningKey | None
    _ledger: Ledger | None
    _dataset: str | None
    _accept: str | None
    _identifiers: Mapping[str | None, list[str]] | None
    _received: str | None

    @cached_property
    def epsilon(self) -> Fraction | None:
        """Privacy loss of the answer, now or when it was first given; None if it is
        exact.
        """
        designs = [self.plan.by_group[group] for group in self.numbers]
        costs = [of(design.message).epsilon(design) for design in designs]
        # Groups are disjoint, so that a record costs the epsilon of its own group
        # alone.
        return max((cost for cost in costs if cost is not None), default=None)

    @cached_property
    def _sum(self) -> SumQuestion | None:
        """Question and cases of a masked answer; None for any other."""
        if not self.plan.is_masked or self._key is None:
            return None
        terms = self.plan.terms
        return SumQuestion(
            salt=mask_salt(self.plan.digest, self._received, self.policy.sum_dataset),
            site=self.site,
            key=self._key,
            sites=tuple(
                sorted(
                    key.public_key
                    for key in sum_keys(self.plan, next(iter(self.numbers)))
                )
            ),
            is_exact=self.epsilon is None,
            context=json.dumps([terms.model, str(self._score or self.plan.score)]),
            dataset=self.policy.sum_dataset,
            cases={group: _flatten(own) for group, own in self._parts.items()},
            identifiers=self._identifiers,
        )

    @cached_property
    def is_recorded(self) -> bool:
        """True if the answer is masked and was given before; refuses one that earlier
        sums forbid.
        """
        if self._sum is None:
            return False
        return SumRecord.of(self.policy, self._key).find(self._sum, Report) is not None

    @property
    def sentence(self) -> str:
        """Everything that would leave and what it costs; refuses what the ledger does
        not allow.
        """
        if self.is_recorded:
            return (
                "This plan was answered before: the same masked report leaves, whatever"
                " your scores are now."
            )
        text = self._list_numbers()
        if self.epsilon is not None:
            ledger, dataset = self._account
            quote = ledger.quote(dataset, epsilon=self.epsilon, **self._question)
            cost = (
                f"{exact_text(self.epsilon)} of the {exact_text(quote.remaining)} that"
                " are left"
            )
            if quote.cost == 0:
                text += (
                    " It costs nothing: the ledger holds the answer that was given"
                    " before."
                )
            else:
                text += f" It costs epsilon {cost}."
        if self.held_back:
            text += (
                f" Nothing is sent for {quoted(self.held_back)}: you have too few of"
                " these cases."
            )
        if self.unreached:
            text += (
                f" Nothing is sent for {quoted(self.unreached)}: the threshold would be"
                " infinite."
            )
        if self.left_out:
            text += (
                f" {count(self.left_out, 'case')} left out: the plan has no such label."
            )
        if self._sum is not None and self.policy.sum_record is None:
            text += (
                f" It is recorded in {SumRecord.of(self.policy, self._key).path.name}"
                " beside the key: what other keys of this site have answered is not"
                " seen. sum_record in the policy names one record for all."
            )
        return text

    def _list_numbers(self) -> str:
        """Describe the numbers that the plan asks for."""
        words = {}
        for group in self.numbers:
            design = self.plan.by_group[group]
            words[group] = of(design.message).discloses(
                design, self._parts[group].size, self.site
            )
            if design.message.is_masked:
                words[group] += (
                    f", masked so that only the sum over {design.n_asked:,} sites can"
                    " be read"
                )
            elif (
                self.epsilon is None
                and of(design.message).adds_up
                and self.policy.round_down_to > 1
            ):
                words[group] += f" (0 for fewer than {self.policy.round_down_to})"
        if None in words:
            return f"This plan asks for {words[None]}, and for their number."
        listed = [f"{quoted([group or ''])}: {what}" for group, what in words.items()]
        shown = "; ".join(listed[:5]) + ("; ..." if len(listed) > 5 else "")
        return (
            f"This plan asks for the sizes of {count(len(listed), 'group')}, and for"
            f" {shown}."
        )

    def report(self) -> Report:
        """Make the report, charged or recorded where it has to be; a masked one once
        for each plan.
        """
        has_ledger = self._ledger is not None or self._dataset is not None
        admit(
            self.plan, policy=self.policy, has_ledger=has_ledger
        )  # it may have expired meanwhile
        if not self.plan.is_masked or self._sum is None:
            return self._make(has_ledger=has_ledger)
        record = SumRecord.of(self.policy, self._key)
        return record.answer(
            self._sum, Report, partial(self._make, has_ledger=has_ledger)
        )

    def _make(self, *, has_ledger: bool) -> Report:
        draws = {
            group: (
                of(self.plan.by_group[group].message).prepare(
                    self.plan.by_group[group],
                    self._parts[group],
                    site=self.site,
                    round_id=self.plan.terms.round,
                    options=self._options,
                )
            )
            for group in self.numbers
        }
        if self._sum is not None:
            draws = {
                group: partial(self._mask, group, draw, self._sum)
                for group, draw in draws.items()
            }
        if self.epsilon is not None:
            payloads = self._draw(draws)
        else:
            if has_ledger:
                ledger, dataset = self._account
                known = {
                    name: self._question[name]
                    for name in ("plan_digest", "site", "data_fingerprint")
                }
                numbers, n = (
                    sum(self.numbers.values()),
                    sum(own.size for own in self._parts.values()),
                )
                numbers = (
                    1 if self.plan.is_masked else numbers
                )  # none can be read individually
                allow = partial(self.policy.check_life, dataset, numbers, n)
                ledger.record_exact(dataset, numbers=numbers, allow=allow, **known)
            payloads = {group: draw() for group, draw in draws.items()}
        parts = [
            ReportPart(group=group, n=self._parts[group].size, payload=payload)
            for group, payload in payloads.items()
        ]
        seal = None
        if self.policy.report_seal and has_ledger:
            ledger, dataset = self._account
            known = {
                name: self._question[name]
                for name in ("plan_digest", "site", "data_fingerprint")
            }
            seal = ledger.seal(dataset, **known)
        answer = Report(
            plan=self.plan.digest,
            site=self.site,
            parts=tuple(parts),
            score=self._score,
            ledger_seal=seal,
        )
        return answer if self._key is None else self._key.sign(answer)

    def _mask(
        self, group: str | None, draw: Callable[[], Payload], question: SumQuestion
    ) -> Payload:
        """Draw the payload of one group, and hide it behind masks."""
        design = self.plan.by_group[group]
        answer = Answer(self.site, self._parts[group].size, draw())
        vector = of(design.message).vector(design, answer)
        others = other_keys(sum_keys(self.plan, group), question.key)
        place = list(self.plan.by_group).index(group)
        return mask(vector, question.key, others, question.salt, place)

    def _draw(
        self, draws: Mapping[str | None, Callable[[], Payload]]
    ) -> dict[str | None, Payload]:
        """Draw the payloads of all groups from one charge, and so one stored answer."""
        ledger, dataset = self._account
        counts = ledger.keyed_hash(json.dumps([self.plan.digest, self._count(draws)]))

        def sample() -> str:
            payloads = [draw().model_dump(mode="json") for draw in draws.values()]
            return json.dumps({"counts": counts, "payloads": payloads})

        text = ledger.answer(
            dataset, epsilon=self.epsilon or 0, sample=sample, **self._question
        )
        stored = json.loads(text)
        if stored["counts"] != counts:
            raise ValueError(
                "the ledger holds an answer to this plan that was drawn from other"
                " scores or groups than these: it is not given for them. Ask for a new"
                " plan, whose answer is charged again"
            )
        payloads = {}
        for group, fields in zip(draws, stored["payloads"], strict=True):
            payload = variants(1)[fields.pop("kind")]
            payloads[group] = cast(
                Payload, payload.model_validate_json(json.dumps(fields))
            )
        return payloads

    def _count(
        self, groups: Iterable[str | None]
    ) -> list[tuple[str | None, list[int]]]:
        """Return what noise is added to, for each group."""
        counted = []
        for group in groups:
            design = self.plan.by_group[group]
            cells = of(design.message).count_cells(design, self._parts[group])
            counted.append((group, cells.tolist()))
        return counted

    @cached_property
    def _question(self) -> dict[str, Any]:
        """Fields by which the ledger knows this answer again: the plan alone if it
        names its model.
        """
        return {
            "plan_digest": self.plan.digest,
            "site": self.site,
            "data_fingerprint": fingerprint(
                _flatten(np.concatenate(list(self._parts.values())))
            ),
            "by_plan": self.plan.terms.model is not None,
            "accept": self._accept,
        }

    @property
    def _account(self) -> tuple[Ledger, str]:
        if self._ledger is None or self._dataset is None:
            private = (
                "this plan is private: ledger and dataset are needed, so that no budget"
                " is overspent"
            )
            exact = (
                "ledger and dataset must be given together to record an exact answer"
            )
            raise ValueError(exact if self.epsilon is None else private)
        return self._ledger, self._dataset
