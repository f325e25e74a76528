"""Distribution of the coverage of a plan if named sites differ from the new cases (section 3.5)."""

from collections import Counter
from collections.abc import Mapping
from functools import singledispatch

from fedconformal import messages
from fedconformal._text import quoted
from fedconformal._typing import Floats
from fedconformal.documents import (
    Calibration,
    CalibrationView,
    Cases,
    Design,
    MessageData,
    Plan,
    PlanView,
    Ranks,
    SiteKind,
)
from fedconformal.laws import CoverageLaw, Distortion, OrderStatistics, Shifted
from fedconformal.monitoring._coverage import level_index, refuse_groups
from fedconformal.planning import Ballot


def shifted_law(
    document: Plan | PlanView | Calibration | CalibrationView,
    distortion: Mapping[str, Distortion],
    *,
    confidence_level: float | None = None,
) -> CoverageLaw:
    """Return the exact distribution of the coverage if some sites' scores are distributed differently.

    With F_j the distribution function of the scores of site j and F that of the new cases', the distortion of
    site j is ``h(c) = F_j(F^{-1}(c))``: the share of its scores below the c-quantile of the new cases'.
    `CoverageLaw` takes the same distortions; this applies them to a whole plan, whichever scores sites send.

    Parameters
    ----------
    document : Plan or Calibration
        A plan with known sizes, or a calibration (then for the sites that answered); of a document with
        groups, one group: ``plan["child"]``.
    distortion : mapping from str to callable
        Distortions by site; each takes arrays and grows from h(0) = 0 to h(1) = 1. Sites that are not named
        are like the new cases. Sites without names are called by their numbers, "1" first. Sites that share
        a distortion should share the same object, which is faster.
    confidence_level : float, optional
        Level of the plan, if it has several; the first by default.

    Returns
    -------
    CoverageLaw
        Exact; with ``max_faulty`` a lower bound.

    Raises
    ------
    ValueError
        If a name is no site of the plan, or the plan is open, private, has groups or asks for curves.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_points={"A": 100, "B": 100, "C": 100}, criterion="marginal")
    >>> law = fc.monitoring.shifted_law(plan, {"A": lambda c: c**2})
    >>> round(plan.law.mean(), 3), round(law.mean(), 3)
    (0.902, 0.916)
    """
    refuse_groups(document)
    level, design = level_index(document, confidence_level), document.selected_designs[0]
    if messages.of(design.message).epsilon(design) is not None:
        raise ValueError("private plans are not supported: their distribution bounds that of any scores")
    needed = design.levels[level].votes
    if needed is None:
        raise ValueError(f"this {document.kind} has no sites of known size to compute a coverage for")
    ballot = _ballot(design.message, design, level)
    names = design.site_names or [str(i + 1) for i in range(ballot.n_sites)]
    if unknown := sorted(set(distortion) - set(names)):
        raise ValueError(f"distortion must name sites ({quoted(sorted(names))}), got {unknown[0]!r}")
    for site, h in distortion.items():
        if not callable(h):
            raise TypeError(f"distortion[{site!r}] must be a function, got {h!r:.80}")
    rows = [
        (kind.n, ranks, votes)
        for kind, ranks, votes in zip(ballot.sites, ballot.ranks, ballot.votes, strict=True)
        for _ in range(kind.count)
    ]
    alike = Counter(
        (*row, distortion.get(name, _same)) for row, name in zip(rows, names, strict=True) if row[1]
    )
    shifted = Ballot(
        tuple(SiteKind(count=number, n=n) for (n, *_), number in alike.items()),
        tuple(ranks for _, ranks, _, _ in alike),
        tuple(votes for _, _, votes, _ in alike),
    )
    sizes, ranks, weights = shifted.arrays
    sent = OrderStatistics(sizes, ranks[:, 0] if ranks.shape[1] == 1 else ranks)
    return CoverageLaw.of_sites(
        Shifted(sent, [h for *_, h in alike]),
        shifted.counts,
        server_rank=needed,
        max_faulty=design.max_faulty,
        weights=weights,
    )


@singledispatch
def _ballot(message: MessageData, design: Design, level: int) -> Ballot:
    """Return the ranks that each kind of site sends at a level, with their votes."""
    raise ValueError(f"plans of kind {message.kind!r} are not supported: sites send no scores of known rank")


@_ballot.register
def _(message: Ranks, design: Design, level: int) -> Ballot:
    return Ballot(design.kinds, message.levels[level].ranks, message.levels[level].all_votes())


@_ballot.register
def _(message: Cases, design: Design, level: int) -> Ballot:
    votes = messages.of(message).votes(design, level) or ()
    # Cases drawn at random are as good as a site that has no others.
    drawn = [kind.model_copy(update={"n": len(each)}) for kind, each in zip(design.kinds, votes, strict=True)]
    return Ballot(tuple(drawn), tuple(tuple(range(1, len(each) + 1)) for each in votes), votes)


def _same(c: Floats) -> Floats:
    return c
