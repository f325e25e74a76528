"""For somebody who holds arrays: the whole round in one call."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal import _util
from fedconformal._util import (
    Scores,
    flat_numbers,
    plain_array,
)
from fedconformal.documents import (
    Calibration,
    Plan,
    Report,
    unique_labels,
)
from fedconformal.messages import of
from fedconformal.privacy import Ledger
from fedconformal.protocol._calibrate import calibrate
from fedconformal.protocol._plan import make_plan, warn_about
from fedconformal.protocol._policy import SitePolicy
from fedconformal.protocol._report import report
from fedconformal.protocol._rows import group_names, rows_by_site

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
