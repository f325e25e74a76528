"""From options to a Plan."""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from fractions import Fraction
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from fedconformal import _util, scores
from fedconformal._text import warn
from fedconformal.documents import (
    MOST_LEVELS,
    MOST_NUMBERS,
    Cases,
    Design,
    Facts,
    Plan,
    ScoreRule,
    SiteKey,
    Terms,
    expiry_text,
    random_round,
)
from fedconformal.documents._calibration import check_room
from fedconformal.laws import suggest_cells
from fedconformal.messages import DesignRequest, check_plan, choose_message
from fedconformal.planning import CRITERIA, PROMISES, Goal
from fedconformal.privacy import Bins, Privacy
from fedconformal.protocol._federation import (
    SiteSpec,
    Sizes,
    class_names,
    group_specs,
    naming_errors,
    read_group_by,
    score_cautions,
)
from fedconformal.protocol._policy import SitePolicy

_SMALLEST_DELTA, _SMALLEST_DELTA_IF_FAULTY = Fraction("1e-300"), Fraction("1e-6")
_SMALLEST_DELTA_IF_PRIVATE = Fraction("1e-9")


_USUAL_LEVEL = 0.9
_MANY = 1_000  # answers, from which on a calibration may be too large to be read


class InfeasibleWarning(UserWarning):
    """A level that cannot be reached: the threshold will be infinite."""


