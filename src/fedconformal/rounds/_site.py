"""Site side of a round: a plan in, a report or a fixed code out, and nothing else."""

import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedconformal import protocol
from fedconformal._files import warn_if_shared
from fedconformal._util import plain_array
from fedconformal.documents import Plan, SigningKey, unique_labels
from fedconformal.privacy import Ledger, LedgerError
from fedconformal.protocol import SitePolicy
from fedconformal.rounds._packing import Failure, pack_report, unpack_calibration, unpack_plan


@dataclass(frozen=True)
class Site:
    """Name, key, account and limits of the site that answers.

    Parameters
    ----------
    name : str
        The site's name.
    key : SigningKey, optional
        Signs the report.
    ledger, dataset : Ledger and str, optional
        For private plans, the site's account and the name of its data in it.
    policy : SitePolicy, optional
        Limits on what the site discloses, regardless of the plan; safe defaults if left out.
    check_epsilon : float, optional
        Privacy loss of the answer to a calibration, which is the site's choice; exact counts if left out.

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
    check_epsilon: float | None = None

    @property
    def limits(self) -> SitePolicy:
        """The site's policy, or the default one."""
        return SitePolicy() if self.policy is None else self.policy

    @property
    def has_ledger(self) -> bool:
        """True if a ledger or a data set in it was given."""
        return self.ledger is not None or self.dataset is not None


def read_key(path: Path) -> SigningKey:
    """Read a site's signing key, with a warning if other accounts can read the file.

    Parameters
    ----------
    path : Path
        A PEM file.

    Returns
    -------
    SigningKey
        The key.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import fedconformal as fc
    >>> key = fc.SigningKey.new()
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "site.pem")
    ...     path.touch(mode=0o600)
    ...     _ = path.write_bytes(key.to_pem())
    ...     fc.rounds.read_key(path).public_key == key.public_key
    True
    """
    warn_if_shared(path)
    return SigningKey.from_pem(path.read_bytes())


def answer(
    packed: object,
    scores: Callable[[Plan], Any],
    site: Callable[[Plan], Site],
    *,
    model: str | None = None,
    log: logging.Logger,
    log_level: int = logging.INFO,
) -> str | Failure:
    """Answer a plan that came over the wire; an exception becomes a fixed code.

    Parameters
    ----------
    packed : object
        The plan, as `pack_plan` made it.
    scores : callable
        Computes the site's scores for a plan, or a pair of scores and labels: the group, or the true class,
        of each. Labels are needed, and used, only for a plan with groups by label.
    site : callable
        Returns the `Site` that answers a plan.
    model : str, optional
        Digest of the model that came with the plan. It must be the one that the plan names, if it names one.
        Otherwise scores under a new model are new data to the ledger, charged to the same budget.
    log : logging.Logger
        The site's own log: it shows what leaves, and keeps the text of exceptions.
    log_level : int
        Level at which it shows what leaves.

    Returns
    -------
    str or Failure
        The report for `unpack_report`, or the fixed code that is sent instead if anything failed.

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

    def make(enter: Callable[[Failure], None]) -> str:
        plan = unpack_plan(packed)
        enter(Failure.REPORT)
        who = site(plan)
        protocol.admit(plan, policy=who.limits, has_ledger=who.has_ledger)
        enter(Failure.SCORES)
        values, groups = _split_labels(plan, scores(plan))
        enter(Failure.REPORT)
        # Scores under a model that the plan does not name may differ from those that the ledger has seen.
        named = plan.terms.model is not None
        prepared = protocol.prepare(
            plan,
            values,
            groups=groups,
            site=who.name,
            key=who.key,
            policy=who.limits,
            ledger=who.ledger,
            dataset=who.dataset,
            model=model if named else None,
            accept=None if named or model is None else f"scores under the model {model}",
        )
        log.log(log_level, "%s", prepared.sentence)
        return pack_report(prepared.report())

    return _run_guarded(make, Failure.PLAN, log, log_level)


def answer_check(
    packed: object,
    scores: Callable[[Plan], Any],
    site: Callable[[Plan], Site],
    *,
    model: str | None = None,
    log: logging.Logger,
    log_level: int = logging.INFO,
) -> str | Failure:
    """Count the new cases that a calibration covers at this site; an exception becomes a fixed code.

    The calibration is verified first, as far as that is possible without the reports. Its author may still
    have chosen the thresholds: the site's policy and its ledger, if it has one, limit what can be learned
    from the counts.

    Parameters
    ----------
    packed : object
        The calibration, as `pack_calibration` made it.
    scores : callable
        Computes the scores of the site's new cases, or a pair of scores and labels, as for `answer`.
    site : callable
        Returns the `Site` that answers; its data set is that of the new cases.
    model, log, log_level : str, logging.Logger and int
        As for `answer`.

    Returns
    -------
    str or Failure
        The check for `unpack_check`, or the fixed code that is sent instead.

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

    def make(enter: Callable[[Failure], None]) -> str:
        from fedconformal import monitoring  # most messages ask for no check: each may be a new process

        calibration = unpack_calibration(packed)
        whole, group = calibration.whole, calibration.group
        enter(Failure.REPORT)
        who = site(whole.plan)
        named = whole.plan.terms.model
        if named is not None and model not in (None, named):
            raise ValueError(f"the calibration is for the model {named}, and {model} came with it")
        who.limits.check_author("calibration", whole)
        who.limits.check_exact(is_exact=who.check_epsilon is None, has_ledger=who.has_ledger)
        who.limits.check_names(whole.plan)
        enter(Failure.SCORES)
        values = _select_cases(whole.plan, group, scores(whole.plan), who.name)
        enter(Failure.REPORT)
        prepared = monitoring.prepare_answer(
            calibration,
            values,
            site=who.name,
            epsilon=who.check_epsilon,
            policy=who.limits,
            ledger=who.ledger,
            dataset=who.dataset,
        )
        log.log(log_level, "%s", prepared.sentence)
        return prepared.make().to_json(indent=None)

    return _run_guarded(make, Failure.CALIBRATION, log, log_level)


