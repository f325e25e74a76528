"""The site's side: a plan in, a report or a fixed code out, and nothing else."""

import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedconformal import protocol
from fedconformal.documents import Plan, SigningKey
from fedconformal.privacy import Ledger, LedgerError
from fedconformal.protocol import SitePolicy
from fedconformal.rounds._failures import Failure
from fedconformal.rounds._packing import pack_report, unpack_plan


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
    """
    stage = Failure.PLAN
    try:
        plan = unpack_plan(packed)
        stage = Failure.REPORT
        who = site(plan)
        policy = SitePolicy() if who.policy is None else who.policy
        has_ledger = who.ledger is not None or who.dataset is not None
        protocol.admit(plan, policy=policy, has_ledger=has_ledger)
        stage = Failure.SCORES
        values, groups = _scores_and_groups(plan, scores(plan))
        stage = Failure.REPORT
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
        text = pack_report(prepared.report(key=who.key))
        log.log(loudness, "this is everything that leaves the site: %s", text)
        return text
    except protocol.PolicyError:
        return keep_inside(Failure.POLICY, log)
    except LedgerError:
        return keep_inside(Failure.BUDGET, log)
    except BaseException:
        return keep_inside(stage, log)


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
    """
    with contextlib.suppress(BaseException):  # not even a log handler's own trouble may travel
        log.exception("the server is told only: %s", failure.meaning)
    return failure


def _scores_and_groups(plan: Plan, computed: Any) -> tuple[Any, Any]:
    """The scores, and the group of each where the plan has groups; else labels are left where they are."""
    paired = isinstance(computed, tuple) and len(computed) == 2 and np.ndim(computed[0]) > 0
    scores, labels = computed if paired else (computed, None)
    if not plan.grouping.has_labels:
        return scores, None
    if labels is None:
        raise TypeError("for a plan with groups the scores must come as a pair (scores, labels)")
    return scores, labels


def _model(plan: Plan, model: str | None) -> dict[str, str]:
    """What the model that came with the plan means for the answer."""
    if model is None:
        return {}
    return {"accept": f"scores under the model {model}"} if plan.model is None else {"model": model}
