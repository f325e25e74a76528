"""The promise in formulas, last."""

from collections.abc import Iterator

from fedconformal._text import listed
from fedconformal._version import __version__
from fedconformal.web._html import Markup, section, table, tag
from fedconformal.web.certificates._claim import Certified, Claim

_PAPER = (
    "P. Humbert, B. Le Bars, A. Bellet, S. Arlot: One-Shot Federated Conformal Prediction, ICML 2023. "
    f"Made by fedconformal {__version__}."
)


def formulas(it: Certified) -> Markup:
    """Return sets, reports, threshold, law and promise as formulas."""
    return section(
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
    yield (
        "site j sends",
        f"the lⱼ-th smallest of its nⱼ scores{', released privately' if private else ''}",
    )
    yield "the server keeps", "q, the k-th smallest of what it received"
    yield "coverage given the data", "C = F(q), F the distribution function of the scores"
    yield "law", claim.promise.law_formula(_site_law(private=private), is_bound=claim.is_bound)
    if plan.max_faulty:
        yield (
            "wrong reports",
            f"the same with k − {plan.max_faulty} for k and {plan.max_faulty} sites fewer, the worst choice",
        )
    goal = claim.calibration.designs[0].goal
    yield "promise", claim.promise.promise_formula(goal, plan.delta)


def _site_law(*, private: bool) -> str:
    """The probability that what site j sends lies below the c-quantile."""
    if private:
        return "P(X + 1 > R*) for X ~ Binomial(nⱼ, c), R* the proved bound on the rank of a private release"
    return "I(c; lⱼ, nⱼ − lⱼ + 1), the regularised incomplete beta function"
