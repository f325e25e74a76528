"""The whole round in one call, for somebody who holds the scores of all sites."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal import _util
from fedconformal._util import plain_array
from fedconformal.documents import (
    Calibration,
    Plan,
    Report,
    ReportPart,
)
from fedconformal.messages import of
from fedconformal.privacy import Ledger
from fedconformal.protocol._calibrate import calibrate
from fedconformal.protocol._plan import make_plan, plan
from fedconformal.protocol._policy import SitePolicy
from fedconformal.protocol._report import is_private, report
from fedconformal.protocol._rows import (
    Scores,
    flat_numbers,
    group_names,
    group_sizes,
    is_asked,
    private_numbers,
    rows_by_site,
)

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
    """Plan, report and calibrate in one call, where the scores of all sites are at hand.

    The same as `plan` for these sites, `report` at each of them and `calibrate`: only the reports meet. For a
    simulation of a federation, for evaluations, and wherever data are of many sources but in one place.

    Parameters
    ----------
    scores : mapping from site to array-like, list of array-likes, or array-like of shape (n,)
        The scores of each site: arrays, tensors of any device, columns of pandas or polars. In a list, sites
        are known as "1", "2" and so on; for one flat array ``sites`` says which is from where.
    sites : array-like of shape (n,), optional
        The site of each score of a flat array, known by ``str(label)``.
    groups : in the form of ``scores``, optional
        The label of each score, for one threshold for each group; or its true class
        (``group_by="class"``).
    ledgers : mapping from site to Ledger, optional
        With ``privacy``, the account of each site, which its answer is charged to. Left out, accounts are
        simulated: each site has one with just enough for this call, gone after it, and nothing keeps track
        of what several calls cost together.
    dataset : str
        What the data are called in ``ledgers``.
    min_group : int
        A site with fewer points of a group is left out of it.
    **options : confidence_level, criterion, promise, group_by, score, privacy and the others of `plan`
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
    >>> scores = {"north": rng.random(120), "south": rng.random(40), "west": rng.random(377)}
    >>> calibration = fc.conformalize(scores, confidence_level=0.9, score="absolute")
    >>> round(calibration.threshold, 2), round(calibration.law.mean(), 3)
    (0.91, 0.901)
    >>> calibration.predict_interval([3.0]).round(2)
    array([[2.09, 3.91]])
    """
    held = LocalScores.of(scores, sites, groups)
    bound = signature(plan).bind(**held.sizes(), **options)
    bound.apply_defaults()
    fewest = _util.integer("min_group", min_group, low=1)
    chosen = make_plan(min_group=fewest, **bound.arguments)
    own = SitePolicy.unlimited()  # all scores are the caller's own
    with _accounts(chosen, held, ledgers, dataset) as accounts:

        def answer(site: str, values: Scores, labels: Any) -> Report:
            # A copy to select in: what is read for it is still at hand when it is looked through.
            return report(
                chosen,
                values.copy(),
                site=site,
                groups=labels,
                policy=own,
                model=chosen.terms.model,
                in_place=True,
                **accounts[site],
            )

        answers = _each(answer, list(held.asked(chosen)))
    return calibrate(chosen, answers)


def _each(answer: Callable[[str, Scores, Any], Report], asked: list[tuple[str, Scores, Any]]) -> list[Report]:
    """Return the report of each site; in threads where there is much for numpy to select."""
    if sum(values.size for _, values, _ in asked) < _MANY:
        return [answer(*each) for each in asked]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda each: answer(*each), asked))


@dataclass(frozen=True)
class LocalScores:
    """Scores and labels of all sites, held in one place.

    Parameters
    ----------
    scores : mapping from str to array
        The scores of each site.
    groups : mapping from str to array, optional
        The label of each of them.
    """

    scores: Mapping[str, Scores]
    groups: Mapping[str, Any] | None

    @classmethod
    def of(cls, scores: Any, sites: Any, groups: Any) -> "LocalScores":
        """Read the arguments of `conformalize`."""
        if sites is not None:
            return cls._flat(scores, sites, groups)
        by_site = _by_site("scores", scores)
        values = {site: _of_site(site, each) for site, each in by_site.items()}
        if groups is None:
            return cls(values, None)
        labels = _by_site("groups", groups)
        if labels.keys() != values.keys():
            raise ValueError(
                f"groups must have the sites of scores, {', '.join(map(repr, values))}, got "
                f"{', '.join(map(repr, labels))}"
            )
        return cls(values, {site: group_names(each, values[site].size) for site, each in labels.items()})

    @classmethod
    def _flat(cls, scores: Any, sites: Any, groups: Any) -> "LocalScores":
        if isinstance(scores, Mapping):
            raise ValueError("sites goes with one flat array of scores, got scores by site")
        values = flat_numbers(scores)
        rows = rows_by_site(sites, values.size)
        labels = None if groups is None else group_names(groups, values.size)
        return cls(
            {site: values[here] for site, here in rows.items()},
            None if labels is None else {site: labels[here] for site, here in rows.items()},
        )

    def sizes(self) -> dict[str, Any]:
        """Return the sizes that a plan takes."""
        if self.groups is None:
            return {"n_points": {site: values.size for site, values in self.scores.items()}}
        ends = np.cumsum([values.size for values in self.scores.values()]).tolist()
        rows = {
            site: np.arange(end - self.scores[site].size, end)
            for site, end in zip(self.scores, ends, strict=True)
        }
        return {"groups": group_sizes(np.concatenate(list(self.groups.values())), rows)}

    def asked(self, chosen: Plan) -> Iterator[tuple[str, Scores, Any]]:
        """Yield the sites that are asked, with the scores they answer for and the labels of these."""
        for site, values in self.scores.items():
            if site not in (chosen.site_names or ()):  # too small for every group
                continue
            labels = None if self.groups is None else self.groups[site]
            wanted = is_asked(chosen, site, labels)
            if labels is None:
                if wanted.all():
                    yield site, values, None
            elif wanted.any():
                yield site, values[wanted], labels[wanted]


def _by_site(name: str, given: Any) -> dict[str, Any]:
    """Return a mapping or a list as a mapping from the sites' names."""
    if isinstance(given, Mapping):
        found = {str(site): values for site, values in given.items()}
        if len(found) < len(given):
            raise ValueError(f"{name} must name each site once, got a number and its digits as text")
    elif isinstance(given, (list, tuple)) and given and np.ndim(_first(given)) == 1:
        found = {str(place): values for place, values in enumerate(given, 1)}
    else:
        raise ValueError(
            f"{name} must map sites to arrays, or be a list of one array for each; for one flat array, "
            "sites must give the site of each score"
        )
    if not found:
        raise ValueError(f"{name} must hold the scores of at least one site, got none")
    return found


