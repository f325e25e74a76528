"""The site's side: a plan in, a report or a fixed code out, and nothing else."""

import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedconformal import heterogeneity, protocol
from fedconformal._validation import plain_array
from fedconformal.documents import Calibration, Plan, SigningKey, unique_labels
from fedconformal.privacy import Ledger, LedgerError
from fedconformal.protocol import SitePolicy
from fedconformal.rounds._packing import Failure, pack_report, unpack_calibration, unpack_plan


@dataclass(frozen=True)
class Site:
    """Who answers, and from which account.

    Parameters
    ----------
    name : str
        The site's name.
    key : SigningKey, optional
        Signs the report.
    ledger, dataset : Ledger and str, optional
        For private plans, the site's account and what its data are called in it.
    policy : SitePolicy, optional
        What the site lets out, whatever the plan asks for.

    Examples
    --------
    >>> import fedconformal as fc
    >>> fc.rounds.Site("north").name
    'north'
    """

    name: str
    key: SigningKey | None = None
    ledger: Ledger | None = None
    dataset: str | None = None
    policy: SitePolicy | None = None


def answer(
    packed: object,
    scores: Callable[[Plan], Any],
    site: Callable[[Plan], Site],
    *,
    model: str | None = None,
    log: logging.Logger,
    loudness: int = logging.INFO,
) -> str | Failure:
    """Answer a plan that came over the wire, whatever happens.

    Parameters
    ----------
    packed : object
        The plan, as `pack_plan` made it.
    scores : callable
        Computes the site's scores for a plan, or a pair of scores and labels: the group, or the true class,
        of each. The labels are needed, and looked at, for a plan with groups.
    site : callable
        Gives the site's name, key and, for a private plan, its account.
    model : str, optional
        Digest of the model that came with the plan. It must be the one that the plan names, if it names one.
        Else scores under a new model are new data to the ledger, which draw on the same budget.
    log : logging.Logger
        The site's own log: it shows what leaves, and keeps the text of exceptions.
    loudness : int
        The level at which it shows what leaves.

    Returns
    -------
    str or Failure
        The report for `unpack_report`; or the fixed code that leaves instead, if anything went wrong.

    Examples
    --------
    >>> import logging
    >>> import fedconformal as fc
    >>> packed = fc.rounds.pack_plan(fc.plan(n_sites=3, n_points=40))
    >>> site, log = fc.rounds.Site("north"), logging.getLogger("north")
    >>> text = fc.rounds.answer(packed, lambda plan: range(40), lambda plan: site, log=log)
    >>> fc.rounds.unpack_report(text).site
    'north'
    """

    def make(reached: Callable[[Failure], None]) -> str:
        plan = unpack_plan(packed)
        reached(Failure.REPORT)
        who = site(plan)
        policy = SitePolicy() if who.policy is None else who.policy
        has_ledger = who.ledger is not None or who.dataset is not None
        protocol.admit(plan, policy=policy, has_ledger=has_ledger)
        reached(Failure.SCORES)
        values, groups = _scores_and_groups(plan, scores(plan))
        reached(Failure.REPORT)
        prepared = protocol.prepare(
            plan,
            values,
            groups=groups,
            site=who.name,
            policy=policy,
            ledger=who.ledger,
            dataset=who.dataset,
            **_model(plan, model),
        )
        log.log(loudness, "%s", prepared.request.sentence)
        return pack_report(prepared.report(key=who.key))

    return _whatever_happens(make, Failure.PLAN, log, loudness)


