"""For somebody who holds arrays: the whole round in one call, and prediction sets of
new cases.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal import _util
from fedconformal._text import quoted
from fedconformal._util import (
    Bools,
    Floats,
    Ints,
    Scores,
    all_rows,
    flat_numbers,
    is_missing,
    numbers_or_nan,
    plain_array,
    private_numbers,
)
from fedconformal.documents import (
    Calibration,
    CheckQuestion,
    Plan,
    Report,
    ReportPart,
    ScoreRule,
    check_site_name,
    label_text,
    unique_labels,
)
from fedconformal.messages import of
from fedconformal.privacy import Ledger
from fedconformal.protocol._calibrate import calibrate
from fedconformal.protocol._plan import make_plan, warn_about
from fedconformal.protocol._policy import SitePolicy
from fedconformal.protocol._report import is_private, report, warn_of_empty
from fedconformal.scores import IntervalScore, LabelScore, LossScore, Score, from_name

_MANY = 1_000_000  # scores from which on threads are worth starting


def conformalize(
    scores: Mapping[Any, ArrayLike] | Sequence[ArrayLike] | ArrayLike,
    *,
    sites: ArrayLike | None = None,
    groups: Mapping[Any, ArrayLike] | Sequence[ArrayLike] | ArrayLike | None = None,
    ledgers: Mapping[str, Ledger] | None = None,
    dataset: str = "calibration",
    min_group: int = 1,
    **options: Any,
) -> Calibration:
    """Plan, report and calibrate in one call, where the scores of all sites are at
    hand.

    The same as `plan` for these sites, `report` at each of them and `calibrate`: only
    the reports meet. For a simulation of a federation, for evaluations, and wherever
    data are of many sources but in one place.

    Parameters
    ----------
    scores : mapping from site to array-like, list of array-likes, or array-like
        The scores of each site: arrays, tensors of any device, columns of pandas or
        polars. In a list, sites are known as "1", "2" and so on; for one flat array
        ``sites`` says which is from where.
    sites : array-like of shape (n,), optional
        The site of each score of a flat array, known by ``str(label)``.
    groups : in the form of ``scores``, optional
        The label of each score, for one threshold for each group; or its true class
        (``group_by="class"``).
    ledgers : mapping from site to Ledger, optional
        With ``privacy``, the account of each site, which its answer is charged to. Left
        out, accounts are simulated: each site has one with just enough for this call,
        gone after it, and nothing keeps track of what several calls cost together.
    dataset : str
        What the data are called in ``ledgers``.
    min_group : int
        A site with fewer points of a group is left out of it.
    **options : confidence_level, criterion, promise, group_by, score, privacy, ...
        Options of the plan.

    Returns
    -------
    Calibration
        As a real federation would give it.

    Raises
    ------
    ValueError
        If the scores cannot be ranked, or options do not go together.

    See Also
    --------
    fedconformal.plan : the options.

    Examples
    --------
    >>> import numpy as np
    >>> import fedconformal as fc
    >>> rng = np.random.default_rng(0)
    >>> scores = {
    ...     "north": rng.random(120),
    ...     "south": rng.random(40),
    ...     "west": rng.random(377),
    ... }
    >>> calibration = fc.conformalize(scores, confidence_level=0.9, score="absolute")
    >>> round(calibration.threshold, 2), round(calibration.law.mean(), 3)
    (0.91, 0.901)
    >>> calibration.predict_interval([3.0]).round(2)
    array([[2.09, 3.91]])
    """
    values, labels = _read_sites(scores, sites, groups)
    sizes: dict[str, dict[str, int]] = {}
    for site, own in (labels or {}).items():
        names, counts = np.unique(own, return_counts=True)
        for group, count in zip(names.tolist(), counts.tolist(), strict=True):
            sizes.setdefault(group, {})[site] = count
    given = (
        {"n_points": {site: own.size for site, own in values.items()}}
        if labels is None
        else {"groups": sizes}
    )
    fewest = _util.integer("min_group", min_group, low=1)
    chosen = make_plan(min_group=fewest, **given, **options)
    warn_about(chosen)
    asked = list(_select_asked(chosen, values, labels))
    with _accounts(chosen, list(values), ledgers, dataset) as accounts:

        def answer(site: str, own: Scores, groups: Any) -> Report:
            # A copy to select in: what is read for it is still at hand when it is
            # looked through.
            return report(
                chosen,
                own.copy(),
                site=site,
                groups=groups,
                policy=SitePolicy.unlimited(),  # all scores are the caller's own
                model=chosen.terms.model,
                in_place=True,
                **accounts[site],
            )

        if sum(own.size for _, own, _ in asked) < _MANY:
            return calibrate(chosen, [answer(*each) for each in asked])
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return calibrate(chosen, list(pool.map(answer, *zip(*asked, strict=True))))


def _select_asked(
    plan: Plan, values: Mapping[str, Scores], labels: Mapping[str, Any] | None
) -> Iterator[tuple[str, Scores, Any]]:
    """Yield the sites that are asked, with the scores they answer for and the labels of
    these.

    A plan does not ask where no answer could change a threshold, or where a site has
    too few cases.
    """
    asked = {design.group: design.asked_names or () for design in plan.designs}
    for site, own in values.items():
        if labels is None:
            if site in asked[site if plan.grouping.by_site else None]:
                yield site, own, None
        elif site in (plan.site_names or ()):
            names, which = unique_labels(labels[site])
            groups = plan.grouping.groups_of(names, site)
            wanted = np.array(
                [site in asked.get(group, ()) for group in groups], dtype=np.bool_
            )[which]
            if wanted.any():
                yield site, own[wanted], labels[site][wanted]


def _read_sites(
    scores: Any, sites: Any, groups: Any
) -> tuple[dict[str, Scores], dict[str, NDArray[np.object_]] | None]:
    """Return the scores of each site, and the label of each of them."""
    if sites is not None:
        if isinstance(scores, Mapping):
            raise ValueError(
                "sites goes with one flat array of scores, got scores by site"
            )
        flat = flat_numbers(scores)
        rows = rows_by_site(sites, flat.size)
        names = None if groups is None else group_names(groups, flat.size)
        return (
            {site: flat[own] for site, own in rows.items()},
            None if names is None else {site: names[own] for site, own in rows.items()},
        )
    values = {}
    for site, own in _by_site("scores", scores).items():
        try:
            values[site] = flat_numbers(own)
        except (TypeError, ValueError) as error:
            raise type(error)(f"site {site!r}: {error}") from None
    if groups is None:
        return values, None
    labels = _by_site("groups", groups)
    if labels.keys() != values.keys():
        raise ValueError(
            f"groups must have the sites of scores, {', '.join(map(repr, values))}, got"
            f" {', '.join(map(repr, labels))}"
        )
    return values, {
        site: group_names(own, values[site].size) for site, own in labels.items()
    }


def _by_site(name: str, given: Any) -> dict[str, Any]:
    """Return a mapping or a list as a mapping from the sites' names."""
    if isinstance(given, Mapping):
        by_name = {str(site): values for site, values in given.items()}
        if len(by_name) < len(given):
            raise ValueError(
                f"{name} must name each site once, got a number and its digits as text"
            )
    elif isinstance(given, (list, tuple)) and given and _is_flat(given[0]):
        by_name = {str(place): values for place, values in enumerate(given, 1)}
    else:
        raise ValueError(
            f"{name} must map sites to arrays, or be a list of one array for each; for"
            " one flat array, sites must give the site of each score"
        )
    if not by_name:
        raise ValueError(f"{name} must hold the scores of at least one site, got none")
    return by_name


