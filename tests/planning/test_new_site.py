"""A promise for a site that was not there: brute force, simulation under strong shifts,
and bad input.
"""

import math
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from scipy import special, stats

import fedconformal as fc
from fedconformal.messages import CasesMessage, DesignRequest, draw_ranks, of
from fedconformal.messages._cases import _votes
from fedconformal.planning import CRITERIA, PROMISES, Goal, rank_above
from fedconformal.planning._new_site import NewSite, NewSiteGoal, votes_needed
from fedconformal.planning.promises import chance_above
from planning.plans import kinds
from planning.unlike_sites import FEDERATIONS, half_normal, thresholds
from support import bernstein_limit

NINE, TENTH = Fraction(9, 10), Fraction(1, 10)


def wanted(criterion="conditional", *, level=NINE, **options):
    return Goal(level, CRITERIA[criterion](), **options)


def votes_for(sizes, counts, *, level=NINE, numbers=1):
    """The votes that the mean over new sites needs."""
    request = DesignRequest(
        NewSite(),
        (wanted("marginal", level=level),),
        kinds(sizes, counts),
        sum(counts),
        numbers,
    )
    return CasesMessage().choose(request).levels[0].votes


def solved(sizes, counts, **options):
    """The solution for most new sites, one by one."""
    return NewSite().choose(kinds(sizes, counts), wanted(**options), 1, None)


class TestTheMean:
    @pytest.mark.parametrize(
        ("m", "numbers", "level"),
        [(2, 1, "2/3"), (3, 1, "1/2"), (2, 2, "1/2"), (2, 2, "2/3")],
    )
    def test_no_sites_are_covered_less_than_the_level(self, m, numbers, level):
        """All federations of m + 1 sites whose scores are two of the values 0, 1, 2
        with equal chances.

        Any of the sites is the new one, and every draw of all sites is counted.
        """
        votes = votes_for([50], [m], level=Fraction(level), numbers=numbers)
        pairs = list(combinations_with_replacement(range(3), 2))
        every = combinations_with_replacement(pairs, m + 1)
        least = min(_exact_mean(votes, numbers, sites) for sites in every)
        assert least >= Fraction(level)
        assert least < 1

    @pytest.mark.parametrize("numbers", [1, 2, 5, 20])
    def test_votes_are_those_of_one_site_more(self, numbers):
        plan = fc.plan(
            n_points=[50] * 10 + [3] * 9, promise="new-site", numbers=numbers
        )
        assert plan.server_rank == math.ceil(numbers * NINE * 20)
        assert (
            sum(np.sum(votes) for votes in of(plan.message).votes(plan.designs[0], 0))
            == 2 * numbers
        )
        assert plan.guarantee.mean == float(Fraction(plan.server_rank, 20 * numbers))

    def test_one_case_each_is_the_papers_rule_for_one_point_each(self):
        found = fc.plan(n_sites=20, n_points=100, promise="new-site")
        paper = fc.plan(n_sites=20, n_points=1, criterion="marginal")
        assert (found.server_rank, found.guarantee.mean) == (
            paper.server_rank,
            pytest.approx(paper.law.mean()),
        )
        assert found.local_ranks is None
        assert found.law is None

    def test_a_site_with_fewer_cases_sends_all_each_for_its_share_at_most(
        self,
    ):
        for numbers, n in product(range(1, 21), range(1, 25)):
            counted = np.cumsum(_votes(numbers, n))
            assert counted[-1] == numbers
            assert counted.size == min(n, numbers)
            assert all(
                votes * counted.size <= numbers * (i + 1)
                for i, votes in enumerate(counted)
            )

    def test_too_few_sites_say_how_many_would_do(self):
        with pytest.warns(fc.InfeasibleWarning, match="You need 9 sites of 100 cases"):
            fc.plan(n_sites=8, n_points=100, promise="new-site")
        assert fc.plan(n_sites=9, n_points=100, promise="new-site").feasible
        with pytest.warns(fc.InfeasibleWarning, match="You need 11 sites"):
            fc.plan(n_sites=10, n_points=100, promise="new-site", max_missing=2)

    def test_votes_are_solved_for_the_sites_that_answered(self):
        plan = fc.plan(n_sites=20, n_points=100, promise="new-site", numbers=2)
        reports = [fc.report(plan, np.arange(100) + i, site=str(i)) for i in range(20)]
        found = fc.calibrate(plan, reports[:12])
        assert found.server_rank == math.ceil(2 * NINE * 13)
        assert found.guarantee.mean == found.server_rank / 26
        assert fc.calibrate(plan, reports[:8]).threshold == math.inf

    def test_sizes_may_come_with_the_reports(self):
        plan = fc.plan(promise="new-site", numbers=3, confidence_level=[0.8, 0.9])
        reports = [fc.report(plan, np.arange(n), site=str(n)) for n in range(1, 21)]
        found = fc.calibrate(plan, reports)
        assert [found[level].server_rank for level in (0.8, 0.9)] == [51, 57]
        assert found.by_group[None].design.sites[0].n == 1
        assert fc.Calibration.from_json(found.to_json()) == found


