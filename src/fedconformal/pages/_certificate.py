"""A calibration as one page that convinces without a terminal: plain words, then numbers, then formulas."""

import base64
import math
from collections.abc import Iterator, Sequence
from importlib import resources

from fedconformal import baselines
from fedconformal._version import __version__
from fedconformal.audit import Check, verify
from fedconformal.documents import Calibration
from fedconformal.laws import Summary
from fedconformal.pages import _words as words
from fedconformal.pages._html import Markup, join, table, tag
from fedconformal.pages._picture import law_picture

_MOST_SITES = 200
"""Sites listed one by one; of larger federations the rest stays in the calibration that the page carries."""


class NotVerifiedError(ValueError):
    """A calibration whose claim does not hold when it is counted again: it gets no certificate."""


def certificate(calibration: Calibration) -> str:
    """One HTML page, without scripts or anything from elsewhere, that says what a calibration promises.

    The claim is recounted first, with the auditor's own code; a calibration whose claim does not hold gets no
    certificate. The page carries the calibration itself, so that whoever holds it can check it.
    """
    checks = verify(calibration)
    if failed := [check for check in checks if not check.passed]:
        raise NotVerifiedError(
            f"this calibration gets no certificate, its claim does not hold: {failed[0].name}: "
            f"{failed[0].found}"
        )
    page = _Page(calibration, checks)
    title = f"Calibration certificate {_short(calibration.digest)}"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content="default-src 'none'; style-src 'unsafe-inline'"),
        tag("meta", name="generator", content=f"fedconformal {__version__}"),
        tag("title", title),
        tag("style", Markup(_style())),
    )
    return f"<!doctype html>\n{tag('html', head, tag('body', page.main()), lang='en')}\n"


def _style() -> str:
    assets = resources.files("fedconformal.pages") / "assets"
    return "\n".join((assets / name).read_text("utf-8") for name in ("common.css", "certificate.css"))


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:12]