def answer_check(
    packed: object,
    scores: Callable[[Plan], Any],
    site: Callable[[Plan], Site],
    *,
    epsilon: float | None = None,
    model: str | None = None,
    log: logging.Logger,
    loudness: int = logging.INFO,
) -> str | Failure:
    """Say how many new cases a calibration covers at this site, whatever happens.

    The calibration is verified first, as far as it can be without the reports. Who asks may still choose
    thresholds: the site's policy, and its ledger if it keeps one, bound what can be learned that way.

    Parameters
    ----------
    packed : object
        The calibration, as `pack_calibration` made it.
    scores : callable
        Computes the scores of the site's new cases, or a pair of scores and labels, as for `answer`.
    site : callable
        Gives the site's name and, for a private answer, its account; the data are those of the new cases.
    epsilon : float, optional
        Privacy loss of the answer, which is the site's choice; exact counts if left out.
    model, log, loudness : str, logging.Logger and int
        As for `answer`.

    Returns
    -------
    str or Failure
        The check for `unpack_check`; or the fixed code that leaves instead.

    Examples
    --------
    >>> import logging
    >>> import fedconformal as fc
    >>> calibration = fc.conformalize({"A": range(40), "B": range(60)})
    >>> packed = fc.rounds.pack_calibration(calibration)
    >>> site, log = fc.rounds.Site("A"), logging.getLogger("A")
    >>> text = fc.rounds.answer_check(packed, lambda plan: range(40), lambda plan: site, log=log)
    >>> fc.rounds.unpack_check(text).site
    'A'
    """

    def make(reached: Callable[[Failure], None]) -> str:
        calibration = unpack_calibration(packed)
        plan = calibration.published.plan
        reached(Failure.REPORT)
        who = site(plan)
        if plan.model is not None and model not in (None, plan.model):
            raise ValueError(f"the calibration is for the model {plan.model}, and {model} came with it")
        _admit_check(calibration, who, is_exact=epsilon is None)
        reached(Failure.SCORES)
        values = _cases(plan, calibration.label, scores(plan), who.name)
        reached(Failure.REPORT)
        prepared = heterogeneity.prepare_answer(
            calibration,
            values,
            site=who.name,
            epsilon=epsilon,
            policy=who.policy,
            ledger=who.ledger,
            dataset=who.dataset,
        )
        log.log(loudness, "%s", prepared.sentence)
        return prepared.make().to_json(indent=None)

    return _whatever_happens(make, Failure.CALIBRATION, log, loudness)


def _admit_check(calibration: Calibration, who: Site, *, is_exact: bool) -> None:
    """Refuse what the site's policy does not allow before any score is computed."""
    policy = SitePolicy() if who.policy is None else who.policy
    policy.check_author("calibration", calibration.published)
    policy.check_exact(is_exact=is_exact, has_ledger=who.ledger is not None or who.dataset is not None)
    policy.check_names(calibration.plan)


def _whatever_happens(
    make: Callable[[Callable[[Failure], None]], str], first: Failure, log: logging.Logger, loudness: int
) -> str | Failure:
    """What is made, shown in the log before it leaves; or the code of the stage that was reached."""
    stages = [first]
    try:
        text = make(stages.append)
        log.log(loudness, "this is everything that leaves the site: %s", text)
        return text
    except protocol.PolicyError:
        return keep_inside(Failure.POLICY, log)
    except LedgerError:
        return keep_inside(Failure.BUDGET, log)
    except BaseException:
        return keep_inside(stages[-1], log)


def keep_inside(failure: Failure, log: logging.Logger) -> Failure:
    """Write the present exception to the site's own log, and give the code that is sent in its place.

    Parameters
    ----------
    failure : Failure
        The code.
    log : logging.Logger
        The site's own log.

    Returns
    -------
    Failure
        The same code.

    Examples
    --------
    >>> import logging
    >>> log = logging.getLogger("site")
    >>> log.addHandler(logging.NullHandler())
    >>> log.propagate = False
    >>> try:
    ...     raise KeyError("patient 4711")
    ... except KeyError:
    ...     keep_inside(Failure.SITE, log)
    <Failure.SITE: 100>
    """
    with contextlib.suppress(BaseException):  # not even a log handler's own trouble may travel
        log.exception("the server is told only: %s", failure.meaning)
    return failure


def _scores_and_groups(plan: Plan, computed: Any) -> tuple[Any, Any]:
    """The scores, and the group of each where the plan has groups; else labels are left where they are."""
    paired = isinstance(computed, tuple) and len(computed) == 2 and plain_array(computed[0]).ndim > 0
    scores, labels = computed if paired else (computed, None)
    if not plan.grouping.has_labels:
        return scores, None
    if labels is None:
        raise TypeError("for a plan with groups the scores must come as a pair (scores, labels)")
    return scores, labels


def _cases(plan: Plan, label: str | None, computed: Any, site: str) -> Any:
    """The scores of the new cases that are asked about: all, or those of one group."""
    scores, labels = _scores_and_groups(plan, computed)
    if label is None:
        return scores
    values = plain_array(scores)
    if not plan.grouping.has_labels:
        return values if plan.grouping.group_of_site(site) == label else values[:0]
    names, which = unique_labels(labels)
    groups = plan.grouping.groups_of(names, site)
    return values[np.isin(which, [i for i, group in enumerate(groups) if group == label])]


def _model(plan: Plan, model: str | None) -> dict[str, str]:
    """What the model that came with the plan means for the answer."""
    if model is None:
        return {}
    return {"accept": f"scores under the model {model}"} if plan.model is None else {"model": model}