def _is_flat(values: Any) -> bool:
    return (
        plain_array(
            values, dtype=object if isinstance(values, (list, tuple)) else None
        ).ndim
        == 1
    )


@contextmanager
def _accounts(
    plan: Plan, sites: Sequence[str], ledgers: Mapping[str, Ledger] | None, dataset: str
) -> Iterator[dict[str, dict[str, Any]]]:
    """Yield the account of each site's answer: none, the given one, or a simulated
    one.
    """
    epsilon = max(of(design.message).epsilon(design) or 0 for design in plan.designs)
    if ledgers is not None and not epsilon:
        raise ValueError("ledgers were given, but the plan is not private")
    if ledgers is not None and (
        lost := [site for site in sites if site not in ledgers]
    ):
        raise ValueError(
            "ledgers must have a Ledger for each site, and there is none for"
            f" {lost[0]!r}"
        )
    if not epsilon:
        yield {site: {} for site in sites}
    elif ledgers is not None:
        yield {site: {"ledger": ledgers[site], "dataset": dataset} for site in sites}
    else:
        with TemporaryDirectory(prefix="fedconformal-") as folder:
            accounts = {}
            for place, site in enumerate(sites):
                ledger = Ledger.create(Path(folder) / f"{place}.db")
                ledger.set_budget(dataset, epsilon)
                accounts[site] = {"ledger": ledger, "dataset": dataset}
            yield accounts


