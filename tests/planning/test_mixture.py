"""A promise for a known mixture of sites: brute force, simulation under strong shifts,
and bad input.
"""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from scipy import special, stats

import fedconformal as fc
from fedconformal.messages._base import smallest_with_votes
from fedconformal.planning import CRITERIA, PROMISES, Goal
from fedconformal.planning._mixture import Mixture, ranks_by_size, with_shares
from planning.plans import kinds, tolerates
from planning.unlike_sites import FEDERATIONS, thresholds
from support import bernstein_limit

NINE = Fraction(9, 10)


def goal(level=NINE, **options):
    return Goal(level, CRITERIA["marginal"](), **options)


def solved(sizes, shares=None, *, counts=None, level=NINE, numbers=5):
    """The solution for one site of each size, or several."""
    return Mixture().choose(
        with_shares(kinds(sizes, counts, shares)), goal(level), numbers, None
    )


def rows(found):
    """Sites, ranks and votes."""
    return list(
        zip(found.ballot.sites, found.ballot.ranks, found.ballot.votes, strict=True)
    )


def exact_coverage(found, bags):
    """Mean coverage over the mixture if one point of each bag, any, is the new one."""
    total, ways = Fraction(0), 0
    for unseen in product(*(range(len(bag)) for bag in bags)):
        ballots = []
        for (_, ranks, votes), bag, out in zip(rows(found), bags, unseen, strict=True):
            scores = sorted(bag[:out] + bag[out + 1 :])
            ballots += [
                (scores[rank - 1], vote)
                for rank, vote in zip(ranks, votes, strict=True)
            ]
        q = smallest_with_votes(ballots, found.needed)
        new = zip(found.ballot.sites, bags, unseen, strict=True)
        total, ways = (
            total + sum(kind.share * (bag[out] <= q) for kind, bag, out in new),
            ways + 1,
        )
    return total / ways


class TestTheRule:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("sizes", "shares", "level", "numbers"),
        [
            ((2, 3), None, "1/2", 1),
            ((2, 3), None, "2/3", 3),
            ((3, 3), ("1/4", "3/4"), "1/2", 2),
            ((1, 2, 2), None, "1/2", 2),
            ((3, 2), ("1", "0"), "3/4", 2),
        ],
    )
    def test_no_bags_are_covered_less_than_the_level(
        self, sizes, shares, level, numbers
    ):
        """All bags of whole numbers 0 to 3, ties included, each averaged over which
        point is the new one.
        """
        found = solved(sizes, shares, level=Fraction(level), numbers=numbers)
        assert found.is_finite
        every = [list(combinations_with_replacement(range(4), n + 1)) for n in sizes]
        means = {exact_coverage(found, bags) for bags in product(*every)}
        assert min(means) >= Fraction(level)
        assert min(means) < 1

    def test_votes_count_scores_where_shares_are_by_size(self):
        plan = fc.plan(n_points=[100] * 10, promise="mixture")
        ranks, weights = plan.local_ranks[0], plan.weights[0]
        assert weights == tuple(np.diff((0, *ranks)))
        assert plan.server_rank == 909  # nine tenths of 10 * 101
        assert plan.law is None
        assert plan.guarantee.mean == 0.9

    def test_shares_decide_how_much_a_site_counts(self):
        found = solved([50, 50], ["3/4", "1/4"])
        first, second = (sum(votes) / ranks[-1] for _, ranks, votes in rows(found))
        assert first == pytest.approx(3 * second)

    def test_rounded_votes_never_promise_more_than_there_is(self):
        """Sizes and shares without a short common denominator: votes are rounded down,
        the level is kept.
        """
        sizes = np.random.default_rng(0).integers(20, 3000, 60).tolist()
        shares = [
            Fraction(int(x), 10**9)
            for x in np.random.default_rng(1).integers(1, 10**7, 60)
        ]
        found = solved(sizes, [share / sum(shares) for share in shares])
        assert max(vote for votes in found.ballot.votes for vote in votes) <= 2**20
        counted = sum(
            kind.share * ranks[-1] / (kind.n + 1) for kind, ranks, _ in rows(found)
        )
        assert NINE <= Mixture().guarantee(found, goal()).mean < 0.9001
        assert found.ballot.total_votes <= counted * found.needed / NINE + 60

    def test_one_site_by_itself_is_split_conformal_prediction(self):
        found = solved([99])
        assert (found.ballot.ranks[0], Mixture().guarantee(found, goal()).mean) == (
            (90,),
            0.9,
        )

    def test_a_site_without_a_share_is_not_asked(self):
        found = solved([50, 50, 30], ["1/2", "1/2", "0"])
        assert found.ballot.ranks[2] == ()