def _exact_mean(needed, r, sites):
    """Mean coverage over which site is new, and over all draws of r cases of all of
    them.
    """
    covered, ways = 0, 0
    for new in range(len(sites)):
        others = [site for i, site in enumerate(sites) if i != new]
        for draws in product(*(product(site, repeat=r) for site in others)):
            sent = sorted(value for each in draws for value in each)
            q = sent[needed - 1] if needed <= len(sent) else math.inf
            covered += sum(score <= q for score in sites[new])
            ways += 2
    return Fraction(covered, ways)


class TestMostNewSites:
    @pytest.mark.parametrize(
        ("m", "n", "pair"),
        [
            (10, 100, (95, 10)),
            (20, 100, (91, 20)),
            (100, 100, (93, 93)),
            (20, 1000, (917, 19)),
        ],
    )
    def test_pairs(self, m, n, pair):
        found = solved([n], [m])
        rank, votes = found.ballot.ranks[0][0], found.needed
        assert (1 - Fraction(votes, m + 1)) / Fraction(
            chance_above(n, rank, NINE)
        ) <= TENTH
        assert NewSite().guarantee(found, wanted()).probability >= 0.9
        assert (rank, votes) == pair

    def test_the_chance_is_that_of_a_binomial_count(self):
        for n, rank in ((10, 9), (100, 91), (57, 30)):
            assert chance_above(n, rank, NINE) == pytest.approx(
                stats.binom.cdf(rank - 1, n, 0.9)
            )
        assert chance_above(10, 11, NINE) == 1

    @pytest.mark.parametrize("eta", ["1/10", "1/2", "99/100"])
    def test_the_rank_is_the_smallest_that_keeps_the_chance(self, eta):
        for n in (1, 2, 5, 30, 400):
            rank = rank_above(n, NINE, Fraction(eta))
            assert chance_above(n, rank, NINE) >= Fraction(eta)
            assert rank == 1 or chance_above(n, rank - 1, NINE) < Fraction(eta) + 1e-8

    def test_sizes_that_are_found_change_no_chance_and_no_votes(self):
        plans = [
            fc.plan(n_points=sizes, promise="new-site", criterion="conditional")
            for sizes in ([30, 60] * 15, [100, 101] * 15, [1000] * 29 + [40])
        ]
        assert len({plan.message.levels[0].rule.eta for plan in plans}) == 1
        assert len({plan.server_rank for plan in plans}) == 1

    @pytest.mark.parametrize(
        ("m", "n", "delta"),
        [(10, 100, "1/10"), (20, 100, "1/10"), (30, 20, "1/5"), (12, 5, "1/2")],
    )
    def test_the_worst_populations_of_two_kinds_of_sites_keep_the_promise(
        self, m, n, delta
    ):
        """Exactly, for every share p of hard sites.

        A hard site's scores are 1 with a chance just above 1 - level, else 0; an easy
        one's are 0. A hard site falls short if the threshold is 0, and its own number
        is 1 with a chance of at least eta.
        """
        found = solved([n], [m], delta=Fraction(delta))
        rank = found.ballot.ranks[0][0]
        h = special.betainc(n - rank + 1, rank, 0.1 + 1e-9)
        p = np.linspace(0, 1, 2001)
        missed = p * stats.binom.cdf(m - found.needed, m, p * h)
        assert missed.max() <= Fraction(delta)
        assert (
            missed.max() >= Fraction(delta) / 4
        )  # the promise is not kept by being far away

    def test_one_missing_site_is_tolerated_where_that_costs_little(self):
        assert NewSite().tolerates(solved([100], [20]), wanted(), 1)
        tight = solved([100], [10])
        assert not NewSite().tolerates(tight, wanted(), 1)
        assert votes_needed(9, TENTH, tight.rule.eta) > 9

    def test_votes_are_solved_again_if_a_site_is_missing_with_the_same_chance(self):
        plan = fc.plan(
            n_sites=20, n_points=100, promise="new-site", criterion="conditional"
        )
        reports = [fc.report(plan, np.arange(100) + i, site=str(i)) for i in range(20)]
        found = fc.calibrate(plan, reports[:19])
        assert (found.server_rank, found.threshold) == (19, 108.0)
        assert found.guarantee.probability >= 0.9
        assert fc.calibrate(plan, reports[:10]).threshold == math.inf

    def test_infeasible_plans_say_what_would_do(self):
        with pytest.warns(fc.InfeasibleWarning, match="You need 10 sites of 100 cases"):
            fc.plan(
                n_sites=9, n_points=100, promise="new-site", criterion="conditional"
            )
        with pytest.warns(
            fc.InfeasibleWarning, match="7 cases per site, or 24 sites of 5 cases"
        ):
            fc.plan(n_sites=20, n_points=5, promise="new-site", criterion="conditional")
        for m, n in ((10, 100), (20, 7), (24, 5)):
            assert fc.plan(
                n_sites=m, n_points=n, promise="new-site", criterion="conditional"
            ).feasible
        with pytest.warns(fc.InfeasibleWarning, match="with 50 sites of 4 to 53 cases"):
            small = fc.plan(
                n_points=list(range(4, 54)), promise="new-site", criterion="conditional"
            )
        assert "too few cases" in small.notes[1]

    def test_advice_is_the_smallest_that_would_suffice(self):
        new_site = NewSiteGoal(20, Goal(NINE, delta=TENTH))
        n = new_site.smallest_n_points(Fraction(0))
        assert rank_above(n, NINE, new_site.least_eta(0)) <= n
        assert rank_above(n - 1, NINE, new_site.least_eta(0)) > n - 1

    def test_sizes_may_come_with_the_reports_if_the_number_of_sites_is_known(self):
        plan = fc.plan(n_sites=20, promise="new-site", criterion="conditional")
        assert of(plan.message).ranks_for(plan.designs[0], 100, None) == ((91,),)
        reports = [fc.report(plan, np.arange(30 + i), site=str(i)) for i in range(20)]
        found = fc.calibrate(plan, reports)
        assert (found.server_rank, found.threshold) == (
            20,
            stats.binom.ppf(0.5, 49, 0.9),
        )
        with pytest.raises(ValueError, match="needs n_sites"):
            fc.plan(promise="new-site", criterion="conditional")
        with pytest.raises(
            ValueError, match=r"with delta 0\.1 needs at least 10 sites, got 9"
        ):
            fc.plan(n_sites=9, promise="new-site", criterion="conditional")


