"""How far off a coverage can be: the laws as pictures and in numbers."""

from collections.abc import Iterator

from fedconformal._text import floor_percent, nearest_percent, percent, threshold_text
from fedconformal.web._html import Markup, join, section, table, tag
from fedconformal.web._picture import law_picture
from fedconformal.web.certificates._claim import Certified, LevelClaim
from fedconformal.web.certificates._marks import marks

MOST_PICTURES = 12
"""Laws drawn one by one; the table has all of them."""

_WIDE, _NARROW = 720, 340  # pixels: a desk and paper, or a phone

_NO_LAW = (
    "Sites may differ here in any way, so no law says how the share covered varies; it depends on how they "
    "differ. What is guaranteed is the mean, or at how many new sites the level is reached."
)

_COLUMNS = ("votes needed", "on average", "spread", "1 in 20 below", "reaches the level")

_ENDLESS = "Every prediction set holds everything, so every new case is covered, whatever happens."


def law(it: Certified) -> Markup:
    """Return the laws of all levels, group by group."""
    known = "known as a bound from below" if it.is_bound else "known exactly"
    if not any(claim.promise.has_law for claim in it.claims):
        return section("How far off it can be", tag("p", _NO_LAW), _table(it))
    if not any(level.is_finite for level in it.levels):
        return section("How far off it can be", tag("p", _ENDLESS), _table(it))
    return section(
        "How far off it can be",
        tag(
            "p",
            "The share of new cases covered depends on which calibration cases the sites happened to have. "
            f"Its law is {known}, for any model and any data, and so is how likely the share was to come out "
            "low.",
        ),
        *_figures(it),
        _table(it),
        *_bound_note(it),
        *_not_shown(it),
        *(tag("p", note, class_="note") for note in _law_notes(it)),
    )


def _figures(it: Certified) -> Iterator[Markup]:
    drawn = [level for level in it.levels if level.is_finite and level.law is not None]
    yield from (_figure(level, f"law-{i}") for i, level in enumerate(drawn[:MOST_PICTURES]))
    if len(drawn) > MOST_PICTURES:
        more = len(drawn) - MOST_PICTURES
        yield tag("p", f"{more:,} more are not drawn; the table has all of them.", class_="note")


def _law_notes(it: Certified) -> Iterator[str]:
    """What the laws do not contain."""
    return filter(None, dict.fromkeys(claim.promise.law_note for claim in it.claims))


def _bound_note(it: Certified) -> Iterator[Markup]:
    if it.is_bound:
        yield tag(
            "p",
            "The average, the figure for 1 in 20 and the chance to reach the level are lower bounds; the "
            "spread is that of the bound itself.",
            class_="note",
        )


def _not_shown(it: Certified) -> Iterator[Markup]:
    """That some laws would take too long."""
    left = sum(level.is_answered and level.law is None for level in it.levels)
    if left:
        laws = "The law of 1 level is" if left == 1 else f"The laws of {left:,} levels are"
        yield tag("p", f"{laws} not shown: that would take too long for this page.", class_="note")


def _figure(level: LevelClaim, name: str) -> Markup:
    assert level.law is not None
    drawn = [
        law_picture(level.law, pooled=level.pooled, is_bound=level.claim.is_bound, width=width, name=each)
        for width, each in ((_WIDE, name), (_NARROW, f"{name}-narrow"))
    ]
    both = (
        tag("div", Markup(picture or ""), class_=where)
        for picture, where in zip(drawn, ("wide", "narrow"), strict=True)
    )
    shown = tag("figure", *both, tag("figcaption", _caption(level)))
    return shown if drawn[0] is None else join([marks(level, level.law), shown])


def _caption(level: LevelClaim) -> str:
    claim = level.claim
    group = "" if claim.label is None else f" for the {claim.group}"
    pooled = f" Dashed: pooling all {claim.n_points:,} cases in one place." if level.pooled else ""
    return (
        f"The law of the coverage at {percent(level.level)}{group}"
        f"{', as a lower bound' if claim.is_bound else ''}. The deeper shade is the lowest twentieth.{pooled}"
    )


def _table(it: Certified) -> Markup:
    # With groups there is no room for the threshold, which has all its digits; the cards have it.
    first = ("group", "level") if it.plan.is_grouped else ("level", "threshold q")
    rows = [[*_place(level), *_figures_of(level)] for level in it.levels]
    numbers = ("level", "threshold q", *_COLUMNS)
    caption = "The law of the coverage, level by level"
    return table((*first, *_COLUMNS), rows, numbers=numbers, caption=caption)


def _guaranteed(level: LevelClaim) -> list[str]:
    """What is known where there is no law."""
    if level.found.server_rank is None:
        return ["too few answers", *["–"] * 4]
    found = level.claim.calibration.designs[level.index].guarantee()
    mean = "–" if found.mean is None else f"{floor_percent(found.mean, digits=2)} or more"
    sites = (
        "–" if found.probability is None else f"at {floor_percent(found.probability)} of new sites or more"
    )
    return [level.votes, mean, "–", "–", sites]


def _place(level: LevelClaim) -> tuple[str, str]:
    if level.claim.label is None:
        return percent(level.level), threshold_text(level.found.threshold)
    return level.claim.label, percent(level.level)


def _figures_of(level: LevelClaim) -> list[str]:
    if not level.claim.promise.has_law:
        return _guaranteed(level)
    if not level.is_answered:
        return ["too few answers", *["–"] * 4]
    if level.law is None:
        return [level.votes, *["–"] * 4]
    law = level.law
    return [
        level.votes,
        floor_percent(law.mean, digits=2),
        nearest_percent(law.std, digits=2),
        floor_percent(law.low, digits=2),
        floor_percent(law.reached),
    ]
