"""The certificate's second half: numbers, names, digests, and at last formulas."""

import base64
import math
from collections.abc import Sequence

from fedconformal._version import __version__
from fedconformal.pages import _words as words
from fedconformal.pages._html import Markup, table, tag
from fedconformal.pages._picture import law_picture
from fedconformal.pages._subject import MOST_SITES, Subject, section, short


def law(it: Subject) -> Markup:
    pictures = [
        tag("figure", Markup(picture), tag("figcaption", _caption(it, i)))
        for i in range(len(it.laws))
        if (picture := _picture(it, i)) is not None
    ]
    rows = [_law_row(it, i) for i in range(len(it.laws))]
    headers = ["level", "threshold q", "server’s rank", "mean", "std", "5 % quantile", "P(C ≥ level)"]
    return section(
        "How far off it can be",
        tag(
            "p",
            "The share of new cases covered depends on which calibration cases the sites happened to "
            "have. Its law is known"
            + (" as a bound from below: " if it.bounded else ", for any model and any data: ")
            + "so is how likely an unlucky calibration was.",
        ),
        *pictures,
        table(headers, rows, numbers=frozenset(range(7)), caption="The law of the coverage, level by level"),
        *(
            [
                tag(
                    "p",
                    "Mean, 5 % quantile and probability are lower bounds; std is the spread of the bound "
                    "itself.",
                    class_="note",
                )
            ]
            if it.bounded
            else []
        ),
    )


def _picture(it: Subject, i: int) -> str | None:
    found = it.calibration.levels[i]
    if found.threshold == math.inf:
        return None
    return law_picture(
        it.laws[i],
        beside=None if it.each_site else it.pooled(found.confidence_level),
        bound=it.bounded,
        name=f"law-{i}",
    )


def _caption(it: Subject, i: int) -> str:
    return (
        f"The law of the coverage at {words.percent(it.calibration.levels[i].confidence_level)}"
        f"{', as a lower bound' if it.bounded else ''}. The deeper shade is the unluckiest twentieth. "
        + ("" if it.each_site else f"Dashed: pooling all {it.n_points:,} cases in one place.")
    )


def _law_row(it: Subject, i: int) -> list[str]:
    found, law = it.calibration.levels[i], it.laws[i]
    kept = f"{found.server_rank:,} of {it.calibration.n_answers:,}"
    return [
        words.percent(found.confidence_level),
        words.threshold_text(found.threshold),
        "none" if found.server_rank > it.calibration.n_answers else kept,
        words.floor_percent(law.mean, digits=2),
        words.nearest_percent(law.std, digits=2),
        words.floor_percent(law.unlucky, digits=2),
        words.floor_percent(law.reached),
    ]


def sites(it: Subject) -> Markup:
    calibration = it.calibration
    parts = [tag("p", _who(it))]
    if calibration.answers:
        rows = [
            [answer.site, f"{answer.n:,}", _ranks(answer.ranks), short(answer.report)]
            for answer in calibration.answers[:MOST_SITES]
        ]
        headers = ["site", "cases", "rank aimed at" if it.plan.privacy else "rank sent", "report’s digest"]
        parts.append(table(headers, rows, numbers=frozenset({1, 2}), caption="Sites that answered"))
        if len(calibration.answers) > MOST_SITES:
            rest = len(calibration.answers) - MOST_SITES
            parts.append(tag("p", f"and {rest:,} more, all listed in the calibration.", class_="note"))
    for part in calibration.aggregated or ():
        text = f"{words.count(part.count, 'site')} of {part.n:,} cases, rank aimed at {_ranks(part.ranks)}"
        parts.append(tag("p", text))
    if calibration.refused:
        refused = [[refusal.source, refusal.reason] for refusal in calibration.refused[:MOST_SITES]]
        parts += [
            tag("h3", "Refused"),
            tag("p", "These reports did not count."),
            table(["from", "reason"], refused, caption="Reports that were refused"),
        ]
    return section("Who reported", *parts)


