"""From options to a Plan."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from fedconformal import _util, scores
from fedconformal._text import warn
from fedconformal.documents import MOST_LEVELS, MOST_NUMBERS, Design, Plan, ScoreRule, Terms
from fedconformal.laws import suggest_cells
from fedconformal.messages import DesignRequest, choose_message
from fedconformal.planning import CRITERIA, PROMISES, Goal, Promise
from fedconformal.privacy import Bins, Privacy
from fedconformal.protocol._federation import SiteSpec, Sizes, class_names, group_specs, naming, read_group_by
from fedconformal.protocol._notes import score_cautions
from fedconformal.protocol._policy import SitePolicy
from fedconformal.protocol._report import check_plan
from fedconformal.protocol._terms import (
    bounded_bins,
    check_classes,
    read_score,
    read_terms,
    round_id,
    site_keys,
    validation_errors,
)

SEARCHED, _PAPER = "common", "paper"
_SMALLEST_DELTA, _SMALLEST_DELTA_IF_FAULTY = Fraction("1e-300"), Fraction("1e-6")
_SMALLEST_DELTA_IF_PRIVATE = Fraction("1e-9")


class InfeasibleWarning(UserWarning):
    """A level that cannot be reached: the threshold will be infinite."""


def plan(
    n_sites: int | Iterable[str] | None = None,
    n_points: Sizes = None,
    *,
    confidence_level: float | Iterable[float] = 0.9,
    criterion: str | None = None,
    delta: float = 0.1,
    max_faulty: int = 0,
    max_missing: int | None = None,
    promise: str = "population",
    mixture: Mapping[str, float] | None = None,
    numbers: int | None = None,
    local_ranks: str = SEARCHED,
    groups: Mapping[Any, Any] | None = None,
    group_by: str | Iterable[str] | None = None,
    score: str | Mapping[str, Any] | scores.Score | None = None,
    curve: Bins | None = None,
    privacy: Privacy | None = None,
    keys: Mapping[str, str] | None = None,
    terms: Mapping[str, Any] | None = None,
) -> Plan:
    """Choose what the sites of a federation send, and how the server decides.

    Parameters
    ----------
    n_sites : int or iterable of str, optional
        Number of sites, or their names if only these may answer; not needed when ``n_points`` lists them.
    n_points : int, iterable of int, or mapping from str to int, optional
        Calibration scores per site: one number, one per site, or a mapping from site names. Left out, the
        plan is open: sizes come with the reports, and the server solves its votes then.
    confidence_level : float or iterable of float
        Coverage to reach, or several. 0.9 means nine tenths exactly.
    criterion : {"stable", "marginal", "conditional"}, optional
        ``"stable"``: mean coverage at least the level, and coverage given the data as close to it as
        possible. ``"marginal"`` (the paper's): smallest mean coverage that is at least the level.
        ``"conditional"``: coverage given the data at least the level with probability 1 - ``delta``. Left
        out, the promise's own default: stable for the population, marginal otherwise and for the paper's
        private analysis.
    delta : float
        For the conditional criterion, from 1e-300 (with ``max_faulty`` from 1e-6, with ``privacy`` from 1e-9)
        to 0.5: smaller probabilities are not computed precisely enough.
    max_faulty : int
        Number of sites, below half of them, that may send arbitrary values without breaking the promise.
        Which sites are faulty must not depend on the scores of the others.
    max_missing : int, optional
        Number of sites that may be missing, in any combination, without making the threshold infinite. Left
        out, a plan that tolerates one missing site is preferred where that costs next to nothing, except
        under the marginal criterion.
    promise : {"population", "mixture", "each-site", "new-site"}
        Whose new cases are covered. ``"population"``: all sites and the new cases are alike. ``"mixture"``:
        new cases come from the sites with the shares of ``mixture``; sites may differ in any way but must be
        independent, and a missing site counts zero. ``"each-site"``: new cases of each site, which may differ
        in any way; the server keeps the largest threshold, so sets are wider. ``"new-site"``: cases of a site
        that took no part, drawn from the same population of sites: on average over new sites, or with the
        conditional criterion at 1 - ``delta`` of them.
    mixture : mapping from str to float, optional
        For ``promise="mixture"``: share of new cases from each named site, on any scale. In proportion to
        their numbers of scores plus 1 if left out.
    numbers : int, optional
        Largest number of scores that a site sends for each level and group, from 1 to 20. Two or three remove
        most of the loss against pooling all scores. Left out: 5 for a mixture, else 1.
    local_ranks : {"common", "paper"}
        ``"common"``: ranks are searched together with the votes. ``"paper"``: site j sends the rank
        ceil(level (n_j + 1)) of the paper's appendix A.1, with one vote.
    groups : mapping, optional
        For one threshold per group of cases: for each label (text or a whole number) the number of its cases
        at the sites, in the forms of ``n_points``; 0 leaves a site out of the group. None: sizes come with
        the reports.
    group_by : {"label", "class", "site"} or a pair of the site and one of the others, optional
        What the labels of ``groups`` are. ``"label"``, as if left out: known before the truth. ``"class"``:
        the true class; every class is then covered at the level. ``"site"``: each site has its own threshold;
        its size is given by ``n_points``, with names, without ``groups``. ``("site", "class")`` and
        ``("site", "label")``: one threshold per label at each site.
    score : str, mapping or Score, optional
        Score that all sites use: its name, a mapping with its name and parameters, or the score itself.
    curve : Bins, optional
        Sites send the counts of their scores in these bins instead of ranks. Their policy must allow it.
    privacy : Privacy, optional
        Makes every report differentially private; the sizes of the sites must be known.
    keys : mapping from str to str, optional
        Public key of each named site; then only signed reports count.
    terms : mapping, optional
        ``model``: file of the model whose scores are meant, or its digest. ``round``: an id that
        distinguishes this round from others with the same options; random if left out and keys are given, and
        always where cases are drawn at random. ``expires``: time (UTC) after which sites and the server
        refuse the plan. ``classes``: names of the classes in the order of the columns of probabilities. Any
        other key is a fact for readers: ``name`` of the model, ``version``, ``purpose``, ``population``,
        ``period``, ``unit``, ``coordinator``, ``contact``, ``check_again``.

    Returns
    -------
    Plan
        The questions to all sites.

    Raises
    ------
    ValueError
        If options do not go together.

    Warns
    -----
    InfeasibleWarning
        If a level cannot be reached, so that the threshold is infinite.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_sites=10, n_points=100, confidence_level=0.9)
    >>> plan.local_ranks[0], plan.server_rank, round(plan.law.mean(), 4)
    (92, 4, 0.9023)
    >>> plan = fc.plan(groups={"young": {"A": 90, "B": 60}, "old": {"A": 40, "B": 200}})
    >>> round(plan["old"].law.mean(), 4), round(plan["young"].law.mean(), 4)
    (0.9005, 0.9083)
    """
    return make_plan(min_group=SitePolicy.min_group, **locals())


@dataclass(frozen=True)
class PlanOptions:
    """Options that all groups of cases share."""

    promise: Promise
    goals: tuple[Goal, ...]
    numbers: int | None
    uses_paper_ranks: bool
    curve: Bins | None
    privacy: Privacy | None

    @classmethod
    def read(
        cls,
        *,
        confidence_level: Any,
        criterion: str | None,
        delta: Any,
        max_faulty: Any,
        max_missing: Any,
        promise: str,
        numbers: Any,
        local_ranks: Any,
        curve: Any,
        privacy: Any,
    ) -> "PlanOptions":
        """Check the arguments of `plan`; what is left out is as the promise, or the privacy, has it."""
        levels, kept = _levels(confidence_level), PROMISES[promise]()
        _util.choice("local_ranks", local_ranks, (SEARCHED, _PAPER))
        if privacy is not None and not isinstance(privacy, Privacy):
            raise TypeError(f"privacy must be a Privacy, got {privacy!r}")
        if curve is not None and not isinstance(curve, Bins):
            raise TypeError(f"curve must be Bins, for example Bins.uniform(0, 1, 200), got {curve!r}")
        usual = (
            kept.default_criterion if privacy is None else privacy.default_criterion or kept.default_criterion
        )
        chosen = CRITERIA[usual if criterion is None else criterion]()
        faulty = _util.integer("max_faulty", max_faulty, low=0)
        missing = None if max_missing is None else _util.integer("max_missing", max_missing, low=0)
        allowed = _delta(delta, faulty, is_private=privacy is not None)
        if numbers is not None:
            numbers = _util.integer("numbers", numbers, low=1, high=MOST_NUMBERS)
            if numbers > 1 and local_ranks != SEARCHED:
                raise ValueError(
                    f"numbers must be 1 with local_ranks, which fixes one rank for each site, got {numbers}"
                )
        goals = tuple(Goal(level, chosen, allowed, faulty, missing) for level in levels)
        return cls(kept, goals, numbers, local_ranks == _PAPER, curve, privacy)

    def make_design(self, spec: SiteSpec, group: str | None = None) -> Design:
        """Choose the design of all cases, or of one group."""
        goal, m = self.goals[0], spec.n_sites
        if m is not None and 2 * goal.max_faulty >= m and goal.max_faulty:
            raise ValueError(
                f"max_faulty must be below half the number of sites, {m} / 2, got {goal.max_faulty}"
            )
        if m is None and goal.max_faulty:
            raise ValueError(
                f"max_faulty must be 0 while anybody may answer, got {goal.max_faulty}: give n_sites"
            )
        request = DesignRequest(
            self.promise,
            self.goals,
            spec.kinds(has_shares=self.promise.takes_mixture),
            m,
            1 if self.uses_paper_ranks else self.numbers,
            self.uses_paper_ranks,
            self.curve,
            self.privacy,
        )
        choice = choose_message(request).choose(request)
        return Design(
            group=group,
            promise=self.promise.name,
            criterion=goal.criterion.name,
            delta=goal.delta if goal.criterion.takes_delta else None,
            max_faulty=goal.max_faulty,
            max_missing=goal.max_missing,
            sites=choice.sites,
            names=spec.names if spec.is_open else None,
            expected=m if spec.is_open and spec.names is None else None,
            message=choice.message,
            levels=choice.levels,
        )


def make_plan(
    *,
    n_sites: Any,
    n_points: Any,
    mixture: Any,
    groups: Any,
    group_by: Any,
    score: Any,
    keys: Any,
    terms: Any,
    min_group: int,
    **shared: Any,
) -> Plan:
    """Make a plan from all arguments of `plan`; sites are left out of groups below ``min_group`` cases."""
    options = PlanOptions.read(**shared)
    rule, by = read_score(score), read_group_by(group_by)
    facts, classes = read_terms(terms)
    check_classes(by, classes, rule)
    is_grouped = groups is not None or by is not None
    if mixture is not None and (is_grouped or not options.promise.takes_mixture):
        raise ValueError(
            f"mixture must be left out except with promise 'mixture' without groups, got {mixture!r}"
        )
    if is_grouped and not options.promise.allows_groups:
        raise ValueError(f"groups must be left out with promise {options.promise.name!r}")
    if is_grouped:
        specs, named = group_specs(groups, n_sites, n_points, by, classes, min_group)
    else:
        specs, named = {None: SiteSpec.read(n_sites, n_points).mixed(mixture)}, class_names(classes)
    options = replace(options, privacy=_with_bins(options, rule, named, list(specs.values())))
    designs = []
    for group, spec in specs.items():
        with nullcontext() if group is None else naming(group), validation_errors("plan"):
            designs.append(options.make_design(spec, group))
    with validation_errors("plan"):
        result = Plan(
            designs=tuple(designs),
            score=rule,
            group_by=by,
            classes=named,
            keys=site_keys(keys, designs),
            terms=Terms(**{**facts, "round": round_id(facts.get("round"), keys is not None, designs)}),
        )
        check_plan(result)
    if not result.feasible:
        warn(" ".join(result.problems), InfeasibleWarning)
    for caution in score_cautions(rule, named):
        warn(caution)
    return result


def _with_bins(
    options: PlanOptions, rule: ScoreRule | None, classes: Sequence[str] | None, specs: Sequence[SiteSpec]
) -> Privacy | None:
    """Give privacy without bins those of a bounded score, as many as suit the smallest group."""
    privacy = options.privacy
    if privacy is None or privacy.bins is not None:
        return privacy
    sizes = [(spec.n_points, spec.n_sites or 1) for spec in specs]
    level = max(goal.level for goal in options.goals)
    cells = min(suggest_cells(max(n, 1), m, privacy.exact_epsilon, level) for n, m in sizes)
    return replace(privacy, bins=bounded_bins(privacy, rule, classes, cells))


def _levels(confidence_level: Any) -> tuple[Fraction, ...]:
    if isinstance(confidence_level, Iterable) and not isinstance(confidence_level, (str, bytes)):
        given = list(confidence_level)
        if len(given) > MOST_LEVELS:
            raise ValueError(f"confidence_level must hold at most {MOST_LEVELS} levels, got {len(given)}")
        levels = tuple(_util.fraction("confidence_level", level) for level in given)
        if not levels or len(set(levels)) < len(levels):
            raise ValueError(f"confidence_level must hold different levels, got {given!r}")
        return levels
    return (_util.fraction("confidence_level", confidence_level),)


def _delta(delta: Any, max_faulty: int, *, is_private: bool) -> Fraction:
    """Read a probability that is computed precisely: faulty sites and noise leave fewer digits."""
    value = _util.fraction("delta", delta, high=0.5, closed=True)
    least = _SMALLEST_DELTA_IF_PRIVATE if is_private else _SMALLEST_DELTA
    least, where = (_SMALLEST_DELTA_IF_FAULTY, " with max_faulty") if max_faulty else (least, "")
    if value < least:
        raise ValueError(f"delta must be between {float(least):g} and 0.5{where}, got {delta}")
    return value
