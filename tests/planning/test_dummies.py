"""Sites that can never change the threshold are not asked, and only those."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.audit import verify
from fedconformal.planning import PROMISES, Block, Design, Exact, Goal
from fedconformal.planning._dummies import matters
from fedconformal.planning._exact import _asked
from fedconformal.protocol._calibrate import smallest_with


def decides(weights, numbers, counts, votes, block):
    """Every way in which the other sites' numbers may lie below, one after the other."""
    others = [b for b, count in enumerate(counts) for _ in range(count - (b == block))]
    for below in product(*(range(numbers[b] + 1) for b in others)):
        cast = sum(weights[b] * i for b, i in zip(others, below, strict=True))
        if cast < votes <= cast + weights[block] * numbers[block]:
            return True
    return False


def test_every_configuration_of_votes_agrees():
    rng, seen = np.random.default_rng(0), set()
    for _ in range(400):
        blocks = int(rng.integers(1, 4))
        weights, numbers = rng.integers(1, 9, size=blocks), rng.integers(0, 4, size=blocks)
        counts = rng.integers(1, 3, size=blocks)
        total = int((weights * numbers * counts).sum())
        votes = int(rng.integers(1, total + 2))
        found = matters(weights, numbers, counts, votes).tolist()
        expected = [decides(weights, numbers, counts, votes, b) for b in range(blocks)]
        seen.update(expected)
        assert found == expected, (weights, numbers, counts, votes)
    assert seen == {True, False}


def test_without_them_every_threshold_is_the_same():
    """The numbers of such sites, whatever they are, and no numbers at all."""
    rng, left_out = np.random.default_rng(1), 0
    for _ in range(400):
        m, r = int(rng.integers(2, 6)), int(rng.integers(1, 4))
        weights = rng.integers(1, 9, size=m)
        votes = int(rng.integers(1, r * weights.sum() + 1))
        needed = matters(weights, np.full(m, r), np.ones(m, dtype=int), votes)
        left_out += int((~needed).sum())
        values = np.sort(rng.integers(0, 8, size=(m, r)), axis=1).astype(float)
        values[rng.random((m, r)) < 0.1] = np.inf
        ballots = [[(float(v), int(w)) for v in row] for row, w in zip(values, weights, strict=True)]
        everybody = [pair for site in ballots for pair in site]
        those = [pair for site, here in zip(ballots, needed, strict=True) if here for pair in site]
        assert smallest_with(those, votes) == smallest_with(everybody, votes)
    assert left_out > 40


def test_too_many_votes_to_list_are_taken_as_needed():
    """Certainty is needed to leave a site out."""
    weights = np.array([10**6, 1])
    assert matters(weights, np.ones(2, dtype=int), np.ones(2, dtype=int), 10**6).tolist() == [True, True]


def test_nobody_is_left_out_where_a_site_has_numbers_of_different_votes():
    """Seven votes of the first site and one of the second make eight: no multiple of four says so."""
    blocks = (Block(1, 200, (176, 180, 182, 184, 188), (4, 3, 2, 3, 4)), Block(1, 20, (18,), (1,)))
    design = Design(Goal(Fraction(9, 10)), PROMISES["population"](), Exact(5), blocks, 8)
    assert _asked(design) is design


class TestInARound:
    SIZES = {"small": 20, "large": 400}  # noqa: RUF012

    @pytest.fixture(scope="class")
    @classmethod
    def plan(cls):
        """The large site by itself is sharper than any vote of both."""
        return fc.plan(n_points=cls.SIZES, confidence_level=0.8, max_missing=0)

    @pytest.fixture(scope="class")
    @classmethod
    def report(cls, plan):
        return fc.report(plan, np.random.default_rng(0).random(400), site="large")

    def test_the_plan_says_who_is_not_asked(self, plan):
        assert plan.local_ranks[0] == ()
        assert plan.blocks[0].ranks == ((),)
        assert plan.part.asked_names == ("large",)
        assert (plan.part.n_asked, plan.n_sites) == (1, 2)
        assert "1 site is not asked, as its answer could not change any threshold: small." in plan.notes
        assert fc.Plan.from_json(plan.to_json()) == plan

    def test_a_report_is_refused_in_one_line(self, plan):
        with pytest.raises(ValueError, match="does not ask site 'small'") as caught:
            fc.report(plan, np.arange(20.0), site="small")
        assert "\n" not in str(caught.value)

    def test_a_report_that_comes_all_the_same_does_not_count(self, plan, report):
        part = report.parts[0].model_copy(
            update={"n": 20, "levels": (fc.documents.Sent(ranks=(20,), values=(0.1,)),)}
        )
        forged = report.model_copy(update={"site": "small", "parts": (part,)})
        with pytest.raises(fc.RefusedReportsError, match="small: the plan does not ask this site"):
            fc.calibrate(plan, [report, forged])
        skipped = fc.calibrate(plan, [report, forged], on_refused="skip")
        assert skipped.threshold == report.value
        assert [refusal.source for refusal in skipped.refused] == ["small"]

    def test_it_is_not_missing(self, plan, report):
        found = fc.calibrate(plan, [report])
        assert (found.missing, found.n_missing, found.refused) == ((), 0, ())
        assert "silence" not in found.assumptions
        assert found.threshold == report.value
        assert found.law.mean() == pytest.approx(plan.law.mean(), abs=1e-13)
        assert fc.Calibration.from_json(found.to_json()) == found

    def test_the_auditor_agrees(self, plan, report):
        findings = verify(fc.calibrate(plan, [report]), [report])
        assert [finding for finding in findings if finding.holds is not True] == []

    def test_the_law_is_that_of_the_sites_that_are_asked(self, plan):
        (rank,) = plan.blocks[1].ranks[0]
        alone = fc.CoverageLaw(1, 400, rank, 1)
        assert plan.law.mean() == pytest.approx(alone.mean(), abs=1e-13)
        assert plan.law.cdf(0.8) == pytest.approx(alone.cdf(0.8), abs=1e-13)