class _Page:
    """The sections of a certificate, in the order in which they are read."""

    def __init__(self, calibration: Calibration, checks: Sequence[Check]) -> None:
        self.calibration, self.plan, self.checks = calibration, calibration.plan, checks
        self.laws = [
            Summary(law, level.confidence_level)
            for law, level in zip(calibration.laws, calibration.levels, strict=True)
        ]
        self.n_points = sum(count * n for (n, _), count in calibration.groups.items())

    def main(self) -> Markup:
        sections = (
            self._header(),
            self._promise(),
            self._cost(),
            self._assumptions(),
            self._law(),
            self._sites(),
            self._check(),
            self._formulas(),
        )
        return tag("main", *sections)

    # -- plain words -----------------------------------------------------------------------------------

    def _header(self) -> Markup:
        return tag(
            "header",
            tag("p", "Calibration certificate", class_="kicker"),
            tag("h1", self._headline()),
            tag("p", "Certificate of the calibration with digest ", tag("code", self.calibration.digest)),
        )

    def _headline(self) -> str:
        finite = [level for level in self.calibration.levels if level.threshold < math.inf]
        if not finite:
            return "No finite threshold keeps the promise"
        levels = words.listed([words.percent(level.confidence_level) for level in finite])
        sure = ", on average"
        if self.plan.criterion == "conditional":
            sure = f", with {words.certainty(self.plan.delta)} certainty"
        return f"Prediction sets that hold the truth for at least {levels} of new cases{sure}"

    def _promise(self) -> Markup:
        cards = [self._card(i) for i in range(len(self.laws))]
        return _section(
            "What is promised",
            tag(
                "p",
                f"{words.count(self.calibration.n_answers, 'site')} with "
                f"{words.count(self.n_points, 'calibration case')} in all agreed on a threshold q for one "
                "shared model, without sharing the cases. With it, every prediction of the model becomes a "
                "prediction set.",
                class_="lead",
            ),
            tag("div", *cards, class_="cards"),
            *self._meaning(),
        )

    def _meaning(self) -> Iterator[Markup]:
        if min(self.calibration.thresholds) < math.inf:
            yield tag("p", words.set_rule(self.plan.score.name if self.plan.score else None))
            yield tag("p", words.average_of_what(self.plan.criterion))

    def _card(self, i: int) -> Markup:
        found, law = self.calibration.levels[i], self.laws[i]
        number = tag(
            "p",
            tag("span", "threshold q", class_="unit"),
            tag("span", words.threshold_text(found.threshold), class_="value"),
            class_="threshold",
        )
        if found.threshold == math.inf:
            return tag("div", number, *self._infinite(i), class_="card warning")
        promised = words.promise(found.confidence_level, self.plan.criterion, self.plan.delta)
        return tag(
            "div", number, tag("p", promised, class_="promised"), tag("p", words.luck(law)), class_="card"
        )

    def _infinite(self, i: int) -> Iterator[Markup]:
        """Why a threshold is infinite, what that means, and what would help."""
        found = self.calibration.levels[i]
        yield tag(
            "p",
            f"At {words.percent(found.confidence_level)} every prediction set holds everything. It is never "
            "wrong, and it says nothing.",
            class_="promised",
        )
        if found.advice is None:
            yield tag("p", "The report that the server had to keep was itself infinite.")
            return
        advice = found.advice
        ways = [
            *([f"{advice.n_points:,} points at every site"] if advice.n_points else []),
            *([f"{advice.n_sites:,} sites of the smallest size"] if advice.n_sites else []),
            *([f"a privacy loss ε of {advice.epsilon:g}"] if advice.epsilon else []),
        ]
        what = f"It would take {' or '.join(ways)}." if ways else "The search found no size that would do."
        yield tag("p", f"No choice of reports from these sites could reach the level. {what}")

    def _cost(self) -> Markup:
        plan = self.plan
        numbers = "one number" if len(plan.levels) == 1 else f"{len(plan.levels)} numbers"
        says = [f"Each site gave away {numbers} and how many cases it has. Nothing else left any site."]
        if plan.privacy is None:
            says.append(
                "The number is the score of one calibration case, exact to the last digit: the reports are "
                "not differentially private."
            )
        else:
            rule = plan.privacy
            says += [
                f"The number is not a score but one of {len(rule.edges):,} public bins, drawn at random around "
                f"one: each report is {rule.epsilon:g}-differentially private for the records behind it, if "
                "the site kept its ledger.",
                words.privacy_factor(rule.epsilon),
                "The promise above holds with this noise counted in.",
            ]
        if self.calibration.aggregated is not None:
            says.append("The server saw the sum of all answers, not who sent which.")
        says += self._compared()
        return _section("What it cost", tag("ul", *(tag("li", each) for each in says)))

    def _compared(self) -> Iterator[str]:
        """Staying apart, compared with pooling all cases."""
        for found, law in zip(self.calibration.levels, self.laws, strict=True):
            pool = words.equivalent_pool(law)
            if pool is None or found.threshold == math.inf:
                continue
            pooled = self._pooled(found.confidence_level)
            at = f"At {words.percent(found.confidence_level)}: " if len(self.laws) > 1 else ""
            spread = "The bound on the coverage spreads" if self._bounded else "The coverage spreads"
            yield (
                f"{at}{spread} as the coverage of about {words.count(pool, 'pooled case')} would; the sites have "
                f"{self.n_points:,}. Pooling all of them in one place would cover "
                f"{words.floor_percent(pooled.mean, digits=2)} on average, this covers "
                f"{'at least ' if self._bounded else ''}{words.floor_percent(law.mean, digits=2)}."
            )

    @property
    def _bounded(self) -> bool:
        """Whether the law is a lower bound and not the exact law."""
        return self.plan.privacy is not None or self.plan.max_faulty > 0

    def _assumptions(self) -> Markup:
        given = [tag("li", each) for each in self.calibration.assumptions]
        unseen = (
            "That the scores were computed as agreed, on cases that the model was not trained on.",
            "That new cases resemble the calibration cases. If they change, the promise is void.",
            "The promise is for new cases taken together, not for any one case or any one group of cases.",
        )
        return _section(
            "What it rests on",
            tag("p", "The promise holds if all of the following is true."),
            tag("ol", *given),
            tag("h3", "What no software can see"),
            tag("ul", *(tag("li", each) for each in unseen)),
        )

    # -- numbers ---------------------------------------------------------------------------------------

    def _law(self) -> Markup:
        pictures = [
            tag("figure", Markup(picture), tag("figcaption", self._caption(i)))
            for i in range(len(self.laws))
            if (picture := self._picture(i)) is not None
        ]
        rows = [self._law_row(i) for i in range(len(self.laws))]
        headers = ["level", "threshold q", "server’s rank", "mean", "std", "5 % quantile", "P(C ≥ level)"]
        return _section(
            "How far off it can be",
            tag(
                "p",
                "The share of new cases covered depends on which calibration cases the sites happened to "
                "have. Its law is known"
                + (" as a bound from below: " if self._bounded else ", for any model and any data: ")
                + "so is how likely an unlucky calibration was.",
            ),
            *pictures,
            table(headers, rows, numbers=frozenset(range(7)), caption="The law of the coverage, level by level"),
            *([tag("p", "Mean, 5 % quantile and probability are lower bounds; std is the spread of the bound "
                   "itself.", class_="note")] if self._bounded else []),
        )

    def _picture(self, i: int) -> str | None:
        found = self.calibration.levels[i]
        if found.threshold == math.inf:
            return None
        return law_picture(self.laws[i], beside=self._pooled(found.confidence_level), name=f"law-{i}")

    def _pooled(self, level: float) -> Summary:
        return Summary(baselines.coverage_law(self.n_points, level), level)

    def _caption(self, i: int) -> str:
        return (
            f"The law of the coverage at {words.percent(self.calibration.levels[i].confidence_level)}"
            f"{', as a lower bound' if self._bounded else ''}. The dark part is the unluckiest twentieth. Dashed: "
            f"pooling all {self.n_points:,} cases in one place."
        )

    def _law_row(self, i: int) -> list[str]:
        found, law = self.calibration.levels[i], self.laws[i]
        kept = f"{found.server_rank:,} of {self.calibration.n_answers:,}"
        return [
            words.percent(found.confidence_level),
            words.threshold_text(found.threshold),
            "none" if found.server_rank > self.calibration.n_answers else kept,
            words.floor_percent(law.mean, digits=2),
            f"{100 * law.std:.2f} %",
            words.floor_percent(law.unlucky, digits=2),
            words.floor_percent(law.reached),
        ]

    def _sites(self) -> Markup:
        calibration = self.calibration
        parts = [tag("p", self._who())]
        if calibration.answers:
            rows = [
                [answer.site, f"{answer.n:,}", _ranks(answer.ranks), _short(answer.report)]
                for answer in calibration.answers[:_MOST_SITES]
            ]
            headers = ["site", "cases", "rank sent", "report’s digest"]
            parts.append(table(headers, rows, numbers=frozenset({1, 2}), caption="Sites that answered"))
            if len(calibration.answers) > _MOST_SITES:
                rest = len(calibration.answers) - _MOST_SITES
                parts.append(tag("p", f"and {rest:,} more, all listed in the calibration.", class_="note"))
        for part in calibration.aggregated or ():
            text = f"{words.count(part.count, 'site')} of {part.n:,} cases, rank aimed at {_ranks(part.ranks)}"
            parts.append(tag("p", text))
        if calibration.refused:
            refused = [[refusal.source, refusal.reason] for refusal in calibration.refused[:_MOST_SITES]]
            parts += [
                tag("h3", "Refused"),
                tag("p", "These reports did not count."),
                table(["from", "reason"], refused, caption="Reports that were refused"),
            ]
        return _section("Who reported", *parts)

    def _who(self) -> str:
        calibration = self.calibration
        says = f"{words.count(calibration.n_answers, 'site')} answered"
        if not calibration.n_missing:
            says += "; none is missing." if self.plan.n_sites is not None else "."
        else:
            says += f"; {words.count(calibration.n_missing, 'site')} did not"
            named = list(calibration.missing[:_MOST_SITES])
            more = len(calibration.missing) - len(named)
            says += f": {words.listed(named)}{f' and {more:,} more' if more else ''}." if named else "."
        if self.plan.max_faulty:
            says += f" The promise allows for {words.count(self.plan.max_faulty, 'wrong report')}, in whatever way."
        signed = "Every report was signed with its site’s key." if calibration.authenticated else (
            "The reports were not signed."
        )
        return f"{says} {signed}"

    def _check(self) -> Markup:
        rows = [[check.name, check.found, "yes"] for check in self.checks]
        digests = [
            ["calibration", self.calibration.digest],
            ["plan", self.plan.digest],
        ]
        encoded = base64.b64encode((self.calibration.to_json() + "\n").encode()).decode()
        link = tag(
            "a", "Save calibration.json", href=f"data:application/json;base64,{encoded}", download="calibration.json"
        )
        return _section(
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
                " (once for each) recomputes the threshold itself. Without them the threshold is as the coordinator "
                "wrote it.",
            ),
            table(["document", "SHA-256 digest"], digests, caption="Digests"),
        )

    # -- formulas --------------------------------------------------------------------------------------

    def _formulas(self) -> Markup:
        private = self.plan.privacy is not None
        sites = (
            "P(X + 1 > R*) for X ~ Binomial(nⱼ, c), R* the proved bound on the rank of a private release"
            if private
            else "I(c; lⱼ, nⱼ − lⱼ + 1), the regularised incomplete beta function"
        )
        rows = [
            ["prediction set", "{ y : s(x, y) ≤ q }, s the score"],
            ["site j sends", "the lⱼ-th smallest of its nⱼ scores" + (", released privately" if private else "")],
            ["the server keeps", "q, the k-th smallest of what it received"],
            ["coverage given the data", "C = F(q), F the distribution function of the scores"],
            [
                "law",
                f"P(C ≤ c) {'≤' if self._bounded else '='} P(number of sites below the c-quantile ≥ k), "
                f"site j lying below with probability {sites}",
            ],
            ["promise", _formal(self.plan.criterion, self.plan.delta)],
        ]
        faulty = self.plan.max_faulty
        if faulty:
            rows.insert(5, ["wrong reports", f"the same with k − {faulty} for k and {faulty} sites fewer, the worst choice"])
        return _section(
            "Formulas",
            table(["what", "formula"], rows, caption="Formulas"),
            tag(
                "p",
                "P. Humbert, B. Le Bars, A. Bellet, S. Arlot: One-Shot Federated Conformal Prediction, ICML 2023. "
                f"Made by fedconformal {__version__}.",
                class_="note",
            ),
        )


def _section(title: str, *children: Markup) -> Markup:
    return tag("section", tag("h2", title), join(children))


def _ranks(ranks: Sequence[int]) -> str:
    return ", ".join(f"{rank:,}" for rank in ranks)


def _formal(criterion: str, delta: float | None) -> str:
    if criterion == "conditional":
        return f"P(C ≥ level) ≥ 1 − {delta:g}"
    return "E[C] ≥ level" + (", with E[(C − level)²] as small as can be" if criterion == "stable" else "")