def coverage_of_two(plan, n, *, dependent):
    """Mean coverage for two sites of n cases with shares 1/2, each exchangeable by
    itself, by exact sums.

    The first site and its new point X are uniform. The second site's scores are all -1
    if X > 0.8 (if not dependent: if another uniform number is), else each is -1 with
    probability 0.85 and 10 otherwise.
    """
    ranks, cast, needed = (
        plan.local_ranks,
        np.cumsum(plan.weights, axis=1),
        plan.server_rank,
    )
    chances = {
        0.2: (1.0, [(n, 1.0)]),
        0.8: (0.85, enumerate(stats.binom.pmf(range(n + 1), n, 0.85))),
    }
    total = 0.0
    for chance, (low_share, counts) in chances.items():
        low, high = (
            {0.2: (0.8, 1.0), 0.8: (0.0, 0.8)}[chance] if dependent else (0.0, 1.0)
        )
        for n_low, probability in counts:
            seen = (
                cast[1][np.searchsorted(ranks[1], n_low, side="right") - 1]
                if n_low >= ranks[1][0]
                else 0
            )
            place = int(np.searchsorted(cast[0], needed - seen))
            one, two = high - low, 1.0  # the threshold is 10
            if place < len(ranks[0]):
                rank = ranks[0][place]
                one, two = (
                    _area(rank, n + 1 - rank, high) - _area(rank, n + 1 - rank, low),
                    low_share,
                )
            total += (
                probability * (one * (1 if dependent else chance) + chance * two) / 2
            )
    return total


def _area(a, b, c):
    """The integral of P(Beta(a, b) > x) over x from 0 to c."""
    return c * special.betaincc(a, b, c) + a / (a + b) * special.betainc(a + 1, b, c)


def test_sites_that_depend_on_each_other_can_break_the_promise():
    """Why each site's scores must be exchangeable given the other sites, not merely by
    themselves.
    """
    sizes, shares = {"one": 500, "two": 500}, {"one": 1, "two": 1}
    plan = fc.plan(n_points=sizes, promise="mixture", mixture=shares, numbers=20)
    assert plan.guarantee.mean == pytest.approx(0.9002, abs=1e-5)
    assert coverage_of_two(plan, 500, dependent=True) == pytest.approx(
        0.847244, abs=1e-6
    )
    assert coverage_of_two(plan, 500, dependent=False) == pytest.approx(
        0.910125, abs=1e-6
    )
    assert (
        "are exchangeable, as they are if sites are independent" in Mixture().assumed()
    )


class TestMissing:
    def test_a_missing_site_counts_zero_and_shares_stay(self):
        plan = fc.plan(
            n_points=dict.fromkeys("ABCDEFGHIJKLMNOPQRSTUVWXYZ", 100),
            promise="mixture",
            max_missing=1,
        )
        rng = np.random.default_rng(0)
        reports = [
            fc.report(plan, rng.random(100), site=name) for name in plan.site_names
        ]
        whole, without = fc.calibrate(plan, reports), fc.calibrate(plan, reports[1:])
        assert without.server_rank == whole.server_rank == plan.server_rank
        assert without.threshold > whole.threshold
        assert without.guarantee.mean == plan.guarantee.mean
        assert without.missing == ("A",)

    def test_too_many_missing_make_the_threshold_infinite(self):
        plan = fc.plan(n_points=dict.fromkeys("ABCDE", 100), promise="mixture")
        reports = [fc.report(plan, np.arange(100), site=name) for name in "ABCD"]
        assert fc.calibrate(plan, reports).threshold == np.inf
        assert "it counts zero here" in plan.notes[-1]

    def test_a_plan_that_cannot_tolerate_it_says_what_would(self):
        with pytest.warns(
            fc.InfeasibleWarning, match="No number that was tried would suffice"
        ):
            fc.plan(n_sites=9, n_points=100, promise="mixture", max_missing=1)
        with pytest.warns(fc.InfeasibleWarning, match="You need 12 cases per site"):
            fc.plan(n_sites=40, n_points=11, promise="mixture", max_missing=1)
        bearing = fc.plan(n_sites=40, n_points=12, promise="mixture", max_missing=1)
        assert bearing.feasible
        assert tolerates(bearing)

    def test_too_few_points_say_how_many_would_do(self):
        with pytest.warns(fc.InfeasibleWarning, match="You need 9 cases per site"):
            fc.plan(n_sites=4, n_points=8, promise="mixture")
        assert fc.plan(n_sites=4, n_points=9, promise="mixture").feasible


