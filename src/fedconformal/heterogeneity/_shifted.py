"""Distribution of the coverage of a plan if named sites differ from the new cases (section 3.5)."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from fedconformal._text import quoted
from fedconformal._typing import Floats
from fedconformal.documents import Calibration, Plan
from fedconformal.heterogeneity._cases import level_index, refuse_groups
from fedconformal.laws import CoverageLaw, Distortion, OrderStatistics, Shifted
from fedconformal.planning import Block


def shifted_law(
    document: Plan | Calibration,
    distortion: Mapping[str, Distortion],
    *,
    confidence_level: float | None = None,
) -> CoverageLaw:
    """Return the exact distribution of the coverage if some sites' scores are distributed differently.

    With F_j the distribution function of the scores of site j and F that of the new cases', the distortion of
    site j is ``h(c) = F_j(F^{-1}(c))``: the share of its scores below the c-quantile of the new cases'.
    `CoverageLaw` takes the same distortions; this applies them to a whole plan, whatever it asks sites for.

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
        If a name is no site of the plan, or the plan is open, private or has groups.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_points={"A": 100, "B": 100, "C": 100}, criterion="marginal")
    >>> law = fc.heterogeneity.shifted_law(plan, {"A": lambda c: c**2})
    >>> round(plan.law.mean(), 3), round(law.mean(), 3)
    (0.902, 0.916)
    """
    refuse_groups(document)
    level = level_index(document, confidence_level)
    design = document.designs[level]
    if design.sending.release is not None:
        raise ValueError("private plans are not supported: their law is a bound for all distributions")
    if design.is_open:
        raise ValueError(f"this {document.kind} has no sites of known size to compute a coverage for")
    plan = document.plan if isinstance(document, Calibration) else document
    if isinstance(document, Calibration):
        sizes = {answer.site: answer.n for answer in document.answers}
    else:
        names = plan.site_names or [str(i + 1) for i in range(design.n_sites)]
        sizes = dict(zip(names, plan.n_points, strict=True))
    if unknown := sorted(set(distortion) - set(sizes)):
        raise ValueError(f"distortion must name sites ({quoted(sorted(sizes))}), got {unknown[0]!r}")
    for site, h in distortion.items():
        if not callable(h):
            raise TypeError(f"distortion[{site!r}] must be a function, got {h!r:.80}")
    part, named = plan.part, plan.site_names is not None
    kinds = Counter(
        (
            Block(
                1,
                n,
                part.ranks_for(n, site=site if named else None)[level],
                part.votes_for(n, site=site if named else None)[level],
            ),
            distortion.get(site, _same),
        )
        for site, n in sizes.items()
    )
    design = replace(design, blocks=tuple(replace(block, count=count) for (block, _), count in kinds.items()))
    sent = design.sending.site_law(design.blocks)
    assert isinstance(sent, OrderStatistics)
    if sent.local_ranks.ndim == 2 and sent.local_ranks.shape[1] == 1:
        sent = OrderStatistics(sent.n_points, sent.local_ranks[:, 0])
    return CoverageLaw.of_sites(
        Shifted(sent, [h for _, h in kinds]),
        design.counts,
        server_rank=design.server_rank or 1,
        max_faulty=design.goal.max_faulty,
        weights=design.weights,
    )


def _same(c: Floats) -> Floats:
    return c