def _first(given: Sequence[Any]) -> Any:
    return plain_array(given[0], dtype=object if isinstance(given[0], (list, tuple)) else None)


def _of_site(site: str, values: Any) -> Scores:
    try:
        return flat_numbers(values)
    except (TypeError, ValueError) as error:
        raise type(error)(f"site {site!r}: {error}") from None


@contextmanager
def _accounts(
    chosen: Plan, held: LocalScores, ledgers: Mapping[str, Ledger] | None, dataset: str
) -> Iterator[dict[str, dict[str, Any]]]:
    """Yield the account of each site's answer: none, the given one, or a simulated one."""
    epsilon = max((of(design.message).epsilon(design) or 0 for design in chosen.designs), default=0)
    if not epsilon:
        if ledgers is not None:
            raise ValueError("ledgers were given, but the plan is not private")
        yield {site: {} for site in held.scores}
        return
    if ledgers is not None:
        if lost := [site for site in held.scores if site not in ledgers]:
            raise ValueError(f"ledgers must have a Ledger for each site, and there is none for {lost[0]!r}")
        yield {site: {"ledger": ledgers[site], "dataset": dataset} for site in held.scores}
        return
    with TemporaryDirectory(prefix="fedconformal-") as folder:
        accounts = {}
        for place, site in enumerate(held.scores):
            ledger = Ledger.create(Path(folder) / f"{place}.db")
            ledger.set_budget(dataset, epsilon)
            accounts[site] = {"ledger": ledger, "dataset": dataset}
        yield accounts


# -- simulated rounds of private plans: seeded noise that protects nobody ------------------------------------


def simulate(plan: Plan, scores: Mapping[str, ArrayLike], rng: np.random.Generator) -> Calibration:
    """Simulate a round of a private plan without groups, with seeded noise, which protects nobody."""
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng must be a numpy.random.Generator, got {rng!r}")
    if plan.is_grouped or not is_private(plan):
        raise ValueError("simulate takes a private plan without groups; other plans need no simulated noise")
    (design,) = plan.designs
    reports = []
    for site, own in scores.items():
        values = private_numbers(own)
        payload = of(design.message).simulate(design, values, rng)
        reports.append(
            Report(plan=plan.digest, site=site, parts=(ReportPart(n=values.size, payload=payload),))
        )
    return calibrate(plan, reports)