class TestDrawnCases:
    def test_are_the_same_for_a_round_and_a_site_and_others_otherwise(self):
        first = draw_ranks("a" * 32, "north", 1000, 5)
        assert first == draw_ranks("a" * 32, "north", 1000, 5)
        assert first != draw_ranks("b" * 32, "north", 1000, 5)
        assert first != draw_ranks("a" * 32, "south", 1000, 5)
        assert list(first) == sorted(set(first))
        assert draw_ranks("a" * 32, "north", 3, 5) == (1, 2, 3)

    @pytest.mark.parametrize(("n", "numbers"), [(6, 1), (6, 2), (7, 3)])
    def test_all_choices_are_equally_likely(self, n, numbers):
        """20,000 rounds; a chi-square statistic above its 1 - 1e-7 quantile:
        false-alarm probability 1e-7.
        """
        counts = {}
        for i in range(20_000):
            drawn = draw_ranks(f"{i:032x}", "site", n, numbers)
            counts[drawn] = counts.get(drawn, 0) + 1
        expected = 20_000 / math.comb(n, numbers)
        assert len(counts) == math.comb(n, numbers)
        statistic = sum((count - expected) ** 2 / expected for count in counts.values())
        assert statistic < stats.chi2.isf(1e-7, math.comb(n, numbers) - 1)

    def test_a_report_holds_the_drawn_scores_for_every_level(self):
        plan = fc.plan(
            n_sites=20,
            n_points=50,
            promise="new-site",
            numbers=3,
            confidence_level=[0.8, 0.9],
        )
        scores = np.random.default_rng(0).permutation(50)
        report = fc.report(plan, scores, site="A")
        drawn = tuple(
            float(rank - 1) for rank in draw_ranks(plan.terms.round, "A", 50, 3)
        )
        assert report.payload.values == drawn
        assert (
            fc.protocol.prepare(plan, scores, site="A").sentence
            == "This plan asks for 3 of your 50 scores, drawn at random, and for their"
            " number."
        )

    def test_a_sites_policy_counts_them(self):
        plan = fc.plan(
            n_sites=20,
            n_points=50,
            promise="new-site",
            numbers=3,
            confidence_level=[0.8, 0.9],
        )
        assert fc.report(plan, range(50), site="A", policy=fc.SitePolicy(max_numbers=3))
        with pytest.raises(
            ValueError,
            match="3 of your 50 scores would leave, and the site's policy allows 2",
        ):
            fc.report(plan, range(50), site="A", policy=fc.SitePolicy(max_numbers=2))

    def test_every_plan_has_a_round_of_its_own(self):
        rounds = {
            fc.plan(n_sites=20, n_points=50, promise="new-site").terms.round
            for _ in range(5)
        }
        assert len(rounds) == 5
        with pytest.raises(
            ValueError,
            match=r"round must be left out where sites draw cases.*got 'spring'",
        ):
            fc.plan(
                n_sites=20, n_points=50, promise="new-site", terms={"round": "spring"}
            )


