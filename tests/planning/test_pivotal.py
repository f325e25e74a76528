"""Sites that can never change the threshold are not asked, and only those."""

from itertools import product

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.audit import verify
from fedconformal.documents import RanksPayload, Sent
from fedconformal.messages._base import smallest_with_votes
from fedconformal.planning._choosing import pivotal_sites


def decides(weights, counts, votes, block):
    """Every way in which the other sites' numbers may lie below, one after the
    other.
    """
    cast = [np.concatenate([[0], np.cumsum(row)]).tolist() for row in weights]
    others = [b for b, count in enumerate(counts) for _ in range(count - (b == block))]
    sums = (sum(below) for below in product(*(cast[b] for b in others)))
    return any(so_far < votes <= so_far + cast[block][-1] for so_far in sums)


def drawn(rng, blocks, *, alike):
    """Votes of each number of each block: the same within a site, or different; 0 for
    those not sent.
    """
    numbers = rng.integers(0, 4, size=(blocks, 1))
    weights = rng.integers(1, 9, size=(blocks, 1 if alike else 3))
    return np.where(np.arange(3) < numbers, weights, 0)


@pytest.mark.parametrize("alike", [True, False])
def test_every_configuration_of_votes_agrees(alike):
    rng, seen = np.random.default_rng(0), set()
    for _ in range(300):
        blocks = int(rng.integers(1, 4))
        weights, counts = (
            drawn(rng, blocks, alike=alike),
            rng.integers(1, 3, size=blocks),
        )
        votes = int(rng.integers(1, int(weights.sum(axis=1) @ counts) + 2))
        found = pivotal_sites(weights, counts, votes).tolist()
        expected = [decides(weights, counts, votes, b) for b in range(blocks)]
        seen.update(expected)
        assert found == expected, (weights, counts, votes)
    assert seen == {True, False}


@pytest.mark.parametrize("alike", [True, False])
def test_without_them_every_threshold_is_the_same(alike):
    """The numbers of such sites, whatever they are, and no numbers at all."""
    rng, left_out = np.random.default_rng(1), 0
    for _ in range(300):
        m, r = int(rng.integers(2, 6)), int(rng.integers(1, 4))
        weights = np.broadcast_to(
            rng.integers(1, 9, size=(m, 1 if alike else r)), (m, r)
        )
        votes = int(rng.integers(1, weights.sum() + 1))
        needed = pivotal_sites(weights, np.ones(m, dtype=int), votes)
        left_out += int((~needed).sum())
        values = np.sort(rng.integers(0, 8, size=(m, r)), axis=1).astype(float)
        values[np.sort(rng.random((m, r)), axis=1) > 0.9] = np.inf
        ballots = [
            list(zip(row, votes, strict=True))
            for row, votes in zip(values, weights, strict=True)
        ]
        everybody = [(float(v), int(w)) for site in ballots for v, w in site]
        those = [
            (float(v), int(w))
            for site, here in zip(ballots, needed, strict=True)
            if here
            for v, w in site
        ]
        assert smallest_with_votes(those, votes) == smallest_with_votes(
            everybody, votes
        )
    assert left_out > 30


def test_too_many_votes_to_list_are_taken_as_needed():
    """Certainty is needed to leave a site out."""
    weights = np.array([[10**6], [1]])
    assert pivotal_sites(weights, np.ones(2, dtype=int), 10**6).tolist() == [True, True]


@pytest.mark.parametrize(("votes", "asked"), [(8, True), (9, False)])
def test_votes_that_differ_within_a_site_are_told_apart(votes, asked):
    """Seven votes of the first site and one of the second make eight; nothing makes
    nine but nine.
    """
    weights = np.array([[4, 3, 2, 3, 4], [1, 0, 0, 0, 0]])
    assert pivotal_sites(weights, np.ones(2, dtype=int), votes).tolist() == [
        True,
        asked,
    ]


def test_a_site_too_small_for_its_rank_need_not_decide():
    """The largest of 6 + 6 + 9 scores covers 21 / 22; to ask the smallest site too
    would cost .007 more.
    """
    plan = fc.plan(n_points=[6, 6, 9, 4], confidence_level=0.95, criterion="marginal")
    assert plan.law.mean() == pytest.approx(21 / 22)


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
        design = plan.designs[0]
        assert plan.local_ranks[0] == ()
        assert [kind.asked for kind in design.sites] == [False, True]
        assert design.asked_names == ("large",)
        assert (design.n_asked, plan.n_sites) == (1, 2)
        assert (
            "1 site is not asked, as its answer could not change any threshold: small."
            in plan.notes
        )
        assert fc.Plan.from_json(plan.to_json()) == plan

    def test_a_report_is_refused_in_one_line(self, plan):
        with pytest.raises(ValueError, match="does not ask site 'small'") as caught:
            fc.report(plan, np.arange(20.0), site="small")
        assert "\n" not in str(caught.value)

    def test_a_report_that_comes_all_the_same_does_not_count(self, plan, report):
        payload = RanksPayload(levels=(Sent(ranks=(20,), values=(0.1,)),))
        part = report.parts[0].model_copy(update={"n": 20, "payload": payload})
        forged = report.model_copy(update={"site": "small", "parts": (part,)})
        with pytest.raises(
            fc.RefusedReportsError, match="small: the plan does not ask this site"
        ):
            fc.calibrate(plan, [report, forged])
        skipped = fc.calibrate(plan, [report, forged], on_refused="skip")
        assert skipped.threshold == report.payload.levels[0].values[0]
        assert [refusal.source for refusal in skipped.refused] == ["small"]

    def test_it_is_not_missing(self, plan, report):
        found = fc.calibrate(plan, [report])
        assert (found.missing, found.n_missing, found.not_asked, found.refused) == (
            (),
            0,
            ("small",),
            (),
        )
        assert "silence" not in found.assumptions
        assert found.threshold == report.payload.levels[0].values[0]
        assert found.law.mean() == pytest.approx(plan.law.mean(), abs=1e-13)
        assert fc.Calibration.from_json(found.to_json()) == found

    def test_the_auditor_agrees(self, plan, report):
        findings = verify(fc.calibrate(plan, [report]), [report])
        assert [finding for finding in findings if finding.holds is not True] == []

    def test_the_law_is_that_of_the_sites_that_are_asked(self, plan):
        rank = plan.local_ranks[1]
        alone = fc.CoverageLaw(1, 400, rank, 1)
        assert plan.law.mean() == pytest.approx(alone.mean(), abs=1e-13)
        assert plan.law.cdf(0.8) == pytest.approx(alone.cdf(0.8), abs=1e-13)
