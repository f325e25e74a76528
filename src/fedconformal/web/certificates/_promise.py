"""What is promised, in plain words: the first thing that is read."""

from collections.abc import Iterator

from fedconformal import scores
from fedconformal._text import count, floor_percent, listed, nearest_percent, percent, threshold_text
from fedconformal.documents import Plan
from fedconformal.web._html import Markup, section, tag
from fedconformal.web._spread import low_sentence
from fedconformal.web.certificates._claim import Certified, LevelClaim
from fedconformal.web.certificates._sites import short

_MOST_SITES, _MOST_CHANCES = 20, 4


def header(it: Certified) -> Markup:
    """Return the headline, and which calibration it is about."""
    digest = tag("code", short(it.calibration.digest))
    return headed(it, tag("p", "Calibration ", digest, "; the whole digest is at the end"))


def headed(it: Certified, which: Markup) -> Markup:
    """Return the headline with its chance, above which calibration it is."""
    kicker = tag("p", "Calibration certificate", class_="kicker")
    return tag("header", kicker, tag("h1", _headline(it)), *_chance(it), which)


def _chance(it: Certified) -> Iterator[Markup]:
    """How likely this very calibration reaches each level, or that it is not known."""
    said = [*_known_chances(it), *_unknown_chances(it)]
    if said:
        yield tag("p", " ".join(["Calibrations like this one come out differently.", *said]), class_="chance")


def _unknown_chances(it: Certified) -> Iterator[str]:
    finite = [level for level in it.levels if level.is_finite]
    unlike = sum(not level.claim.promise.has_law for level in finite)
    left = sum(level.law is None for level in finite) - unlike
    of = {True: "this one reaches its level", False: "each of them reaches its level"}[len(finite) == 1]
    if unlike:
        yield (
            f"How likely {of} cannot be told, because sites may differ in any way; what is promised does not "
            "depend on how they differ."
        )
    if left:
        others = "" if left == len(finite) else f" for {count(left, 'other threshold')}"
        yield f"How likely {of} was not computed{others}: that would take too long for this page."


def _known_chances(it: Certified) -> Iterator[str]:
    """Where there is a law; of many chances, the least."""
    finite = ((level, level.law) for level in it.levels if level.is_finite)
    known = [(level, law.reached) for level, law in finite if law is not None and not law.is_certain]
    if not known:
        return
    each = [f"{_reached(level)}{floor_percent(chance)}" for level, chance in known[:_MOST_CHANCES]]
    said = f"this one covers {listed([each[0], *(f'that it covers {other}' for other in each[1:])])}"
    if len(known) > _MOST_CHANCES:
        least = floor_percent(min(chance for _, chance in known))
        said = f"this one reaches its level is at least {least} for each of {len(known):,} thresholds"
    yield f"The chance that {said}."


def _reached(level: LevelClaim) -> str:
    """What is covered where a level is reached, and whether the chance of it is a bound."""
    group = "" if level.claim.label is None else f" of the {level.claim.group}"
    among = level.claim.promise.among
    return f"{percent(level.level)} or more{group}{among} is {'at least ' if level.claim.is_bound else ''}"


def _headline(it: Certified) -> str:
    kept = [claim for claim in it.claims if claim.finite_levels]
    if not kept:
        return "No finite threshold keeps the promise"
    said = {
        (
            claim.finite_levels,
            claim.promise.whose,
            claim.promise.surety(claim.criterion, claim.plan.delta),
            claim.promise.condition if claim.promise.pools else "",  # others name theirs in whose cases
        )
        for claim in kept
    }
    if len(said) > 1:
        return f"Prediction sets with a promise of its own for each of {it.plan.grouping.counted(len(kept))}"
    levels, whose, *sure = said.pop()
    covered = f"Prediction sets that hold the truth for at least {levels} of {whose}"
    return ", ".join([covered + _in_groups(it, len(kept)), *filter(None, sure)])


def _in_groups(it: Certified, n_kept: int) -> str:
    """In which groups the promise is kept with a finite threshold."""
    if not it.plan.is_grouped:
        return ""
    if len(it.claims) == 1:
        return f" of the {it.claims[0].group}"
    groups = it.plan.grouping.counted(len(it.claims))
    return f" in each of {groups}" if n_kept == len(it.claims) else f" in {n_kept} of {groups}"


def promise(it: Certified) -> Markup:
    """Return the thresholds, what each promises, and what that means."""
    return section(
        "What is promised",
        tag("p", *_lead(it), class_="lead"),
        *_not_counted(it),
        tag("div", *(_card(level) for level in it.levels), class_="cards"),
        *(tag("p", each) for each in _meaning(it)),
    )


def _lead(it: Certified) -> Iterator[str]:
    own = " of that class" if it.plan.grouping.by_class else " of its group" if it.plan.is_grouped else ""
    each = f" for each of {it.plan.grouping.counted(len(it.claims))} of cases," if it.plan.is_grouped else ""
    yield f"{count(it.calibration.n_answers, 'site')} with {count(it.n_points, 'calibration case')} in all "
    yield f"agreed on a threshold q{each} for one shared model, without sharing the cases. With it, every "
    yield f"prediction of the model becomes a prediction set: {_kind_of_set(it.plan)}. The score of a case "
    yield f"says how far off the model was; a set holds every outcome whose score would be at most q{own}."


