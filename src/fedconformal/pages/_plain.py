"""The certificate's first half, in plain words: what is promised, what it cost, what it rests on."""

import math
from collections.abc import Iterator

from fedconformal.pages import _words as words
from fedconformal.pages._html import Markup, tag
from fedconformal.pages._subject import Subject, section


def header(it: Subject) -> Markup:
    return tag(
        "header",
        tag("p", "Calibration certificate", class_="kicker"),
        tag("h1", _headline(it)),
        tag("p", "Certificate of the calibration with digest ", tag("code", it.calibration.digest)),
    )


def _headline(it: Subject) -> str:
    finite = [level for level in it.calibration.levels if level.threshold < math.inf]
    if not finite:
        return "No finite threshold keeps the promise"
    levels = words.listed([words.percent(level.confidence_level) for level in finite])
    sure = ", on average"
    if it.plan.criterion == "conditional":
        sure = f", with {words.certainty(it.plan.delta)} certainty"
    return f"Prediction sets that hold the truth for at least {levels} of {it.whose}{sure}"


def promise(it: Subject) -> Markup:
    cards = [_card(it, i) for i in range(len(it.laws))]
    return section(
        "What is promised",
        tag(
            "p",
            f"{words.count(it.calibration.n_answers, 'site')} with "
            f"{words.count(it.n_points, 'calibration case')} in all agreed on a threshold q for one "
            "shared model, without sharing the cases. With it, every prediction of the model becomes a "
            "prediction set: an interval of values, or a list of labels. The score of a case says how far "
            "off the model was; a set holds every outcome whose score would be at most q.",
            class_="lead",
        ),
        tag("div", *cards, class_="cards"),
        *_meaning(it),
    )


def _meaning(it: Subject) -> Iterator[Markup]:
    if min(it.calibration.thresholds) < math.inf:
        yield tag("p", words.set_rule(it.plan.score.name if it.plan.score else None))
        yield tag("p", words.average_of_what(it.plan.criterion))


def _card(it: Subject, i: int) -> Markup:
    found, law = it.calibration.levels[i], it.laws[i]
    number = tag(
        "p",
        tag("span", "threshold q", class_="unit"),
        tag("span", words.threshold_text(found.threshold), class_="value"),
        class_="threshold",
    )
    if found.threshold == math.inf:
        return tag("div", number, *_infinite(it, i), class_="card warning")
    promised = words.promise(found.confidence_level, it.plan.criterion, it.plan.delta, it.whose)
    luck = words.luck(law, it.whose)
    return tag("div", number, tag("p", promised, class_="promised"), tag("p", luck), class_="card")


def _infinite(it: Subject, i: int) -> Iterator[Markup]:
    """Why a threshold is infinite, what that means, and what would help."""
    found = it.calibration.levels[i]
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


def cost(it: Subject) -> Markup:
    plan = it.plan
    numbers = "one number" if len(plan.levels) == 1 else f"{len(plan.levels)} numbers"
    says = [f"Each site gave away {numbers} and how many cases it has. Its report holds nothing else."]
    if plan.privacy is None:
        says.append(
            "Such a number is the score of one calibration case, exact to the last digit: the reports are "
            "not differentially private."
        )
    else:
        rule = plan.privacy
        says += [
            f"Such a number is not a score but one of {len(rule.edges):,} public bins, drawn at random "
            f"around one: each report is {rule.epsilon:g}-differentially private for the records behind it, "
            "if the site kept its ledger.",
            words.privacy_factor(rule.epsilon),
            "The promise above holds with this noise counted in.",
        ]
    if it.calibration.aggregated is not None:
        says.append("The server saw the sum of all answers, not who sent which.")
    says += _compared(it)
    return section("What it cost", tag("ul", *(tag("li", each) for each in says)))


def _compared(it: Subject) -> Iterator[str]:
    """Staying apart, compared with pooling all cases; a promise to each site compares with nothing pooled."""
    if it.each_site:
        return
    for found, law in zip(it.calibration.levels, it.laws, strict=True):
        pool = words.equivalent_pool(law)
        if pool is None or found.threshold == math.inf:
            continue
        pooled = it.pooled(found.confidence_level)
        at = f"At {words.percent(found.confidence_level)}: " if len(it.laws) > 1 else ""
        spread = "The bound on the coverage spreads" if it.bounded else "The coverage spreads"
        yield (
            f"{at}{spread} as the coverage of about {words.count(pool, 'pooled case')} would; the sites have "
            f"{it.n_points:,}. Pooling all of them in one place would cover "
            f"{words.floor_percent(pooled.mean, digits=2)} on average, this covers "
            f"{'at least ' if it.bounded else ''}{words.floor_percent(law.mean, digits=2)}."
        )


def assumptions(it: Subject) -> Markup:
    given = [tag("li", each) for each in it.calibration.assumptions]
    unseen = (
        "That the scores were computed as agreed, on cases that the model was not trained on.",
        "That new cases resemble the calibration cases. If they change, the promise is void.",
        f"The promise is for {it.whose} taken together, not for any one case or any one group of cases.",
    )
    return section(
        "What it rests on",
        tag("p", "The promise holds if all of the following is true."),
        tag("ol", *given),
        tag("h3", "What no software can see"),
        tag("ul", *(tag("li", each) for each in unseen)),
    )
