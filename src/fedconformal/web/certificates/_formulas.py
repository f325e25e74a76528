"""The promise in formulas, last."""

from collections.abc import Iterator

from fedconformal._text import count, listed
from fedconformal._version import __version__
from fedconformal.web._html import Markup, folded, table, tag
from fedconformal.web.certificates._claim import Certified, Claim

_PAPER = (
    "P. Humbert, B. Le Bars, A. Bellet, S. Arlot: One-Shot Federated Conformal Prediction, ICML 2023. "
    f"Made by fedconformal {__version__}."
)

_COVERAGE = ("coverage given the data", "C = F(q), F the distribution function of the scores")


def formulas(it: Certified) -> Markup:
    """Return sets, reports, threshold, law and promise as formulas."""
    return folded(
        "Formulas",
        *([tag("p", "In each group by itself:")] if it.plan.is_grouped else []),
        table(("what", "formula"), _rows(it), caption="Formulas"),
        tag("p", _PAPER, class_="note"),
    )


def _rows(it: Certified) -> list[tuple[str, str]]:
    """Formulas that are the same in all groups once, others with the groups they are for."""
    groups: dict[tuple[str, str], list[str]] = {}
    for claim in it.claims:
        for row in _formulas(claim):
            groups.setdefault(row, []).append(f"“{claim.label}”")
    return [
        (what if len(labels) == len(it.claims) else f"{what}, {listed(labels)}", formula)
        for (what, formula), labels in groups.items()
    ]


def _formulas(claim: Claim) -> Iterator[tuple[str, str]]:
    plan, private = claim.plan, claim.plan.privacy is not None
    yield "prediction set", "{ y : s(x, y) ≤ q }, s the score"
    if not claim.promise.has_law:
        yield from _without_law(claim)
    else:
        yield from _by_votes(claim) if claim.has_votes else _by_sites(claim, private=private)
    goal = claim.calibration.designs[0].goal
    yield "promise", claim.promise.promise_formula(goal, plan.delta)


def _without_law(claim: Claim) -> Iterator[tuple[str, str]]:
    """What is sent and kept, and why that is enough."""
    drawn = claim.plan.part.cases
    if drawn is None:
        yield "site j sends", "the lⱼ₁-th, lⱼ₂-th, … smallest of its nⱼ scores; number i has wⱼᵢ votes"
    else:
        yield "site j sends", f"{count(drawn, 'score')} drawn at random from its nⱼ; number i has wⱼᵢ votes"
    yield "the server keeps", "q, the smallest v with Σ wⱼᵢ ≥ k, the sum over all numbers that are at most v"
    yield "why", claim.promise.law_formula("", is_bound=True)


def _by_sites(claim: Claim, *, private: bool) -> Iterator[tuple[str, str]]:
    """One number from each site, and one vote for each."""
    yield (
        "site j sends",
        f"the lⱼ-th smallest of its nⱼ scores{', released privately' if private else ''}",
    )
    yield "the server keeps", "q, the k-th smallest of what it received"
    yield _COVERAGE
    yield "law", claim.promise.law_formula(_site_law(private=private), is_bound=claim.is_bound)
    if faulty := claim.plan.max_faulty:
        yield (
            "wrong reports",
            f"the same with k − {faulty} for k and without {count(faulty, 'site')}: the worst choice",
        )


def _by_votes(claim: Claim) -> Iterator[tuple[str, str]]:
    """Several numbers from a site, or more votes for larger sites."""
    yield "site j sends", "the lⱼ₁-th, lⱼ₂-th, … smallest of its nⱼ scores; number i has wⱼᵢ votes"
    yield "the server keeps", "q, the smallest v with Σ wⱼᵢ ≥ k, the sum over all numbers that are at most v"
    yield _COVERAGE
    sign = "≤" if claim.is_bound else "="
    yield (
        "law",
        f"P(C ≤ c) {sign} P(Σⱼ Vⱼ ≥ k), Vⱼ = Σ wⱼᵢ over the i with lⱼᵢ ≤ Xⱼ, the Xⱼ independent, "
        "Xⱼ ~ Binomial(nⱼ, c)",
    )
    if faulty := claim.plan.max_faulty:
        yield (
            "wrong reports",
            f"the same without {count(faulty, 'site')}, and k less their votes: the worst choice",
        )


def _site_law(*, private: bool) -> str:
    """The probability that what site j sends lies below the c-quantile."""
    if private:
        return "P(X + 1 > R*) for X ~ Binomial(nⱼ, c), R* the proved bound on the rank of a private release"
    return "I(c; lⱼ, nⱼ − lⱼ + 1), the regularised incomplete beta function"
