"""Which promises hold where sites differ, what they would cost, and all of them side by side."""

import math
from fractions import Fraction

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.heterogeneity import alternatives, scale, side_by_side, what_holds, what_if
from fedconformal.planning import PROMISES, Sent

SIZES = {"A": 100, "B": 60, "C": 100, "D": 100}


def drawn(plan, factors, seed=0):
    rng = np.random.default_rng(seed)
    return [
        fc.report(plan, factor * np.abs(rng.standard_normal(SIZES[site])), site=site)
        for site, factor in factors.items()
    ]


def read(name, sent, level="0.9"):
    return PROMISES[name]().read_from(sent, Fraction(level))


class TestReadFromReports:
    """By hand: two sites of 9 scores, which sent their 9th and their 5th and 9th."""

    SENT = (Sent(9, (9,), (3.0,)), Sent(9, (5, 9), (1.0, 2.0)))

    @pytest.mark.parametrize(
        ("name", "level", "threshold", "coverage"),
        [
            ("each-site", "0.9", 3.0, 0.9),
            ("each-site", "0.5", 3.0, 0.5),
            ("each-site", "0.95", 3.0, 0.9),
            ("mixture", "0.9", 3.0, 0.9),
            ("mixture", "0.45", 2.0, 0.45),
            ("mixture", "0.25", 1.0, 0.25),
            ("mixture", "0.95", 3.0, 0.9),
            ("new-site", "0.6", 3.0, 0.6),
            ("new-site", "0.3", 2.0, 0.3),
            ("new-site", "0.9", 3.0, 2 / 3),
        ],
    )
    def test_by_hand(self, name, level, threshold, coverage):
        found = read(name, self.SENT, level)
        assert (found.threshold, found.coverage) == (threshold, pytest.approx(coverage))

    def test_a_site_too_small_for_a_number_of_its_own(self):
        sent = (*self.SENT, Sent(3, (4,), (math.inf,)))
        assert read("each-site", sent).coverage == 0
        assert read("mixture", sent).coverage == pytest.approx(18 / 24)
        assert read("population", sent) is None
        assert read("each-site", [sent[-1]]) is None


def test_the_same_threshold_as_a_plan_of_that_promise():
    """A plan for each site asks for numbers that are read again as what they are."""
    plan = fc.plan(n_points=SIZES, promise="each-site")
    reports = drawn(plan, {"A": 1, "B": 2, "C": 1, "D": 1})
    found = {each.promise.name: each for each in alternatives(plan, reports)}
    assert found["each-site"].reached.threshold == fc.calibrate(plan, reports).threshold
    assert found["each-site"].ratio == 1
    mixed = fc.plan(n_points=SIZES, promise="mixture")
    reports = drawn(mixed, {"A": 1, "B": 2, "C": 1, "D": 1})
    found = {each.promise.name: each for each in alternatives(mixed, reports)}
    assert found["mixture"].reached.threshold == fc.calibrate(mixed, reports).threshold


def test_words():
    plan = fc.plan(n_points=SIZES)
    reports = drawn(plan, {"A": 1, "B": 3, "C": 1, "D": 1})
    words = what_holds(plan, reports)
    assert "population, holds if sites are alike, and they are not" in words
    assert "each-site (the cases of every site that answers, by itself): for these very reports" in words
    assert "times the present one" in words
    assert "cannot be said without reports" in what_holds(plan)
    assert "holds however the sites differ" in what_holds(fc.plan(n_points=SIZES, promise="each-site"))
    assert "--by-class if the kinds are the true classes" in what_holds(plan, in_groups=True)


@pytest.fixture(scope="module")
def rows():
    return side_by_side(SIZES, shifts={"B": scale(2.0)})


class TestSideBySide:
    def test_every_promise_is_there(self, rows):
        assert {row.promise.name for row in rows} == set(PROMISES)
        kinds = {(row.promise.name, row.criterion.name) for row in rows}
        assert ("new-site", "conditional") in kinds
        assert ("mixture", "conditional") not in kinds

    def test_coverages_are_those_of_what_if(self, rows):
        row = next(row for row in rows if row.promise.name == "population")
        asked = what_if(fc.plan(n_points=SIZES), {"B": scale(2.0)})
        assert row.worst_site == asked.law("B").mean()
        assert row.all_sites == asked.law("mixture").mean()
        each = next(row for row in rows if row.promise.name == "each-site")
        assert each.worst_site >= 0.9

    @pytest.mark.parametrize("name", ["population", "each-site", "mixture"])
    def test_width_is_the_expected_threshold(self, rows, name):
        """20,000 federations; |mean - expected| above 6 standard errors has probability below 1e-8."""
        row = next(row for row in rows if row.promise.name == name)
        (design,), rng, total = row.plan.designs, np.random.default_rng(3), 20_000
        for shifted, width in ((1.0, row.width), (2.0, row.shifted_width)):
            values, weights = [], []
            for site, ranks, votes in zip(SIZES, row.plan.local_ranks, row.plan.weights, strict=True):
                ordered = np.sort(np.abs(rng.standard_normal((total, SIZES[site]))), axis=1)
                asked = np.atleast_1d(ranks)
                values.append((shifted if site == "B" else 1.0) * ordered[:, asked - 1])
                weights += list(np.broadcast_to(votes, asked.shape))
            numbers = np.concatenate(values, axis=1)
            order = np.argsort(numbers, axis=1)
            reached = np.cumsum(np.array(weights)[order], axis=1) >= design.server_rank
            found = np.take_along_axis(numbers, order, axis=1)[np.arange(total), reached.argmax(axis=1)]
            assert abs(found.mean() - width) <= 6 * found.std() / math.sqrt(total) + 1e-3

    def test_what_cannot_be_given_says_why(self, rows):
        new = [row for row in rows if row.promise.name == "new-site"]
        assert all(row.width == math.inf for row in new)
        assert "It would take 9 sites" in new[0].reason

    def test_open_plans_and_strange_names_are_refused(self):
        with pytest.raises(ValueError, match="n_points must be given"):
            side_by_side(None)
        with pytest.raises(ValueError, match="shifts must name sites"):
            side_by_side(SIZES, shifts={"Z": scale(2.0)})