def _kind_of_set(plan: Plan) -> str:
    score = known_score(plan)
    if score is None:
        return "an interval of values, or a list of labels"
    return "a list of labels" if isinstance(score, scores.LabelScore) else "an interval of values"


def _not_counted(it: Certified) -> Iterator[Markup]:
    if it.not_counted:
        yield tag(
            "p",
            f"{count(it.not_counted, 'claim')} of this calibration could not be counted again: see “How to "
            "check it”.",
            class_="warning",
        )


def _meaning(it: Certified) -> Iterator[str]:
    """How a threshold becomes a set, and what the promise runs over."""
    finite = [level.claim for level in it.levels if level.is_finite]
    if finite:
        yield set_sentence(it.plan) + (" Each label has its own q." if it.plan.grouping.by_class else "")
        yield from _shares(it.plan)
        yield from dict.fromkeys(claim.promise.runs_over(claim.criterion) for claim in finite)


def _shares(plan: Plan) -> Iterator[str]:
    """How often new cases come from each site, where the promise is for a mixture."""
    shares = None if plan.is_grouped else plan.mixture
    if isinstance(shares, dict) and len(shares) <= _MOST_SITES:
        each = [f"{site} {nearest_percent(float(share))}" for site, share in shares.items()]
        yield f"New cases come from the sites with these shares: {listed(each)}."
    elif shares is not None:
        yield "New cases come from the sites with the shares that the plan lists."


def set_sentence(plan: Plan) -> str:
    """Return how a prediction becomes a set, as the plan's score says it.

    Parameters
    ----------
    plan : Plan
        Which may name a score that is not installed here, or none.

    Returns
    -------
    str
        A sentence.
    """
    if plan.score is None:
        return "Which score the sites used is not part of the plan; ask the coordinator."
    score = known_score(plan)
    if score is None:
        return (
            f"The score of the plan, {plan.score.name}, is not one that is known here; ask the coordinator."
        )
    return score.set_words()


def known_score(plan: Plan) -> scores.Score | None:
    """Return the score of a plan; None where it names none, or one that is not installed here."""
    if plan.score is None:
        return None
    try:
        return scores.from_name(plan.score.name, **plan.score.parameters)
    except (TypeError, ValueError):
        return None


# -- one threshold -----------------------------------------------------------------------------------------


def _card(level: LevelClaim) -> Markup:
    claim, found = level.claim, level.found
    content = [
        *([] if claim.label is None else [tag("h3", claim.where)]),
        tag(
            "p",
            tag("span", "threshold q", class_="unit"),
            tag("span", threshold_text(found.threshold), class_="value"),
            *_unit(level),
            class_="threshold",
        ),
        *(_kept(level) if level.is_finite else _endless(level)),
    ]
    return tag("div", *content, class_="card" if level.is_finite else "card warning")


def _kept(level: LevelClaim) -> Iterator[Markup]:
    """What a finite threshold promises."""
    claim = level.claim
    group = "" if claim.label is None else f" of the {claim.group}"
    promised = claim.promise.sentence(claim.criterion, level.level, claim.plan.delta, group)
    yield tag("p", promised, class_="promised")
    if level.law is not None:
        yield tag("p", low_sentence(level.law, claim.promise.among))
    if example := _example(level):
        yield tag("p", example)


def _example(level: LevelClaim) -> str:
    """What a set looks like with this threshold, where the score is known here."""
    plan = level.claim.calibration.published.plan
    score = known_score(plan)
    said = "" if score is None else score.example(level.found.threshold, _told_unit(plan))
    own = " This is for labels of this class; others have thresholds of their own."
    return said + own if said and plan.grouping.by_class else said


def _unit(level: LevelClaim) -> Iterator[Markup]:
    """The unit of a finite threshold, where scores have one and it was told."""
    plan = level.claim.calibration.published.plan
    score, unit = known_score(plan), _told_unit(plan)
    if unit and level.is_finite and score is not None and score.has_unit:
        yield tag("span", unit, class_="unit")


def _told_unit(plan: Plan) -> str:
    return "" if plan.facts is None else plan.facts.unit or ""


def _endless(level: LevelClaim) -> Iterator[Markup]:
    """What an infinite threshold means, why it is, and what would help."""
    yield tag(
        "p",
        f"At {percent(level.level)} every prediction set holds everything. It is never wrong, and it says "
        "nothing.",
        class_="promised",
    )
    yield tag("p", _why_endless(level))


def _why_endless(level: LevelClaim) -> str:
    if not level.is_answered:
        return _too_few(level)
    if level.found.advice is None:
        return "The report that the server had to keep was itself infinite."
    advice = level.found.advice
    ways = [
        *([f"{count(advice.n_points, 'case')} at every site"] if advice.n_points else []),
        *([f"{count(advice.n_sites, 'site')} of the smallest size"] if advice.n_sites else []),
        *([f"a privacy loss ε of {advice.epsilon:g}"] if advice.epsilon else []),
    ]
    what = f"It would take {' or '.join(ways)}." if ways else "The search found no size that would do."
    return f"No choice of reports from these sites could reach the level. {what}"


def _too_few(level: LevelClaim) -> str:
    calibration, plan = level.claim.calibration, level.claim.plan
    answered = count(calibration.n_answers, "site") if calibration.n_answers else "No site"
    needed = count(plan.fewest_answers, "answer")
    verb = "is" if plan.fewest_answers == 1 else "are"
    return " ".join([f"{answered} answered for it, and {needed} {verb} needed.", *plan.problems])
