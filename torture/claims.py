"""Claims of random designs, true and false, of any size: what the audit says of them,
and whether it is so.

The votes and ranks of a design are drawn at random, far from what a plan would choose
or close to it. Small designs are judged by `laws`. Large ones have sites so large that
every number lies next to its share of the scores, and weights that no computation can
add up.
"""

import random
from fractions import Fraction

import fedconformal as fc
from fedconformal.audit import Finding, verify
from fedconformal.documents import (
    Calibration,
    CalibrationPart,
    Design,
    Level,
    Plan,
    RankLevel,
    Ranks,
    Received,
    SiteKind,
)
from fedconformal.pages._certificate import UnverifiedError
from torture._run import Section

_ASSUMED = ("alike", "ties", "as-planned", "not-authenticated")
_FAULTY = ("alike", "ties", "faulty", "not-authenticated")
_MARGIN = 1e-9  # within which floating point does not decide


def make_calibration(rng: random.Random, *, large: bool) -> Calibration:
    """Return a calibration that fits together, whose claim nobody has computed."""
    m = rng.randint(200, 400) if large else rng.randint(1, 7)
    share, numbers = rng.choice((0.3, 0.5, 0.7, 0.9)), rng.choice((1, 1, 2, 3))
    ranks, votes, sites = [], [], []
    for place in range(m):
        n = rng.randint(10**5, 10**6) if large else rng.randint(5, 60)
        first = max(1, min(n - 3, round(share * n) + rng.randint(-2, 2)))
        ranks.append(tuple(range(first, first + numbers)))
        votes.append(
            tuple(rng.randint(1, 2**19 if large else 3) for _ in range(numbers))
        )
        sites.append(SiteKind(count=1, n=n, names=(f"site {place:03}",)))
    total = sum(map(sum, votes))
    faulty = rng.choice((0, 0, min(2, (m - 1) // 2)))
    delta = rng.choice((None, None, Fraction(1, 10)))
    level = Fraction(rng.randint(1, 99), 100)
    design = Design(
        promise="population",
        criterion="marginal" if delta is None else "conditional",
        delta=delta,
        max_faulty=faulty,
        sites=tuple(sites),
        message=Ranks(levels=(RankLevel.of(tuple(ranks), tuple(votes)),)),
        levels=(Level(confidence_level=level, votes=rng.randint(1, total)),),
    )
    received = tuple(
        Received(site=name, report=f"sha256:{place:064x}")
        for place, name in enumerate(kind.names[0] for kind in sites)
    )
    return Calibration(
        plan=Plan(designs=(design,)),
        parts=(CalibrationPart(design=design, thresholds=(1.0,)),),
        reports=received,
        assumptions=_FAULTY if faulty else _ASSUMED,
    )


def judge(calibration: Calibration, *, large: bool) -> bool | None:
    """Return whether the claim is true, by the distributions of the package; None where
    it is too close.
    """
    (design,) = calibration.plan.designs
    level, data = design.levels[0], design.message.levels[0]
    if large:  # every number of a large site is next to its share of the scores
        shares = [
            rank / (kind.n + 1)
            for kind, own in zip(design.kinds, data.ranks, strict=True)
            for rank in own
        ]
        low, high = min(shares) - 0.02, max(shares) + 0.02
        lost = (
            sum(sorted(map(sum, data.all_votes()))[-design.max_faulty :])
            if design.max_faulty
            else 0
        )
        if (level.votes or 0) <= lost:
            return False
        if low < level.confidence_level < high:
            return None
        return low >= level.confidence_level
    law = fc.CoverageLaw(
        n_points=[kind.n for kind in design.kinds],
        local_rank=list(data.ranks),
        server_rank=level.votes,
        weights=list(data.all_votes()),
        max_faulty=design.max_faulty,
    )
    if design.delta is None:
        margin = law.mean() - float(level.confidence_level)
    else:
        margin = float(design.delta) - float(law.cdf(float(level.confidence_level)))
    return None if abs(margin) < _MARGIN else margin > 0


def find_coverage(findings: list[Finding]) -> bool | None:
    """Return what the audit says of the coverage."""
    (holds,) = {
        finding.holds
        for finding in findings
        if ": " in finding.claim and "votes" not in finding.claim
    }
    return holds


def claim(seed: int) -> int:
    """Verify one random design, and ask for its certificate."""
    rng = random.Random(seed)
    large = seed % 10 == 0
    calibration = make_calibration(rng, large=large)
    findings = verify(calibration)
    said, true = find_coverage(findings), judge(calibration, large=large)
    assert said in (None, true) or true is None, f"said to be {said}, and is {true}"
    assert said is not None or large or true is None, "a small design was not verified"
    try:
        fc.pages.certificate(calibration)
    except UnverifiedError:
        assert not all(finding.holds for finding in findings), (
            "a verified claim gets no certificate"
        )
    else:
        assert all(finding.holds for finding in findings), (
            "a certificate without a verified claim"
        )
    return 1


SECTION = Section(
    "claims",
    "random designs",
    "`verify` accepts no false claim and rejects no true one; no certificate without a"
    " verified claim",
    claim,
    runs=5_000,
    quick=20,
)
