"""Random claims to sites that differ, and sites that make them as hard to keep as they
can be.

The votes and ranks of a design are drawn at random. A claim that the audit accepts must
hold where the scores of sites do not overlap: all scores of one site lie above those of
another, so that one site alone decides, or new sites have either low scores or high
ones. There the coverage is known exactly.
"""

import math
import random
from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate, permutations

from scipy import special

from fedconformal.audit import verify
from fedconformal.documents import (
    Calibration,
    CalibrationPart,
    Cases,
    Design,
    Level,
    Plan,
    RankLevel,
    RankRule,
    Ranks,
    Received,
    SiteKind,
    Terms,
)
from torture._run import Section
from torture.claims import find_coverage

_ASSUMED = {
    "each-site": "each-site-alike",
    "mixture": "known-mixture",
    "new-site": "sites-exchangeable",
}
_MARGIN = 1e-9  # within which floating point does not decide


def make_calibration(rng: random.Random) -> Calibration:
    """Return a calibration that fits together, whose claim nobody has computed."""
    promise, m = rng.choice(list(_ASSUMED)), rng.randint(1, 5)
    delta = (
        None
        if promise == "mixture" or rng.random() < 0.5
        else Fraction(rng.choice((1, 3)), 10)
    )
    if promise == "new-site":
        m = rng.choice((3, 10, 30, 100))
    level, draws = (
        Fraction(rng.choice((3, 6, 8, 9)), 10),
        promise == "new-site" and delta is None,
    )
    names, numbers = (
        [f"site {i:03}" for i in range(m)],
        rng.choice((1, 3)) if promise == "mixture" else 1,
    )
    weights = [rng.randint(1, 5) for _ in names]
    n_equal = rng.randint(20, 60)
    sites, ranks, votes = [], [], []
    for name, weight in zip(names, weights, strict=True):
        n = n_equal if promise == "new-site" else rng.randint(5, 60)
        own = {
            min(n, max(1, math.ceil(level * (n + 1)) + rng.randint(-1, 3)))
            for _ in range(numbers)
        }
        share = Fraction(weight, sum(weights)) if promise == "mixture" else None
        sites.append(SiteKind(count=1, n=n, names=(name,), share=share))
        ranks.append(tuple(sorted(own)))
        votes.append(
            tuple(rng.randint(1, 9) for _ in own) if promise == "mixture" else (1,)
        )
    eta = (
        Fraction(rng.randint(50, 99), 100)
        if promise == "new-site" and not draws
        else None
    )
    if eta is not None:
        above = [
            rank
            for rank in range(1, n_equal + 1)
            if _above(rank, n_equal, level) >= eta + _MARGIN
        ]
        ranks = [(min(above, default=n_equal + 1),)] * m
    total = rng.choice((1, 3)) if draws else 1
    message = (
        Cases(numbers=total)
        if draws
        else Ranks(
            levels=(
                RankLevel.of(tuple(ranks), tuple(votes), eta and RankRule(eta=eta)),
            )
        )
    )
    most = m * total if draws else sum(map(sum, votes))
    needed = most if rng.random() < 0.5 else rng.randint(max(1, most - 5), most)
    design = Design(
        promise=promise,
        criterion="marginal" if delta is None else "conditional",
        delta=delta,
        sites=tuple(sites),
        message=message,
        levels=(Level(confidence_level=level, votes=needed),),
    )
    terms = Terms(round=f"{rng.getrandbits(128):032x}") if draws else Terms()
    return Calibration(
        plan=Plan(designs=(design,), terms=terms),
        parts=(CalibrationPart(design=design, thresholds=(1.0,)),),
        reports=tuple(
            Received(site=name, report=f"sha256:{i:064x}")
            for i, name in enumerate(names)
        ),
        assumptions=(_ASSUMED[promise], "ties", "as-planned", "not-authenticated"),
    )


def _above(rank: int, n: int, level: Fraction) -> float:
    """Return the probability that the score of a rank lies above the level-quantile."""
    return float(special.betaincc(rank, n - rank + 1, float(level)))


def hardest(design: Design) -> Iterator[tuple[Fraction | float, str]]:
    """Yield by how much a promise is kept, below 0 if it is not, at sites that make
    that hard.
    """
    level, votes, m = (
        design.levels[0].confidence_level,
        design.levels[0].votes or 0,
        len(design.kinds),
    )
    if design.promise == "new-site":
        numbers = design.message.numbers if isinstance(design.message, Cases) else 1
        for percent in range(1, 100):
            high = percent / 100  # share of sites whose scores are all high
            fewest = -(
                -votes // numbers
            )  # sites with low scores for which the threshold is low
            low_threshold = (
                float(special.bdtrc(fewest - 1, m, 1 - high)) if fewest <= m else 0.0
            )
            missed = (
                high * low_threshold
            )  # a new site with high scores is then not covered at all
            allowed = float(1 - level if design.delta is None else design.delta)
            yield allowed - missed, f"{percent} % of sites have high scores"
        return
    data = design.message.levels[0]
    rows = list(zip(design.kinds, data.ranks, data.all_votes(), strict=True))
    for order in permutations(rows):
        remaining, covered = votes, Fraction(0)
        for kind, ranks, own in order:
            reaching = (
                rank
                for rank, cast in zip(ranks, accumulate(own), strict=True)
                if cast >= remaining
            )
            rank = next(reaching, kind.n + 1)
            at_site = Fraction(rank, kind.n + 1)
            covered += (kind.share or 0) * (at_site if remaining > 0 else 0)
            if design.promise == "each-site" and remaining <= 0:
                yield Fraction(-1), "a site lies above the threshold"
            if design.promise == "each-site" and 0 < remaining <= sum(own):
                missed = 1 - _above(rank, kind.n, level)
                kept = (
                    at_site - level
                    if design.delta is None
                    else float(design.delta) - missed
                )
                yield kept, f"{kind.names[0]} is the highest"
            remaining -= sum(own)
        if design.promise == "mixture":
            yield (
                covered - level,
                (
                    "scores rise in the order"
                    f" {', '.join(row[0].names[0] for row in order)}"
                ),
            )


def trial(seed: int) -> int:
    """Verify one random design, and look for sites at which it fails."""
    calibration = make_calibration(random.Random(seed))
    accepted = find_coverage(verify(calibration))
    if accepted:
        margin, where = min(hardest(calibration.plan.designs[0]))
        assert margin >= -_MARGIN, (
            f"accepted, and missed by {float(-margin):.3g} where {where}"
        )
    return 1


SECTION = Section(
    "promises",
    "random claims to sites that differ",
    "what `verify` accepts holds where the scores of sites do not overlap",
    trial,
    runs=5_000,
    quick=100,
)