def plan(
    n_sites: int | Iterable[str] | None = None,
    n_points: Sizes = None,
    *,
    confidence_level: float | Iterable[float] | None = None,
    risk: float | Iterable[float] | None = None,
    criterion: str | None = None,
    delta: float = 0.1,
    max_faulty: int = 0,
    max_missing: int | None = None,
    promise: str = "population",
    mixture: Mapping[str, float] | None = None,
    numbers: int | None = None,
    local_ranks: str = "common",
    groups: Mapping[Any, Any] | None = None,
    group_by: str | Iterable[str] | None = None,
    score: str | Mapping[str, Any] | scores.Score | None = None,
    curve: Bins | None = None,
    parts: int | None = None,
    starts: int | None = None,
    privacy: Privacy | None = None,
    keys: Mapping[str, str] | None = None,
    masked: bool = False,
    terms: Mapping[str, Any] | None = None,
) -> Plan:
    """Choose what the sites of a federation send, and how the server decides.

    Parameters
    ----------
    n_sites : int or iterable of str, optional
        Number of sites, or their names if only these may answer; not needed when
        ``n_points`` lists them.
    n_points : int, iterable of int, or mapping from str to int, optional
        Calibration scores per site: one number, one per site, or a mapping from site
        names. Left out, the plan is open: sizes come with the reports, and the server
        solves its votes then.
    confidence_level : float or iterable of float, default 0.9
        Coverage to reach, or several. 0.9 means nine tenths exactly.
    risk : float or iterable of float, optional
        Instead of ``confidence_level``: 1 minus it. With a score of losses, such as
        ``"missed-labels"``, the largest mean loss, for example 0.1 if at most a tenth
        of the true labels may be missed.
    criterion : {"stable", "marginal", "conditional"}, optional
        ``"stable"``: mean coverage at least the level, and coverage given the data as
        close to it as possible. ``"marginal"`` (the paper's): smallest mean coverage
        that is at least the level. ``"conditional"``: coverage given the data at least
        the level with probability 1 - ``delta``. Left out, the promise's own default:
        stable for the population, marginal otherwise and for the paper's private
        analysis.
    delta : float
        For the conditional criterion, from 1e-300 (with ``max_faulty`` from 1e-6, with
        ``privacy`` from 1e-9) to 0.5: smaller probabilities are not computed precisely
        enough.
    max_faulty : int
        Number of sites, below half of them, that may send arbitrary values without
        breaking the promise. Which sites are faulty must not depend on the scores of
        the others.
    max_missing : int, optional
        Number of sites that may be missing, in any combination, without making the
        threshold infinite. Left out, a plan that tolerates one missing site is
        preferred where that costs next to nothing, except under the marginal criterion.
    promise : {"population", "mixture", "each-site", "new-site"}
        Whose new cases are covered. ``"population"``: all sites and the new cases are
        alike. ``"mixture"``: new cases come from the sites with the shares of
        ``mixture``; sites may differ in any way but must be independent, and a missing
        site counts zero. ``"each-site"``: new cases of each site, which may differ in
        any way; the server keeps the largest threshold, so sets are wider.
        ``"new-site"``: cases of a site that took no part, drawn from the same
        population of sites: on average over new sites, or with the conditional
        criterion at 1 - ``delta`` of them.
    mixture : mapping from str to float, optional
        For ``promise="mixture"``: share of new cases from each named site, on any
        scale. In proportion to their numbers of scores plus 1 if left out.
    numbers : int, optional
        Largest number of scores that a site sends for each level and group, from 1 to
        20. Two or three remove most of the loss against pooling all scores. Left out: 5
        for a mixture, else 1.
    local_ranks : {"common", "paper"}
        ``"common"``: ranks are searched together with the votes. ``"paper"``: site j
        sends the rank ceil(level (n_j + 1)) of the paper's appendix A.1, with one vote.
    groups : mapping, optional
        For one threshold per group of cases: for each label (text or a whole number)
        the number of its cases at the sites, in the forms of ``n_points``; 0 leaves a
        site out of the group. None: sizes come with the reports.
    group_by : {"label", "class", "site"} or a pair of the site and another, optional
        What the labels of ``groups`` are. ``"label"``, as if left out: known before the
        truth. ``"class"``: the true class; every class is then covered at the level.
        ``"site"``: each site has its own threshold; its size is given by ``n_points``,
        with names, without ``groups``. ``("site", "class")`` and ``("site", "label")``:
        one threshold per label at each site.
    score : str, mapping or Score, optional
        Score that all sites use: its name, a mapping with its name and parameters, or
        the score itself.
    curve : Bins, optional
        Sites send the counts of their scores in these bins instead of ranks. Their
        policy must allow it.
    parts : int, optional
        With ``curve``: sites send sums of losses at its edges instead, rounded up to
        this part of the largest loss, for example 1000: conformal risk control as if
        all cases were in one place. Reports then take ``losses``.
    starts : int, optional
        With ``curve``: few of the answers are wrong. A case is answered if the model's
        confidence is at least the threshold, one of the edges; sites send how many
        cases would be answered at each edge, and how many of these wrongly, and edges
        are tested from this many of them on, for example 10. With the conditional
        criterion; reports then take confidences as scores, and 1 for wrong answers as
        ``losses``.
    privacy : Privacy, optional
        Makes every report differentially private; the sizes of the sites must be known.
    keys : mapping from str to str, optional
        Public key of each named site; then only signed reports count.
    masked : bool
        With ``curve`` or ``privacy``, and ``keys``: sites mask their counts, so that
        nothing but the sum over all of them can be read. Every site must answer, and
        its policy must name the others' keys.
    terms : mapping, optional
        ``model``: file of the model whose scores are meant, its parameters by their
        names (also Flower's ArrayRecord), or its digest. ``round``: an id that
        distinguishes this round from others with the same options; random if left out
        and keys are given, and always where cases are drawn at random. ``expires``:
        time (UTC) after which sites and the server refuse the plan. ``classes``: names
        of the classes in the order of the columns of probabilities. Any other key is a
        fact for readers: ``name`` of the model, ``version``, ``purpose``,
        ``population``, ``period``, ``unit``, ``coordinator``, ``contact``,
        ``check_again``, ``supersedes``, ``plans_tried``, ``several_cases``,
        ``prevalence``.

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
    result = make_plan(**locals())
    warn_about(result)
    return result


def warn_about(plan: Plan) -> None:
    """Warn if a level cannot be reached, or the score does not suit the number of
    classes.
    """
    if not plan.feasible:
        warn(" ".join(plan.problems), InfeasibleWarning)
    for caution in score_cautions(plan):
        warn(caution)


def make_plan(*, min_group: int = SitePolicy.min_group, **options: Any) -> Plan:
    """Make a plan without warnings from arguments of `plan`.

    A site is left out of a group of which it has fewer than ``min_group`` cases.
    """
    bound = signature(plan).bind(**options)
    bound.apply_defaults()
    given = SimpleNamespace(**bound.arguments)
    request, score, by = (
        _read_request(given),
        _read_score(given.score),
        read_group_by(given.group_by),
    )
    terms, classes = _read_terms(given.terms)
    by_class = "class" in (by or ())
    able = scores.LabelScore if by_class else scores.LabelScore | scores.MissedLabels
    if (
        (by_class or classes is not None)
        and score is not None
        and not isinstance(score, able)
    ):
        listed = ", ".join(scores.list_scores(able))
        raise ValueError(
            f"score must be one of classes ({listed}) where there are classes, got"
            f" {score.name!r}"
        )
    is_grouped = given.groups is not None or by is not None
    if given.mixture is not None and (is_grouped or not request.promise.takes_mixture):
        raise ValueError(
            "mixture must be left out except with promise 'mixture' without groups,"
            f" got {given.mixture!r}"
        )
    if is_grouped and not request.promise.allows_groups:
        raise ValueError(
            f"groups must be left out with promise {request.promise.name!r}"
        )
    specs: Mapping[str | None, SiteSpec]
    if is_grouped:
        specs, named = group_specs(
            given.groups, given.n_sites, given.n_points, by, classes, min_group
        )
    else:
        specs = {
            None: SiteSpec.read(given.n_sites, given.n_points).mixed(given.mixture)
        }
        named = class_names(classes)
    if request.privacy is not None and request.privacy.bins is None:
        bins = _bounded_bins(request, score, named, specs.values())
        request = replace(request, privacy=replace(request.privacy, bins=bins))
    designs, answers = [], 0
    for group, spec in specs.items():
        with naming_errors("plan", group):
            designs.append(_make_design(request, spec, group))
        answers += spec.n_sites or 0
    drawn = any(isinstance(design.message, Cases) for design in designs)
    if drawn and "round" in terms:  # it decides which cases are drawn
        raise ValueError(
            "round must be left out where sites draw cases: it is drawn at random, got"
            f" {terms['round']!r}"
        )
    if drawn or given.keys is not None:
        terms.setdefault("round", random_round())
    with naming_errors("score"):
        rule = (
            None
            if score is None
            else ScoreRule(name=score.name, parameters=score.parameters())
        )
    with naming_errors("plan"):
        result = Plan(
            designs=tuple(designs),
            score=rule,
            group_by=by,
            classes=named,
            terms=Terms(**terms),
        )
    keys = (
        None if given.keys is None else _read_keys(given.keys, result.site_names or ())
    )
    result = result if keys is None else result.model_copy(update={"keys": keys})
    check_plan(result, is_planned=True)
    if answers >= _MANY:
        check_room(result)
    return result


def _read_request(given: SimpleNamespace) -> DesignRequest:
    """Check the options that all groups share; what is left out is as the promise, or
    the privacy, has it.
    """
    level = given.confidence_level if given.risk is None else _invert_risk(given)
    several = isinstance(level, Iterable) and not isinstance(level, (str, bytes))
    listed = list(level) if several else [_USUAL_LEVEL if level is None else level]
    if len(listed) > MOST_LEVELS:
        raise ValueError(
            f"confidence_level must hold at most {MOST_LEVELS} levels, got"
            f" {len(listed)}"
        )
    levels = [_util.fraction("confidence_level", level) for level in listed]
    if not levels or len(set(levels)) < len(levels):
        raise ValueError(f"confidence_level must hold different levels, got {listed!r}")
    promise, privacy, numbers = PROMISES[given.promise](), given.privacy, given.numbers
    _util.choice("local_ranks", given.local_ranks, ("common", "paper"))
    if privacy is not None and not isinstance(privacy, Privacy):
        raise TypeError(f"privacy must be a Privacy, got {privacy!r}")
    if given.curve is not None and not isinstance(given.curve, Bins):
        raise TypeError(
            "curve must be Bins, for example Bins.uniform(0, 1, 200), got"
            f" {given.curve!r}"
        )
    usual = (
        None if privacy is None else privacy.default_criterion
    ) or promise.default_criterion
    criterion = CRITERIA[usual if given.criterion is None else given.criterion]()
    faulty = _util.integer("max_faulty", given.max_faulty, low=0)
    missing = given.max_missing
    if missing is not None:
        missing = _util.integer("max_missing", missing, low=0)
    delta = _util.fraction("delta", given.delta, high=0.5, closed=True)
    least, where = (
        _SMALLEST_DELTA if privacy is None else _SMALLEST_DELTA_IF_PRIVATE,
        "",
    )
    if faulty:
        least, where = _SMALLEST_DELTA_IF_FAULTY, " with max_faulty"
    if delta < least:  # faulty sites and noise leave fewer precise digits
        raise ValueError(
            f"delta must be between {float(least):g} and 0.5{where}, got {given.delta}"
        )
    is_paper = given.local_ranks == "paper"
    if numbers is not None:
        numbers = _util.integer("numbers", numbers, low=1, high=MOST_NUMBERS)
        if numbers > 1 and is_paper:
            raise ValueError(
                "numbers must be 1 with local_ranks, which fixes one rank for each"
                f" site, got {numbers}"
            )
    goals = tuple(Goal(level, criterion, delta, faulty, missing) for level in levels)
    return DesignRequest(
        promise,
        goals,
        None,
        None,
        1 if is_paper else numbers,
        is_paper,
        given.curve,
        privacy,
        given.parts,
        given.starts,
        bool(given.masked),
    )


def _invert_risk(given: SimpleNamespace) -> list[Fraction]:
    """Return 1 minus each risk."""
    level, risks = given.confidence_level, given.risk
    if level is not None:
        raise ValueError(
            f"risk is 1 - confidence_level: give one of them, got {risks!r} and"
            f" {level!r}"
        )
    several = isinstance(risks, Iterable) and not isinstance(risks, (str, bytes))
    return [
        1 - _util.fraction("risk", risk) for risk in (risks if several else [risks])
    ]


def _make_design(request: DesignRequest, spec: SiteSpec, group: str | None) -> Design:
    """Choose the design of all cases, or of one group."""
    goal, m = request.goals[0], spec.n_sites
    if m is not None and 2 * goal.max_faulty >= m and goal.max_faulty:
        raise ValueError(
            f"max_faulty must be below half the number of sites, {m} / 2, got"
            f" {goal.max_faulty}"
        )
    if m is None and goal.max_faulty:
        raise ValueError(
            f"max_faulty must be 0 while anybody may answer, got {goal.max_faulty}:"
            " give n_sites"
        )
    sites = spec.kinds(has_shares=request.promise.takes_mixture)
    request = replace(request, sites=sites, n_sites=m)
    choice = choose_message(request).choose(request)
    return Design(
        group=group,
        promise=request.promise.name,
        criterion=goal.criterion.name,
        delta=goal.delta if goal.criterion.takes_delta else None,
        max_faulty=goal.max_faulty,
        max_missing=goal.max_missing,
        sites=choice.sites,
        names=spec.names if spec.sizes is None else None,
        expected=m if spec.sizes is None and spec.names is None else None,
        message=choice.message,
        levels=choice.levels,
    )


def _read_score(score: Any) -> scores.Score | None:
    """Return the score with all its parameters, so that no site depends on its own
    version's defaults.
    """
    if score is None or isinstance(score, scores.Score):
        return score
    if isinstance(score, (str, Mapping)):
        fields = {"name": score} if isinstance(score, str) else dict(score)
        return scores.from_name(fields.pop("name", None), **fields)
    raise TypeError(
        f"score must be a name, a mapping with a name, or a Score, got {score!r}"
        f"{scores.explain_no_score(score)}"
    )


def _bounded_bins(
    request: DesignRequest,
    score: scores.Score | None,
    classes: Any,
    specs: Iterable[SiteSpec],
) -> Bins:
    """Return bins over the range of a bounded score, as many as suit the smallest
    group.
    """
    privacy = request.privacy
    assert privacy is not None
    largest = None if score is None else score.largest
    if isinstance(score, scores.LabelScore) and classes is not None:
        largest = score.largest_among(len(classes))
    if largest is None:
        what = (
            "the plan names no bounded score"
            if score is None
            else f"score {score.name!r} is unbounded"
        )
        hint = (
            ", unless the plan names the classes"
            if isinstance(score, scores.LabelScore)
            else ""
        )
        raise ValueError(
            f"privacy needs bins, as {what}{hint}: use Privacy({privacy.epsilon:g},"
            f" Bins.from_reference(public_scores)) or Privacy({privacy.epsilon:g},"
            " Bins.uniform(0, 5, 100)); on the command line --bins from:FILE or --bins"
            " uniform:0:5:100"
        )
    level = max(goal.level for goal in request.goals)
    cells = min(
        suggest_cells(
            max(spec.n_points, 1), spec.n_sites or 1, privacy.exact_epsilon, level
        )
        for spec in specs
    )
    return Bins.uniform(0, largest, cells, bounded=True)


def _read_keys(keys: Any, names: Sequence[str]) -> tuple[SiteKey, ...]:
    """Check that there is a public key for each named site."""
    if not names or set(keys) != set(names):
        raise ValueError(
            "keys must hold one public key for each named site, and no other"
        )
    with naming_errors("keys"):
        return tuple(SiteKey(site=name, public_key=keys[name]) for name in names)


def _read_terms(terms: Any) -> tuple[dict[str, Any], Any]:
    """Return the fields of a plan's terms that are given, and the names of the
    classes.
    """
    if terms is None:
        return {}, None
    if not isinstance(terms, Mapping):
        raise TypeError(f"terms must be a mapping, got {terms!r}")
    given = {name: value for name, value in terms.items() if value is not None}
    classes = given.pop("classes", None)
    fields = {
        name: given.pop(name) for name in ("round", "model", "expires") if name in given
    }
    if "model" in fields:
        fields["model"] = model_digest(fields["model"])
    if "expires" in fields:
        expires = fields["expires"]
        if isinstance(expires, datetime) and expires.tzinfo is None:
            raise ValueError(f"expires must have a time zone, got {expires!r}")
        fields["expires"] = (
            expiry_text(expires) if isinstance(expires, datetime) else str(expires)
        )
    if given:
        with naming_errors("terms"):
            fields["facts"] = Facts().with_more(given)
    return fields, classes


# -- the model -------------------------------------------------------------------------

Model = str | os.PathLike[str] | Mapping[str, Any]
"""The digest of a model, ``sha256:...``, the path of its file, or its parameters by
their names.
"""

_DIGEST = re.compile("sha256:[0-9a-f]{64}")


def model_digest(model: Model) -> str:
    """Return the digest by which plans name a model.

    Parameters
    ----------
    model : str, path-like or mapping
        The path of the model's file; its parameters by their names, as arrays, numbers,
        texts, and lists or mappings of these; Flower's ArrayRecord; or a digest, which
        is taken as it is.

    Returns
    -------
    str
        SHA-256 of the file's bytes, or of names, types, shapes and values; of an
        ArrayRecord Flower's own.

    Raises
    ------
    ValueError
        If the file cannot be read, or a parameter is an object of another kind.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from fedconformal.protocol import model_digest
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model.bin"
    ...     _ = path.write_bytes(b"weights")
    ...     print(model_digest(path)[:14])
    sha256:9a12903
    >>> model_digest({"w": np.zeros(3), "b": 0.5}) == model_digest(
    ...     {"b": 0.5, "w": np.zeros(3)}
    ... )
    True
    """
    if hasattr(model, "object_id"):  # of Flower, which need not be installed
        return f"sha256:{model.object_id}"
    if isinstance(model, Mapping):
        digest = hashlib.sha256()
        for part in _list_parts(model):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
        return f"sha256:{digest.hexdigest()}"
    if isinstance(model, str) and _DIGEST.fullmatch(model):
        return model
    try:
        with Path(model).open("rb") as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    except OSError as error:
        raise ValueError(f"{model}: {error.strerror or error}") from None


def _list_parts(value: object) -> Iterator[bytes]:
    """Yield a value as byte strings, the same for equal values regardless of the order
    of names.
    """
    if isinstance(value, Mapping):
        yield f"mapping of {len(value)}".encode()
        for name in sorted(value, key=str):
            yield str(name).encode()
            yield from _list_parts(value[name])
    elif isinstance(value, list | tuple):
        yield f"list of {len(value)}".encode()
        for item in value:
            yield from _list_parts(item)
    elif isinstance(value, bytes):
        yield b"bytes"
        yield value
    else:
        array = np.asarray(value)
        if array.dtype.hasobject:
            raise ValueError(
                f"model must hold arrays, numbers and texts, got {type(value).__name__}"
            )
        yield f"{array.dtype.str}{array.shape}".encode()
        yield array.tobytes()