class TestSearch:
    def test_ranks_are_few_in_order_and_within_the_site(self):
        sizes = np.array([1, 2, 5, 17, 100, 10**4, 10**6, 2**40])
        found = ranks_by_size(sizes, np.full(8, 1 / 8), NINE, 5)
        for n, ranks in found.items():
            assert 1 <= len(ranks) <= 5
            assert list(ranks) == sorted(set(ranks))
            assert 1 <= ranks[0] <= ranks[-1] <= n

    def test_more_numbers_show_more(self):
        """The yardstick of the search: what the best ranks show of a federation that
        differs.
        """
        from fedconformal.planning._mixture import _Stairs

        shown = [
            _Stairs(100, numbers).best(2.0)[0] for numbers in (1, 2, 3, 5, 10, 100)
        ]
        assert shown == sorted(shown)
        assert len(set(shown)) == len(shown)

    def test_all_steps_are_tried_for_a_small_site(self):
        """Dynamic programming against every choice of ranks."""
        from itertools import combinations

        from fedconformal.planning._mixture import _Stairs, reported_below

        below = reported_below(np.arange(1, 9), 8, 1.7)
        best = max(
            sum(
                (high - low) * below[high - 1]
                for low, high in zip((0, *ranks), ranks, strict=False)
            )
            for ranks in combinations(range(1, 9), 3)
        )
        assert _Stairs(8, 3).best(1.7)[0] == pytest.approx(best / 9)


class TestSimulation:
    RUNS = 4_000

    def coverage(self, found, kind, shares):
        (first, ranks, _), rng = rows(found)[0], np.random.default_rng(5)
        scores = np.sort(kind.draw(rng, self.RUNS, first.n), axis=2)
        sent = scores[:, :, np.array(ranks) - 1].reshape(self.RUNS, -1)
        votes = np.concatenate(
            [votes for each, _, votes in rows(found) for _ in range(each.count)]
        )
        q = thresholds(sent, votes, found.needed)
        return kind.cdf(q) @ shares

    @pytest.mark.slow
    @pytest.mark.parametrize("name", FEDERATIONS)
    @pytest.mark.parametrize("numbers", [1, 5])
    def test_the_mixture_is_covered_whatever_the_sites_are_like(self, name, numbers):
        """4,000 runs; false-alarm probability 1e-7 by the empirical Bernstein bound."""
        found = solved([100], counts=[10], numbers=numbers)
        covered = self.coverage(found, FEDERATIONS[name], np.full(10, 0.1))
        assert covered.mean() >= 0.9 - bernstein_limit(covered)

    @pytest.mark.parametrize("name", ["three doubled", "tail", "two points, some rare"])
    def test_shares_that_favour_the_worst_sites_are_covered(self, name):
        """The last three sites have 80 % of new points. 4,000 runs; false-alarm
        probability 1e-7.
        """
        shares = [Fraction(1, 35)] * 7 + [Fraction(4, 15)] * 3
        found = solved([100, 100], [shares[0], shares[-1]], counts=[7, 3])
        covered = self.coverage(
            found, FEDERATIONS[name], np.array([float(share) for share in shares])
        )
        assert covered.mean() >= 0.9 - bernstein_limit(covered)

    def test_three_doubled_sites_cost_little(self):
        """True mean .933, standard error of 4,000 runs 2e-4: above .935 with a
        probability below 1e-20.
        """
        found = solved([100], counts=[10])
        covered = self.coverage(found, FEDERATIONS["three doubled"], np.full(10, 0.1))
        assert covered.mean() <= 0.935