def _who(it: Subject) -> str:
    calibration = it.calibration
    says = f"{words.count(calibration.n_answers, 'site')} answered"
    if not calibration.n_missing:
        says += "; none is missing." if it.plan.n_sites is not None else "."
    else:
        says += f"; {words.count(calibration.n_missing, 'site')} did not"
        named = list(calibration.missing[:MOST_SITES])
        more = len(calibration.missing) - len(named)
        says += f": {words.listed(named)}{f' and {more:,} more' if more else ''}." if named else "."
    if it.plan.max_faulty:
        says += f" The promise allows for {words.count(it.plan.max_faulty, 'wrong report')}, in whatever way."
    signed = (
        "Every report was signed with its site’s key."
        if calibration.authenticated
        else ("The reports were not signed.")
    )
    return f"{says} {signed}"


def check(it: Subject) -> Markup:
    rows = [[check.name, check.found, "yes"] for check in it.checks]
    digests = [
        ["calibration", it.calibration.digest],
        ["plan", it.plan.digest],
    ]
    encoded = base64.b64encode((it.calibration.to_json() + "\n").encode()).decode()
    link = tag(
        "a",
        "Save calibration.json",
        href=f"data:application/json;base64,{encoded}",
        download="calibration.json",
    )
    return section(
        "How to check it",
        tag(
            "p",
            "When this page was made, the claim was counted again by code that shares nothing with the "
            "code that made it:",
        ),
        table(["check", "found", "holds"], rows, caption="Checks"),
        tag(
            "p",
            "Do not trust this page: anybody can write a page. The calibration it was made from is inside "
            "it. ",
            link,
            ", compare its digest with the one that the coordinator published, and count again:",
        ),
        tag("pre", "pip install 'fedconformal[cli]'\nfedconformal verify calibration.json"),
        tag(
            "p",
            "With the sites’ reports at hand, ",
            tag("code", "--reports FILE"),
            " (once for each) recomputes the threshold itself. Without them the threshold is as the "
            "coordinator "
            "wrote it.",
        ),
        table(["document", "SHA-256 digest"], digests, caption="Digests"),
    )


def formulas(it: Subject) -> Markup:
    private = it.plan.privacy is not None
    sites = (
        "P(X + 1 > R*) for X ~ Binomial(nⱼ, c), R* the proved bound on the rank of a private release"
        if private
        else "I(c; lⱼ, nⱼ − lⱼ + 1), the regularised incomplete beta function"
    )
    rows = [
        ["prediction set", "{ y : s(x, y) ≤ q }, s the score"],
        [
            "site j sends",
            "the lⱼ-th smallest of its nⱼ scores" + (", released privately" if private else ""),
        ],
        ["the server keeps", "q, the k-th smallest of what it received"],
        ["coverage given the data", "C = F(q), F the distribution function of the scores"],
        [
            "law",
            "for every site j by itself, with its own Fⱼ: P(C ≤ c) ≤ I(c; lⱼ, nⱼ − lⱼ + 1), the regularised "
            "incomplete beta function, because q is at least site j’s own report"
            if it.each_site
            else f"P(C ≤ c) {'≤' if it.bounded else '='} P(number of sites below the c-quantile ≥ k), "
            f"site j lying below with probability {sites}",
        ],
        ["promise", _formal(it.plan.criterion, it.plan.delta, each_site=it.each_site)],
    ]
    faulty = it.plan.max_faulty
    if faulty:
        rows.insert(
            5,
            [
                "wrong reports",
                f"the same with k − {faulty} for k and {faulty} sites fewer, the worst choice",
            ],
        )
    return section(
        "Formulas",
        table(["what", "formula"], rows, caption="Formulas"),
        tag(
            "p",
            "P. Humbert, B. Le Bars, A. Bellet, S. Arlot: One-Shot Federated Conformal Prediction, ICML "
            "2023. "
            f"Made by fedconformal {__version__}.",
            class_="note",
        ),
    )


def _ranks(ranks: Sequence[int]) -> str:
    return ", ".join(f"{rank:,}" for rank in ranks)


def _formal(criterion: str, delta: float | None, *, each_site: bool) -> str:
    if each_site and criterion == "conditional":
        return f"P(C ≥ level at every site) ≥ 1 − {delta:g}"
    if criterion == "conditional":
        return f"P(C ≥ level) ≥ 1 − {delta:g}"
    return "E[C] ≥ level" + (", with E[(C − level)²] as small as can be" if criterion == "stable" else "")