# -- labels of rows: their sites and groups --------------------------------------------


def rows_by_site(sites: Any, n: int) -> dict[str, NDArray[np.intp]]:
    """Return the rows of each site by name; a site is known by its label as a string.

    Every row belongs to exactly one site, or none does: a missing label is refused.

    Examples
    --------
    >>> {site: rows.tolist() for site, rows in rows_by_site(["B", "A", "B"], 3).items()}
    {'A': [1], 'B': [0, 2]}
    """
    if sites is None:
        raise ValueError(
            "sites must give the site of each row, got None; if all rows are from one"
            " site, pass the same label for each"
        )
    labels = plain_array(sites)
    _check_length("sites", labels.shape, n)
    for label in dict.fromkeys(labels.tolist()):
        try:
            if is_missing(label):
                raise ValueError
            check_site_name(str(label))
        except ValueError:
            raise ValueError(
                "sites must hold labels of 1 to 200 printable characters, none"
                f" missing, got {label!r}"
            ) from None
    names, which = np.unique(
        np.array([str(label) for label in labels.tolist()]), return_inverse=True
    )
    parts = np.split(
        np.argsort(which, kind="stable"), np.cumsum(np.bincount(which))[:-1]
    )
    return dict(zip(names.tolist(), parts, strict=True))


def group_names(groups: Any, n: int) -> NDArray[np.object_]:
    """Return the group of each row as documents name it.

    Examples
    --------
    >>> group_names([1, 0, 1], 3).tolist()
    ['1', '0', '1']
    """
    _check_length("groups", np.shape(plain_array(groups)), n)
    names, which = unique_labels(groups)
    return np.array(names, dtype=object)[which]


def _check_length(argument: str, shape: tuple[int, ...], n: int) -> None:
    if shape != (n,):
        raise ValueError(
            f"{argument} must hold one label for each of the {n} rows, got shape"
            f" {shape}"
        )


# -- simulated rounds of private plans: seeded noise that protects nobody --------------


def simulate(
    plan: Plan, scores: Mapping[str, ArrayLike], rng: np.random.Generator
) -> Calibration:
    """Simulate a round of a private plan without groups, with seeded noise, which
    protects nobody.
    """
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng must be a numpy.random.Generator, got {rng!r}")
    if plan.is_grouped or not is_private(plan):
        raise ValueError(
            "simulate takes a private plan without groups; other plans need no"
            " simulated noise"
        )
    if plan.keys is not None:
        raise ValueError(
            "simulate takes a plan without keys and masks: there is nobody who could"
            " sign"
        )
    (design,) = plan.designs
    reports = []
    for site, own in scores.items():
        values = private_numbers(own)
        payload = of(design.message).simulate(design, values, rng)
        reports.append(
            Report(
                plan=plan.digest,
                site=site,
                parts=(ReportPart(n=values.size, payload=payload),),
            )
        )
    return calibrate(plan, reports)


# -- from predictions to sets, with the thresholds of a calibration --------------------