SIZES = {"north": 100, "south": 40}


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (
                {"mixture": {"north": -0.1, "south": 1}},
                "must be 0, or between 1e-9 and 1e9, got -0.1",
            ),
            (
                {"mixture": {"north": 0, "south": 0}},
                "mixture must hold at least one share above 0, got none",
            ),
            (
                {"mixture": {"north": 0.5, "west": 0.5}},
                "mixture must name sites of the plan, got 'west'",
            ),
            (
                {"mixture": {"north": 1}},
                "mixture must have a share for every site.*for 'south'",
            ),
            (
                {"mixture": {"north": float("nan"), "south": 1}},
                r"mixture\['north'\] must be",
            ),
            (
                {"criterion": "stable"},
                "criterion must be marginal with promise 'mixture', got 'stable'",
            ),
            (
                {"criterion": "conditional"},
                "criterion must be marginal with promise 'mixture'",
            ),
            (
                {"max_faulty": 1, "n_points": [9, 9, 9]},
                "max_faulty must be 0 with promise 'mixture', got 1",
            ),
            (
                {"local_ranks": "paper", "numbers": 1},
                "local_ranks must be left out with promise 'mixture'",
            ),
            ({"n_points": None, "n_sites": 3}, "promise 'mixture' needs n_points"),
            (
                {"n_points": 40, "n_sites": 3, "mixture": {"A": 1}},
                "mixture needs the names of the sites",
            ),
            (
                {"promise": "population", "mixture": {"north": 1, "south": 1}},
                "mixture must be left out except",
            ),
            (
                {"groups": {"a": SIZES}, "n_points": None},
                "groups must be left out with promise 'mixture'",
            ),
        ],
    )
    def test_name_the_argument(self, options, words):
        with pytest.raises(ValueError, match=words):
            fc.plan(**{"n_points": SIZES, "promise": "mixture", **options})

    @pytest.mark.parametrize("share", ["1", None, True])
    def test_shares_are_numbers(self, share):
        with pytest.raises(
            TypeError, match=r"mixture\['north'\] must be a number of at least 0"
        ):
            fc.plan(
                n_points=SIZES, promise="mixture", mixture={"north": share, "south": 1}
            )


class TestFiles:
    """Votes that a file cannot have."""

    def test_shares_add_up_and_are_there(self):
        found = solved([50, 50])
        Mixture().check_solution(found, goal())
        for shares, words in (
            (["1/2", "1/3"], "add up to 1"),
            ([None, None], "every site has a share"),
        ):
            ballot = replace(found.ballot, sites=kinds([50, 50], None, shares))
            with pytest.raises(ValueError, match=words):
                Mixture().check_solution(replace(found, ballot=ballot), goal())

    def test_votes_are_not_too_few(self):
        found = solved([50, 50])
        with pytest.raises(ValueError, match="too few for a promise to this mixture"):
            Mixture().check_solution(replace(found, needed=found.needed - 1), goal())
        heavier = replace(
            found.ballot, votes=tuple((v[0] + 1, *v[1:]) for v in found.ballot.votes)
        )
        with pytest.raises(ValueError, match="too few for a promise to this mixture"):
            Mixture().check_solution(replace(found, ballot=heavier), goal())

    def test_a_site_without_a_share_is_not_asked(self):
        found = solved([50, 50], ["1", "0"])
        ballot = replace(
            found.ballot,
            ranks=found.ballot.ranks[:1] * 2,
            votes=found.ballot.votes[:1] * 2,
        )
        with pytest.raises(
            ValueError, match="without a share of the mixture is not asked"
        ):
            Mixture().check_solution(replace(found, ballot=ballot), goal())


def test_has_words_for_everything():
    promise = PROMISES["mixture"]()
    assert promise.assumed().endswith(".")
    assert promise.shortfall("at Ulm").startswith("cases at Ulm")
    assert promise.options() == "for a known mixture of the sites"
    assert promise.law(solved([50, 50]), goal()) is None
