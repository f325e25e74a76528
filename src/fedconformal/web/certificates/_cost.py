"""What a calibration cost: what each site gave away, and what staying apart costs in coverage."""

from collections.abc import Iterator

from fedconformal._text import ceiling_percent, count, floor_percent, percent
from fedconformal.scores import LabelScore
from fedconformal.web._html import Markup, listing, section
from fedconformal.web._privacy_loss import factor_sentence
from fedconformal.web._spread import equivalent_pool
from fedconformal.web._width import width_sentence
from fedconformal.web.certificates._claim import Certified, LevelClaim
from fedconformal.web.certificates._promise import known_score


def cost(it: Certified) -> Markup:
    """Return what was given away, and a comparison with pooling all cases."""
    compared = (sentence for level in it.levels for sentence in _compared(level))
    return section("What it cost", listing("ul", [*_given_away(it), *compared]))


def _given_away(it: Certified) -> Iterator[str]:
    numbers = _numbers(it)
    if it.plan.is_grouped:
        yield (
            f"For each group that it answered for, a site gave away {numbers} and how many cases of the "
            "group it has. Its report holds nothing else."
        )
    else:
        yield f"Each site gave away {numbers} and how many cases it has. Its report holds nothing else."
    yield from _not_private() if it.plan.privacy is None else _private(it)
    if any(claim.calibration.part.aggregated is not None for claim in it.claims):
        yield "The server saw the sum of all answers, not who sent which."


def _numbers(it: Certified) -> str:
    """How many numbers a site sent, or how many at the most where sites differ."""
    fewest = min(claim.numbers[0] for claim in it.claims)
    most = max(claim.numbers[1] for claim in it.claims)
    return "one number" if most == 1 else f"{'' if fewest == most else 'up to '}{most:,} numbers"


def _not_private() -> Iterator[str]:
    yield (
        "Such a number is the score of one calibration case, exact to the last digit: the reports are not "
        "differentially private."
    )


def _private(it: Certified) -> Iterator[str]:
    releases, epsilon = it.claims[0].plan.releases or (), float(it.plan.epsilon or 0)
    whose = "somebody with one case in every group" if it.plan.is_grouped else "the cases behind it"
    for release in releases[:1]:
        yield (
            f"Such a number is not a score but one of {release.n_bins:,} public bins, drawn at random around "
            f"one by {release.mechanism.words}: each report is {epsilon:g}-differentially private for "
            f"{whose}, if the site kept its ledger."
        )
    yield factor_sentence(epsilon)
    yield "The promise above holds with this noise counted in."
    yield from (sentence for level in it.levels for sentence in _wider(level))


def _wider(level: LevelClaim) -> Iterator[str]:
    """By how much noise and bins make sets larger; how much exactly depends on scores that nobody sends."""
    expected = level.expected_mean
    if expected is not None:
        yield (
            f"{level.where}Noise makes the sets larger. If scores lie evenly over the bins, expect them to "
            f"cover about {ceiling_percent(expected)} where {percent(level.level)} was asked for."
        )
        if not isinstance(known_score(level.claim.plan), LabelScore):
            yield width_sentence(expected, level.level)
    elif level.is_finite:
        yield f"{level.where}Noise makes the sets larger; by how much could not be told for this page."
    if (width := level.bin_width) is not None:
        yield (
            f"{level.where}The threshold is the upper end of a bin that begins {width:.3g} below it: bins "
            "alone raise a threshold by up to that much. The promise counts this in too."
        )


def _compared(level: LevelClaim) -> Iterator[str]:
    """Staying apart, compared with pooling all cases where that keeps the same promise."""
    law, pooled, claim = level.law, level.pooled, level.claim
    if law is None or pooled is None or not level.is_finite:
        return
    pool = equivalent_pool(law)
    if pool is None:
        return
    what, least = ("the bound on the coverage", "at least ") if claim.is_bound else ("the coverage", "")
    yield (
        f"{level.where}Keeping the cases apart costs precision: {what} varies as much as it would with "
        f"about {count(pool, 'pooled case')}, and the sites have {claim.n_points:,}. Pooling all of them in "
        f"one place would cover {floor_percent(pooled.mean, digits=2)} on average; this covers "
        f"{least}{floor_percent(law.mean, digits=2)}."
    )