def predict_interval(
    calibration: Calibration,
    prediction: ArrayLike,
    *,
    score: Score | None = None,
    **where: Any,
) -> Floats:
    """Return the prediction intervals of new cases; the method of a calibration."""
    rule = score_of(calibration.plan.score, score)
    if not isinstance(rule, IntervalScore):
        raise ValueError(f"score {rule.name!r} is not of numbers: use predict_set")
    sets = prediction_sets(calibration, rule, prediction, **where)
    return np.asarray(sets[:, :, 0] if sets.shape[2] == 1 else sets)


def predict_set(
    calibration: Calibration,
    probabilities: Any,
    *,
    classes: Any = None,
    score: Score | None = None,
    as_labels: bool = False,
    **where: Any,
) -> Bools | list[Any]:
    """Return the prediction sets of new cases; the method of a calibration."""
    rule = score_of(calibration.plan.score, score)
    if isinstance(rule, IntervalScore):
        raise ValueError(f"score {rule.name!r} is of numbers: use predict_interval")
    single = len(calibration.plan.confidence_levels) == 1
    if rule.takes_images:
        masks: Any = prediction_sets(calibration, rule, probabilities, **where)
        images = [mask[..., 0] if single else mask for mask in masks]
        return images if isinstance(masks, list) else np.stack(images)
    own = calibration.plan.classes
    if own is None and classes is not None:
        raise ValueError("classes was given, but the plan does not name its classes")
    table, names = _read_columns("probabilities", probabilities, own, classes)
    places = (
        np.arange(table.shape[-1])
        if own is None or names is None
        else class_places(names, own)
    )
    sets = prediction_sets(calibration, rule, table[:, places], **where)
    given = np.asarray(sets, dtype=np.bool_)[:, np.argsort(places)]
    if as_labels:
        return labels_in(given, names or own or range(given.shape[1]))
    return given[:, :, 0] if single else given


def _read_columns(
    name: str, probabilities: Any, own: Sequence[str] | None, classes: Any = None
) -> tuple[NDArray[Any], list[Any] | None]:
    """Return probabilities, a column for each class of the plan if it names them, and
    the columns' names.
    """
    table = plain_array(probabilities)
    names = getattr(probabilities, "columns", None) if classes is None else classes
    if own is not None and (table.ndim != 2 or table.shape[1] != len(own)):
        raise ValueError(
            f"{name} must have one column for each of the {len(own)} classes of the"
            f" plan, got shape {table.shape}"
        )
    return table, (
        None if names is None else np.asarray(list(names), dtype=object).tolist()
    )


def prediction_sets(
    calibration: Calibration,
    score: Score,
    prediction: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    site: str | None = None,
    u: Any = None,
) -> Floats | Bools:
    """Return the sets of new cases at every level, each with the threshold of its
    group, site or class.

    Probabilities are in the order of the plan's classes, where it names them; ``u`` are
    uniform numbers, or a source of them, for a randomized score. The shape is (n, 2,
    n_levels) or (n, n_classes, n_levels).

    Examples
    --------
    >>> import fedconformal as fc
    >>> from fedconformal.protocol import prediction_sets
    >>> calibration = fc.conformalize({"A": range(40)}, score="absolute")
    >>> prediction_sets(calibration, fc.scores.Absolute(), [100.0])[:, :, 0]
    array([[ 64., 136.]])
    """
    refuse_answers(calibration.plan)
    grouping = calibration.plan.grouping
    if groups is not None and not grouping.by_label:
        by_class = "with groups by class, which predictions do not need"
        raise ValueError(
            "`groups` was given, but this model was calibrated "
            f"{by_class if grouping.by_class else 'without groups'}"
        )
    if groups is None and grouping.by_label:
        raise ValueError(
            "groups must give the group of each case: the calibration has"
            f" {quoted(grouping.labels)}"
        )
    if site is not None and not grouping.by_site:
        raise ValueError(
            f"site must be left out, got {site!r}: the sites have no thresholds of"
            " their own"
        )
    if not grouping.by_class:
        if groups is not None:
            thresholds = calibration.threshold_of(groups, site=site).reshape(
                len(plain_array(groups)), -1
            )
        else:
            group = grouping.group_of_site(site) if grouping.by_site else None
            thresholds = np.array(calibration.by_group[group].thresholds)
        return score.sets(prediction, thresholds, **score.draws(u, of_sets=True))
    if not isinstance(score, LabelScore):
        raise ValueError(
            f"score must be one of classes for a plan by class, got {score.name!r}"
        )
    thresholds = calibration.threshold_of(calibration.plan.classes or (), site=site)
    n_levels = len(calibration.plan.confidence_levels)
    return score.sets_by_class(
        prediction, thresholds.reshape(-1, n_levels), **score.draws(u, of_sets=True)
    )