class Population:
    """Populations of sites: scale, location, tail, or two points of a site's own."""

    def __init__(self, kind):
        self.kind = kind

    def sites(self, rng, shape):
        """What tells sites apart."""
        if self.kind == "scale":
            return np.exp(rng.standard_normal(shape))
        if self.kind == "location":
            return 5 * rng.standard_cauchy(shape)
        if self.kind == "tail":
            return rng.uniform(0.2, 3, shape)
        return (rng.random(shape) < 0.1) * rng.uniform(0.1, 1, shape)

    def cdf(self, sites, t):
        if self.kind == "scale":
            return half_normal(t / sites)
        if self.kind == "location":
            return half_normal(t - sites)
        if self.kind == "tail":
            return 1 - np.maximum(t, 1.0) ** -sites
        return np.where(t >= 1, 1.0, np.where(t >= 0, 1 - sites, 0.0))

    def scores(self, rng, sites, n):
        u = rng.random((*sites.shape, n))
        sites = sites[..., None]
        if self.kind == "scale":
            return np.sqrt(2) * special.erfinv(u) * sites
        if self.kind == "location":
            return np.sqrt(2) * special.erfinv(u) + sites
        if self.kind == "tail":
            return u ** (-1 / sites)
        return np.where(u < sites, 1.0, 0.0)


@cache
def places(runs, numbers):
    """Indices of the scores that each of 20 sites of 30 scores sends in each of so many
    rounds.
    """
    ranks = [
        [draw_ranks(f"{i:032x}", str(j), 30, numbers) for j in range(20)]
        for i in range(runs)
    ]
    return np.array(ranks) - 1


@pytest.mark.parametrize("kind", ["scale", "location", "tail", "two points"])
class TestSimulation:
    @pytest.mark.slow
    def test_the_mean_over_new_sites(self, kind):
        """5,000 rounds of 20 sites of 30 scores, each with a round of its own; false
        alarms: 1e-7 each.
        """
        rng, population, runs = np.random.default_rng(11), Population(kind), 5_000
        for numbers in (1, 4):
            votes = votes_for([30], [20], numbers=numbers)
            sites = population.sites(rng, (runs, 20))
            scores = np.sort(population.scores(rng, sites, 30), axis=2)
            sent = np.take_along_axis(scores, places(runs, numbers), axis=2).reshape(
                runs, -1
            )
            q = thresholds(sent, np.ones(20 * numbers, dtype=int), votes)
            covered = population.cdf(population.sites(rng, runs), q)
            assert covered.mean() >= 0.9 - bernstein_limit(covered)

    @pytest.mark.slow
    def test_the_share_of_new_sites_that_reach_the_level(self, kind):
        """10,000 federations of 20 sites of 10, 40 or 100 scores; false-alarm
        probability 1e-7.
        """
        rng, population, runs = np.random.default_rng(12), Population(kind), 10_000
        sizes = [10] * 6 + [40] * 7 + [100] * 7
        found = solved([10, 40, 100], [6, 7, 7])
        reports = []
        for n in (10, 40, 100):
            rank = rank_above(n, NINE, found.rule.eta)
            sites = population.sites(rng, (runs, sizes.count(n)))
            scores = np.sort(population.scores(rng, sites, n), axis=2)
            reports.append(
                scores[:, :, rank - 1] if rank <= n else np.full(sites.shape, np.inf)
            )
        q = thresholds(
            np.concatenate(reports, axis=1), np.ones(20, dtype=int), found.needed
        )
        reached = population.cdf(population.sites(rng, runs), q) >= 0.9
        assert reached.mean() >= 0.9 - bernstein_limit(reached.astype(float))