def _run_guarded(
    make: Callable[[Callable[[Failure], None]], str], first: Failure, log: logging.Logger, log_level: int
) -> str | Failure:
    """Return the answer, logged before it leaves, or the code of the stage that failed."""
    stages = [first]
    try:
        text = make(stages.append)
        log.log(log_level, "this is everything that leaves the site: %s", text)
        return text
    except protocol.PolicyError:
        return log_and_mask(Failure.POLICY, log)
    except LedgerError:
        return log_and_mask(Failure.BUDGET, log)
    except BaseException:
        return log_and_mask(stages[-1], log)


def log_and_mask(failure: Failure, log: logging.Logger) -> Failure:
    """Write the current exception to the site's own log, and return the code that is sent in its place.

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
    ...     log_and_mask(Failure.SITE, log)
    <Failure.SITE: 100>
    """
    with contextlib.suppress(BaseException):  # an exception of a log handler must not travel either
        log.exception("the server receives only: %s", failure.meaning)
    return failure


def _split_labels(plan: Plan, computed: Any) -> tuple[Any, Any]:
    """Return the scores, and the label of each where the plan has groups by label."""
    paired = isinstance(computed, tuple) and len(computed) == 2 and plain_array(computed[0]).ndim > 0
    scores, labels = computed if paired else (computed, None)
    if not plan.grouping.has_labels:
        return scores, None
    if labels is None:
        raise TypeError("for a plan with groups the scores must come as a pair (scores, labels)")
    return scores, labels


def _select_cases(plan: Plan, group: str | None, computed: Any, site: str) -> Any:
    """Return the scores of the new cases that are asked about: all, or those of one group."""
    scores, labels = _split_labels(plan, computed)
    if group is None:
        return scores
    values = plain_array(scores)
    if not plan.grouping.has_labels:
        return values if plan.grouping.group_of_site(site) == group else values[:0]
    names, which = unique_labels(labels)
    groups = plan.grouping.groups_of(names, site)
    return values[np.isin(which, [i for i, label in enumerate(groups) if label == group])]