def has_answers(plan: Plan | CheckQuestion) -> bool:
    """Return whether the threshold of a plan is one of confidences, from which on cases
    are answered.
    """
    designs = plan.designs if isinstance(plan, Plan) else ()
    return any(
        getattr(design.message, "starts", None) is not None for design in designs
    )


def refuse_answers(plan: Plan | CheckQuestion) -> None:
    """Refuse a plan of answers, which makes no sets."""
    if has_answers(plan):
        raise ValueError(
            "this calibration makes no prediction sets: it says which cases are"
            " answered, those with a confidence of at least the threshold"
        )


def score_of(rule: ScoreRule | None, given: Score | None = None) -> Score:
    """Return the score that a plan fixes, or else one that is given.

    Examples
    --------
    >>> import fedconformal as fc
    >>> from fedconformal.protocol import score_of
    >>> score_of(fc.plan(score="raps").score)
    RAPS(penalty=0.01, k_reg=5, randomized=False)
    """
    if rule is None:
        if given is None:
            raise ValueError("score must be given: the plan fixes none")
        return given
    fixed = from_name(rule.name, **rule.parameters)
    if given is not None and given != fixed:
        raise ValueError(f"score must be the score of the plan, {fixed}, got {given}")
    return fixed


def score_cases(
    score: Score,
    truth: ArrayLike,
    prediction: Any,
    *,
    classes: Sequence[str] | None = None,
    edges: Sequence[float] | None = None,
    plan: Plan | CheckQuestion | None = None,
    private: bool = False,
    draw: Callable[..., Any] = lambda *cases: None,
) -> Scores:
    """Return the score of each case from its truth and prediction, or its losses at
    these edges.

    Classes may be given by number, or by name where the plan names them; then columns
    of a data frame are found by name. For a private answer a case without a score gets
    NaN, and no error reveals it. ``draw`` is as for `measure_cases`.

    Examples
    --------
    >>> import fedconformal as fc
    >>> from fedconformal.protocol import score_cases
    >>> score_cases(fc.scores.LAC(), ["sick"], [[0.25, 0.75]], classes=["well", "sick"])
    array([0.25])
    """
    if score.takes_images and not private:
        return measure_cases(score, truth, prediction, edges, plan, draw)
    table, outcomes = plain_array(prediction), plain_array(truth)
    if isinstance(score, LossScore) and classes is not None:
        table, outcomes = (
            _in_order("prediction", prediction, classes),
            _in_order("truth", truth, classes),
        )
    if isinstance(score, LabelScore) and classes is not None:
        table, outcomes = (
            _in_order("prediction", prediction, classes),
            class_numbers(truth, classes),
        )
        if not private:
            rule = f"must be classes of the plan, {quoted(classes)}"
            all_rows("truth", plain_array(truth), ~np.isnan(outcomes), rule)
    table = table[:, np.newaxis] if table.ndim == 1 else table
    if private:
        drawn = score.draws(draw(score))
        return score.scores_or_nan(
            numbers_or_nan(outcomes), numbers_or_nan(table), **drawn
        )
    outcomes = score.truth_from(outcomes, argument="truth")
    return measure_cases(
        score, outcomes, score.prediction_from(table), edges, plan, draw
    )