@pytest.mark.parametrize("name", FEDERATIONS)
def test_sites_drawn_from_each_of_twelve_kinds_of_heterogeneity(name):
    """3,000 federations of 20 sites drawn from ten that differ; false-alarm probability
    1e-7 each.
    """
    kind, rng, runs, n = FEDERATIONS[name], np.random.default_rng(13), 3_000, 20
    mean, most = votes_for([n], [20], numbers=2), solved([n], [20])
    drawn, ranked = [], []
    for _ in range(20):
        scores = kind.draw(rng, runs, n)[np.arange(runs), rng.integers(10, size=runs)]
        drawn.append(scores[:, :2])  # any two of scores in random order
        ranked.append(np.sort(scores, axis=1)[:, most.ballot.ranks[0][0] - 1])
    new = rng.integers(10, size=runs)
    q = thresholds(np.concatenate(drawn, axis=1), np.ones(40, dtype=int), mean)
    covered = kind.cdf(q)[np.arange(runs), new]
    assert covered.mean() >= 0.9 - bernstein_limit(covered)
    q = thresholds(np.stack(ranked, axis=1), np.ones(20, dtype=int), most.needed)
    reached = kind.cdf(q)[np.arange(runs), new] >= 0.9
    assert reached.mean() >= 0.9 - bernstein_limit(reached.astype(float))


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"max_faulty": 1}, "max_faulty must be 0 with promise 'new-site', got 1"),
            (
                {"local_ranks": "paper"},
                "local_ranks must be left out with promise 'new-site'",
            ),
            (
                {"criterion": "conditional", "numbers": 2},
                "numbers must be 1 with promise 'new-site' and the cond",
            ),
            (
                {"privacy": fc.Privacy(epsilon=2.0, bins=fc.Bins.uniform(0, 1, 20))},
                (
                    "promise must be 'population' or 'each-site' with privacy, got"
                    " 'new-site'"
                ),
            ),
            (
                {"groups": {"a": 50}, "n_points": None},
                "groups must be left out with promise 'new-site'",
            ),
        ],
    )
    def test_name_the_argument(self, options, words):
        with pytest.raises(ValueError, match=words):
            fc.plan(**{"n_sites": 20, "n_points": 50, "promise": "new-site", **options})

    def test_a_criterion_that_nobody_proved_is_refused(self):
        class Odd(type(CRITERIA["stable"]())):
            is_mean = False

        with pytest.raises(
            ValueError, match=r"criterion must be .* with promise 'new-site'"
        ):
            NewSite().check_goal(Goal(NINE, Odd()), is_open=False)


def test_has_words_for_everything():
    promise = PROMISES["new-site"]()
    mean, most = CRITERIA["marginal"](), CRITERIA["conditional"]()
    assert promise.assumed().endswith(".")
    assert promise.shortfall("at Ulm").startswith("cases at Ulm")
    assert promise.sentence(most, 0.8, 0.1).startswith(
        "At 90\N{NO-BREAK SPACE}% of new sites or more, the truth"
    )
    assert promise.sentence(mean, 0.8, None).startswith(
        "On average over new sites, the truth"
    )


def test_stable_is_no_criterion_of_new_sites():
    """The audit could not verify it."""
    with pytest.raises(
        ValueError,
        match="criterion must be conditional or marginal with promise 'new-site'",
    ):
        fc.plan(n_sites=30, n_points=100, promise="new-site", criterion="stable")