def measure_cases(
    score: Score,
    truth: Any,
    prediction: Any,
    edges: ArrayLike | None = None,
    plan: Plan | CheckQuestion | None = None,
    draw: Callable[..., Any] = lambda *cases: None,
) -> Floats:
    """Return the score of each case, or if edges are given its loss at each: 1 if it is
    missed, or a share.

    Warns for a plan of losses if many cases have nothing to miss. ``draw`` takes score,
    truth and prediction and returns the source of random numbers; for losses nothing is
    drawn.

    Examples
    --------
    >>> import fedconformal as fc
    >>> fc.protocol.measure_cases(fc.scores.Absolute(), [3.0], [1.0], [1, 2, 3])
    array([[1., 0., 0.]])
    """
    if edges is not None and isinstance(score, LossScore):
        if isinstance(plan, Plan):
            warn_of_empty(
                plan, np.mean(score.losses(truth, prediction, [-1.0]) == 0)
            )  # nothing is selected
        return score.losses(truth, prediction, edges)
    drawn = score.draws(draw(score, truth, prediction)) if score.needs_draws else {}
    values = score.score(truth, prediction, **drawn)
    return (
        values
        if edges is None
        else np.array(values[:, np.newaxis] > np.asarray(edges), dtype=float)
    )


def _in_order(name: str, values: Any, classes: Sequence[str]) -> NDArray[Any]:
    """Return a column for each class, in the order of the classes where columns have
    names.
    """
    table, names = _read_columns(name, values, classes)
    return table if names is None else table[:, class_places(names, classes)]


def class_numbers(truth: ArrayLike, classes: Sequence[str]) -> Floats:
    """Return the number of each case's class, given by its name or number; NaN where it
    is neither.

    Examples
    --------
    >>> class_numbers(["sick", "well", "ill"], ["well", "sick"])
    array([ 1.,  0., nan])
    >>> class_numbers([1, 0], ["well", "sick"]), class_numbers([9, 8], ["8", "9"])
    (array([1., 0.]), array([1., 0.]))
    """
    numbers: dict[Any, float] = {
        name: float(place) for place, name in enumerate(classes)
    }
    # Classes that are called by numbers have these alone.
    called = {int(name): place for name, place in numbers.items() if name.isdecimal()}
    numbers |= called or {place: float(place) for place in range(len(classes))}
    values = plain_array(
        truth, dtype=None if hasattr(truth, "dtype") else object
    ).tolist()
    is_label = (isinstance(value, str | int | float) for value in values)
    return np.array(
        [
            numbers.get(value, np.nan) if known else np.nan
            for value, known in zip(values, is_label, strict=True)
        ]
    )


def class_places(names: Sequence[Any], classes: Sequence[str]) -> Ints:
    """Return the place of each class among columns that are named after classes.

    The names are the classes, or the classes after a beginning that all have in common.

    Examples
    --------
    >>> from fedconformal.protocol import class_places
    >>> class_places(["p_sick", "p_well"], ["well", "sick"]).tolist()
    [1, 0]
    """
    given = [label_text(name) for name in names]
    shared = (sum(map(len, given)) - sum(map(len, classes))) // max(len(classes), 1)
    known = [name[shared:] if shared > 0 else name for name in given]
    alike = shared <= 0 or len({name[:shared] for name in given}) == 1
    if alike and len(known) == len(classes) and set(known) == set(classes):
        place_of = {name: place for place, name in enumerate(known)}
        return np.array([place_of[name] for name in classes])
    raise ValueError(
        f"columns must be named after the classes, {quoted(classes)}, in any order, got"
        f" {quoted(given)}"
    )


def labels_in(sets: Bools, classes: Sequence[Any]) -> list[Any]:
    """Return the labels in each set as lists, in the order of the columns; with several
    levels, one for each.

    Examples
    --------
    >>> import numpy as np
    >>> labels_in(
    ...     np.array([[True, False], [True, True], [False, False]]), ["no", "yes"]
    ... )
    [['no'], ['no', 'yes'], []]
    """
    names = np.asarray(classes, dtype=object).tolist()
    if sets.ndim == 3 and sets.shape[2] > 1:
        return [
            [labels_in(row[:, i][np.newaxis], names)[0] for i in range(row.shape[1])]
            for row in sets
        ]
    flat = sets.reshape(len(sets), -1)
    return [[names[place] for place in np.flatnonzero(row)] for row in flat]
