"""Exact curves: the pooled order statistic, rounded up to the grid."""

import math
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import fedconformal as fc
from fedconformal.documents import Advice, CurvePayload, DocumentError, SiteKind
from fedconformal.messages import Answer, of
from messages.sent import answer_all, calibrate, change, check, combine, names
from planning.plans import quiet

BINS = fc.Bins.uniform(0, 1, 50)
SIZES = {"A": 120, "B": 40, "C": 377}
PRIVACY = fc.Privacy(1.0, BINS)
LEVELS = (0.8, 0.9, 0.5)


def edge_above(bins, score):
    """The edge to which a score is rounded up; +inf beyond the last that is a
    threshold.
    """
    last = bins.edges if bins.bounded else bins.edges[:-1]
    return next((edge for edge in last if edge >= score), math.inf)


def pooled(bins, scores, level):
    """The edge at or above the K-th smallest of all scores, K = ceil(level (N + 1))."""
    ordered = np.sort(np.concatenate(list(scores)))
    rank = math.ceil(Fraction(str(level)) * (ordered.size + 1))
    return edge_above(bins, ordered[rank - 1]) if rank <= ordered.size else math.inf


@st.composite
def federations(draw):
    """A grid, and scores of a few sites: on edges, between them, and outside."""
    edges = sorted(draw(st.sets(st.integers(-5, 20), min_size=2, max_size=8)))
    bins = fc.Bins(edges, bounded=draw(st.booleans()))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    sizes = draw(st.lists(st.integers(1, 60), min_size=1, max_size=6))
    return bins, {
        name: rng.integers(-16, 50, n) / rng.choice([1, 2, 3])
        for name, n in zip(names(len(sizes)), sizes, strict=True)
    }


class TestThreshold:
    @settings(max_examples=60)
    @given(federations(), st.booleans())
    def test_is_the_pooled_order_statistic_at_every_level(self, federation, is_open):
        bins, scores = federation
        sizes = (
            {"n_sites": len(scores)}
            if is_open
            else {"n_points": {k: v.size for k, v in scores.items()}}
        )
        plan = quiet(**sizes, curve=bins, confidence_level=LEVELS)
        found = calibrate(plan, scores)
        assert found.thresholds == tuple(
            pooled(bins, scores.values(), level) for level in LEVELS
        )
        assert fc.Calibration.from_json(found.to_json()) == found

    @settings(max_examples=20)
    @given(federations(), st.integers(0, 2**32))
    def test_in_each_group(self, federation, seed):
        bins, scores = federation
        rng = np.random.default_rng(seed)
        labels = {
            site: rng.choice(["x", "y"], own.size) for site, own in scores.items()
        }
        here = {g: {s: int((labels[s] == g).sum()) for s in scores} for g in "xy"}
        here = {g: sizes for g, sizes in here.items() if sum(sizes.values())}
        plan = quiet(
            groups=dict.fromkeys(here),
            n_sites=len(scores),
            curve=bins,
            confidence_level=LEVELS,
        )
        reports = [
            fc.report(
                plan, own, site=s, groups=labels[s], policy=fc.SitePolicy.unlimited()
            )
            for s, own in scores.items()
        ]
        found = fc.calibrate(plan, reports)
        for group in here:
            own = [scores[s][labels[s] == group] for s in scores]
            assert found[group].thresholds == tuple(
                pooled(bins, own, level) for level in LEVELS
            )

    @settings(max_examples=30)
    @given(federations(), st.data())
    def test_of_those_who_answered(self, federation, data):
        bins, scores = federation
        plan = quiet(
            n_points={k: v.size for k, v in scores.items()},
            curve=bins,
            confidence_level=LEVELS,
        )
        there = data.draw(st.sets(st.sampled_from(sorted(scores)), min_size=1))
        found = calibrate(plan, {site: scores[site] for site in there})
        own = [scores[site] for site in there]
        assert found.thresholds == tuple(pooled(bins, own, level) for level in LEVELS)
        assert found.missing == tuple(sorted(set(scores) - there))
        n = sum(each.size for each in own)
        assert found[0.9].server_rank in (math.ceil(Fraction(9, 10) * (n + 1)), n + 1)

    @settings(max_examples=30)
    @given(federations(), st.booleans())
    def test_for_each_site_is_the_largest_of_their_own(self, federation, is_open):
        bins, scores = federation
        sizes = (
            {"n_sites": len(scores)}
            if is_open
            else {"n_points": {k: v.size for k, v in scores.items()}}
        )
        plan = quiet(**sizes, curve=bins, promise="each-site", confidence_level=LEVELS)
        expected = [
            max(pooled(bins, [own], level) for own in scores.values())
            for level in LEVELS
        ]
        assert calibrate(plan, scores).thresholds == tuple(expected)

    @settings(max_examples=40)
    @given(federations(), st.integers(2, 6))
    def test_small_counts_that_are_left_out_only_raise_it(self, federation, least):
        bins, scores = federation
        policy = fc.SitePolicy(curves="plain", round_down_to=least)
        for promise in ("population", "each-site", "mixture"):
            sizes = {site: own.size for site, own in scores.items()}
            plan = quiet(
                n_points=sizes, curve=bins, promise=promise, confidence_level=LEVELS
            )
            whole, rounded = (
                calibrate(plan, scores),
                calibrate(plan, scores, policy=policy),
            )
            assert all(
                a <= b
                for a, b in zip(whole.thresholds, rounded.thresholds, strict=True)
            )
        report = answer_all(plan, scores, policy=policy)[0]
        assert all(count == 0 or count >= least for count in report.payload.counts)

    def test_higher_levels_have_no_smaller_ones(self):
        levels = [i / 20 for i in range(1, 20)]
        plan = fc.plan(n_points=SIZES, curve=BINS, confidence_level=levels)
        rng = np.random.default_rng(0)
        found = calibrate(plan, {site: rng.random(n) for site, n in SIZES.items()})
        assert list(found.thresholds) == sorted(found.thresholds)
        assert len(set(found.thresholds)) > 10


class TestMixture:
    """Theory, section 12: counts are weighted by the shares."""

    @pytest.mark.parametrize(
        ("sizes", "shares", "level"),
        [
            ((2, 3), None, "1/2"),
            ((3, 2), {"a": 1, "b": 3}, "1/2"),
            ((1, 1, 2), None, "0.5"),
        ],
    )
    def test_no_bags_are_covered_less_than_the_level(self, sizes, shares, level):
        """All bags of whole numbers 0 to 2, ties included, each averaged over which
        point is the new one.
        """
        grid = fc.Bins([0, 1, 2, 3])
        n_points = dict(zip("abc", sizes, strict=False))
        plan = fc.plan(
            n_points=n_points,
            promise="mixture",
            mixture=shares,
            curve=grid,
            confidence_level=Fraction(level),
        )
        design, least = plan.designs[0], Fraction(2)
        every = [list(combinations_with_replacement(range(3), n + 1)) for n in sizes]
        for bags in product(*every):
            covered, ways = Fraction(0), 0
            for unseen in product(*(range(n + 1) for n in sizes)):
                rest = [
                    bag[:out] + bag[out + 1 :]
                    for bag, out in zip(bags, unseen, strict=True)
                ]
                (q,) = combine(design, [grid.place(each) for each in rest])
                new = zip(plan.mixture.values(), bags, unseen, strict=True)
                covered, ways = (
                    covered + sum(share * (bag[i] <= q) for share, bag, i in new),
                    ways + 1,
                )
            least = min(least, covered / ways)
        assert Fraction(level) <= least < 1

    def test_a_missing_site_counts_zero(self):
        sizes = dict.fromkeys(names(26), 100)
        plan = fc.plan(n_points=sizes, promise="mixture", curve=BINS, max_missing=1)
        rng = np.random.default_rng(0)
        scores = {site: rng.random(100) for site in sizes}
        whole = calibrate(plan, scores)
        without = calibrate(plan, dict(list(scores.items())[1:]))
        assert without.server_rank == whole.server_rank == plan.server_rank
        assert whole.threshold < without.threshold < math.inf
        assert without.guarantee == plan.guarantee
        assert calibrate(plan, dict(list(scores.items())[4:])).threshold == math.inf

    def test_shares_without_a_short_common_denominator_are_rounded_down(self):
        rng = np.random.default_rng(0)
        sizes = {
            name: int(n)
            for name, n in zip(names(60), rng.integers(20, 3000, 60), strict=True)
        }
        shares = {
            name: int(x)
            for name, x in zip(names(60), rng.integers(1, 10**7, 60), strict=True)
        }
        plan = fc.plan(n_points=sizes, promise="mixture", mixture=shares, curve=BINS)
        assert plan.message.unit == 10**18
        assert plan.server_rank == 9 * 10**17
        found = calibrate(plan, {site: rng.random(n) for site, n in sizes.items()})
        assert 0.88 <= found.threshold <= 0.94


class TestVotes:
    """Theory, section 13.1."""

    @pytest.mark.parametrize(
        ("n", "votes"), [(9, 9), (99, 90), (500, 451), (5000, 4501)]
    )
    def test_on_average(self, n, votes):
        plan = fc.plan(n_sites=1, n_points=n, curve=BINS)
        assert plan.server_rank == votes
        assert plan.law.mean() == plan.guarantee.mean == pytest.approx(votes / (n + 1))
        c = np.linspace(0.7, 0.99, 9)
        np.testing.assert_allclose(
            plan.law.cdf(c), stats.beta.cdf(c, votes, n + 1 - votes), atol=1e-12
        )
        assert plan.guarantee.probability == pytest.approx(
            stats.beta.sf(0.9, votes, n + 1 - votes)
        )

    @pytest.mark.parametrize(
        ("n", "votes"),
        [(22, 22), (50, 49), (100, 95), (500, 460), (1000, 913), (5000, 4528)],
    )
    def test_with_certainty(self, n, votes):
        plan = fc.plan(n_sites=1, n_points=n, curve=BINS, criterion="conditional")
        assert plan.server_rank == votes
        assert plan.guarantee.probability >= 0.9
        assert stats.beta.sf(0.9, votes - 1, n + 2 - votes) < 0.9

    def test_with_certainty_there_are_none_for_21(self):
        with pytest.warns(
            fc.InfeasibleWarning,
            match="You need 22 cases per site, or 2 sites of 21 cases",
        ):
            plan = fc.plan(n_sites=1, n_points=21, curve=BINS, criterion="conditional")
        assert (plan.server_rank, plan.guarantee.mean) == (22, 1.0)

    @pytest.mark.parametrize(
        ("sizes", "votes", "unit"),
        [([120, 40, 377], 486, 540), ([120, 40, 377, 88], 567, 629)],
    )
    def test_of_a_mixture(self, sizes, votes, unit):
        plan = fc.plan(n_points=sizes, curve=BINS, promise="mixture")
        assert (plan.server_rank, plan.message.unit, plan.law) == (votes, unit, None)
        assert plan.guarantee.mean == votes / unit

    @pytest.mark.parametrize("criterion", ["marginal", "conditional"])
    def test_for_each_site_are_its_own(self, criterion):
        plan = fc.plan(
            n_points=SIZES, curve=BINS, promise="each-site", criterion=criterion
        )
        ranks = fc.plan(n_points=SIZES, promise="each-site", criterion=criterion)
        assert plan.message.own == (tuple(ranks.local_ranks),)
        assert plan.server_rank == 3
        assert plan.law.mean() == pytest.approx(ranks.law.mean())
        assert plan.law.cdf(0.85) == pytest.approx(ranks.law.cdf(0.85))


class TestMissing:
    @pytest.mark.parametrize("promise", ["population", "mixture", "each-site"])
    @pytest.mark.parametrize("sizes", [[9, 9, 30], [5, 60, 60, 60], [30] * 12])
    def test_a_plan_knows_what_it_tolerates(self, promise, sizes):
        """Whichever sites are missing, one choice after the other."""
        plan = quiet(n_points=sizes, curve=BINS, promise=promise, confidence_level=0.8)
        message, design = of(plan.message), plan.designs[0]
        if not plan.feasible:
            assert not message.tolerates(design, 0, 1)
            return
        for missing in (1, 2):
            finite = []
            for out in product(range(len(sizes)), repeat=missing):
                places = [i for i in range(len(sizes)) if i not in out]
                if len(places) != len(sizes) - missing:
                    continue
                there = [
                    SiteKind(
                        count=1, n=sizes[i], share=design.kinds[_kind(design, i)].share
                    )
                    for i in places
                ]
                solved = message.solve(
                    design, tuple(there), [_kind(design, i) for i in places]
                )
                finite.append(solved.levels[0].advice is None)
            assert message.tolerates(design, 0, missing) == all(finite)

    def test_what_cannot_be_tolerated_is_not_planned(self):
        with pytest.warns(fc.InfeasibleWarning, match="any 1 of which may be missing"):
            plan = fc.plan(n_points=[9, 4, 2], curve=BINS, max_missing=1)
        assert plan.designs[0].levels[0].advice == Advice(n_points=5, n_sites=6)
        assert fc.plan(n_points=[5] * 3, curve=BINS, max_missing=1).feasible
        assert fc.plan(n_points=[2] * 6, curve=BINS, max_missing=1).feasible
        assert not quiet(n_points=[2] * 5, curve=BINS, max_missing=1).feasible


def _kind(design, site):
    """The place of the kind of the site-th site."""
    return next(
        i
        for i, end in enumerate(np.cumsum([kind.count for kind in design.kinds]))
        if site < end
    )


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (
                {"max_faulty": 1},
                (
                    "max_faulty must be 0 with curves, got 1: one site can claim every"
                    " count"
                ),
            ),
            ({"promise": "new-site"}, "promise must be .* with curve, got 'new-site'"),
            ({"numbers": 2}, "numbers must be left out with curves, got 2"),
            ({"local_ranks": "paper"}, "local_ranks must be left out with curves"),
            ({"privacy": PRIVACY}, "curve must be left out with privacy"),
            (
                {"promise": "mixture", "n_points": None},
                "promise 'mixture' needs n_points",
            ),
            (
                {"promise": "each-site", "criterion": "stable"},
                "criterion must be conditional or marginal",
            ),
        ],
    )
    def test_have_one_sentence(self, options, words):
        with pytest.raises(ValueError, match=words) as refused:
            fc.plan(**{"n_sites": 5, "n_points": 50, "curve": BINS, **options})
        assert "\n" not in str(refused.value)

    def test_a_grid_is_bins(self):
        with pytest.raises(
            TypeError,
            match=r"curve must be Bins, for example Bins.uniform\(0, 1, 200\)",
        ):
            fc.plan(n_sites=5, n_points=50, curve=[0, 1])

    def test_a_site_must_allow_exact_counts(self):
        plan = fc.plan(n_points=SIZES, curve=BINS)
        with pytest.raises(fc.PolicyError, match='curves = "plain" would allow it'):
            fc.report(plan, np.arange(40), site="B")
        assert fc.report(
            plan, np.arange(40), site="B", policy=fc.SitePolicy(curves="plain")
        ).payload.counts


class TestHostileDesigns:
    """What a file may say; `check` is what every site and the server run on a plan they
    read.
    """

    def test_too_few_votes(self):
        for options in ({}, {"criterion": "conditional"}, {"promise": "mixture"}):
            plan = fc.plan(n_points=SIZES, curve=BINS, **options)
            check(plan.designs[0])
            check(change(plan, level={"votes": plan.server_rank + 1}))
            with pytest.raises(ValueError, match="votes needed are too few"):
                check(change(plan, level={"votes": plan.server_rank - 1}))

    def test_a_site_that_needs_too_little(self):
        plan = fc.plan(
            n_points=SIZES, curve=BINS, promise="each-site", confidence_level=[0.8, 0.9]
        )
        own = plan.message.own
        check(plan.designs[0])
        with pytest.raises(
            ValueError, match="own count is too small for a promise to each site"
        ):
            check(
                change(
                    plan,
                    message={"own": (own[0], (own[1][0], own[1][1] - 1, own[1][2]))},
                )
            )
        with pytest.raises(ValueError, match="keeps the largest threshold"):
            check(change(plan, level={"votes": 2}))

    def test_shares_that_are_no_mixture(self):
        plan = fc.plan(n_points=SIZES, curve=BINS, promise="mixture")
        sites = tuple(
            kind.model_copy(update={"share": Fraction(1, 2)})
            for kind in plan.designs[0].sites
        )
        with pytest.raises(ValueError, match="must add up to 1"):
            check(change(plan, sites=sites))

    def test_a_small_unit_only_raises_the_threshold(self):
        plan = fc.plan(n_points=SIZES, curve=BINS, promise="mixture")
        coarse = change(plan, message={"unit": 7}, level={"votes": 7})
        check(coarse)
        scores = [
            np.random.default_rng(i).random(n) for i, n in enumerate(SIZES.values())
        ]
        counts = [BINS.place(each) for each in scores]
        assert combine(coarse, counts) >= combine(plan.designs[0], counts)

    def test_an_infinite_threshold_with_other_votes(self):
        plan = quiet(n_points=[3, 2], curve=BINS)
        with pytest.raises(ValueError, match="votes must be out of reach"):
            check(change(plan, level={"votes": 5}))
        for level in ({"advice": None}, {"advice": None, "votes": 5}):
            with pytest.raises(ValueError, match="too few"):
                check(change(plan, level=level))

    @pytest.mark.parametrize(
        ("design", "words"),
        [
            (
                {"promise": "new-site", "criterion": "marginal"},
                "promise must be one of",
            ),
            ({"max_faulty": 1}, "max_faulty must be 0 with curves"),
            (
                {"promise": "mixture", "criterion": "conditional"},
                "criterion must be marginal",
            ),
        ],
    )
    def test_what_no_plan_has(self, design, words):
        with pytest.raises(ValueError, match=words):
            check(change(fc.plan(n_points=SIZES, curve=BINS), **design))

    @pytest.mark.parametrize("wrong", [((1,),), ((1,) * 49, (1,) * 49), ((1,) * 50,)])
    def test_offsets_and_own_counts_of_another_shape(self, wrong):
        exact, private = (
            fc.plan(n_points=SIZES, curve=BINS),
            fc.plan(n_points=SIZES, privacy=PRIVACY),
        )
        for plan, field, words in (
            (exact, "offsets", "offsets must be given with noise, and only with it"),
            (
                exact,
                "own",
                "own counts must be given for each level and each kind of sites",
            ),
            (
                private,
                "offsets",
                "offsets must be given for each level and each edge but the last",
            ),
        ):
            hostile = plan.model_copy(
                update={"designs": (change(plan, message={field: wrong}),)}
            )
            with pytest.raises(DocumentError, match=words):
                fc.Plan.from_json(hostile.to_json())


class TestReports:
    def test_counts_that_cannot_be(self):
        plan = fc.plan(n_points=SIZES, curve=fc.Bins([1, 2, 3]))
        message, design = of(plan.message), plan.designs[0]
        for counts, words in (
            ((20, 20), "2 counts instead of 3"),
            ((20, 20, 1), "at least 0 and add up to at most 40"),
            ((41, -1, 0), "at least 0 and add up to at most 40"),
        ):
            assert words in message.problem(
                design, Answer("B", 40, CurvePayload(counts=counts))
            )
        for counts in ((40, 0, 0), (0, 0, 0), (10, 10, 19)):
            assert (
                message.problem(design, Answer("B", 40, CurvePayload(counts=counts)))
                is None
            )

    def test_another_kind_of_payload_does_not_count(self):
        plan, ranks = fc.plan(n_points=SIZES, curve=BINS), fc.plan(n_points=SIZES)
        other = fc.report(ranks, np.arange(40), site="B").model_copy(
            update={"plan": plan.digest}
        )
        with pytest.raises(
            fc.RefusedReportsError, match="a payload of kind 'ranks' instead of 'curve'"
        ):
            fc.calibrate(plan, [other])

    def test_what_leaves_is_said(self):
        plan = fc.plan(n_points=SIZES, curve=BINS, confidence_level=[0.8, 0.9])
        message, design = of(plan.message), plan.designs[0]
        assert (
            message.discloses(design, 40, "B")
            == "the counts of your 40 scores in 50 cells, which show every score up to"
            " the width of a cell"
        )
        assert (
            message.count_numbers(design, 40, "B"),
            message.epsilon(design),
            message.adds_up,
        ) == (
            50,
            None,
            True,
        )
        assert message.is_bound(design)
        assert plan[0.8].local_ranks is None
        with pytest.raises(
            ValueError, match="the plan expects 40 scores from site 'B', got 41"
        ):
            message.count_numbers(design, 41, "B")

    def test_curves_of_sites_add_up(self):
        plan = fc.plan(n_points=SIZES, curve=BINS)
        rng = np.random.default_rng(1)
        scores = {site: rng.random(n) for site, n in SIZES.items()}
        counts = [report.payload.counts for report in answer_all(plan, scores)]
        together = fc.plan(n_sites=1, n_points=537, curve=BINS)
        (whole,) = answer_all(together, {"all": np.concatenate(list(scores.values()))})
        assert tuple(map(sum, zip(*counts, strict=True))) == whole.payload.counts
        assert (
            calibrate(plan, scores).threshold
            == fc.calibrate(together, [whole]).threshold
        )


def test_unnamed_sites_of_one_size_must_have_one_share():
    """Nobody could tell them apart, and each would count as the first."""
    plan = fc.plan(n_points=[50, 50], curve=BINS, promise="mixture")
    sites = tuple(
        SiteKind(count=1, n=50, share=Fraction(share)) for share in ("9/10", "1/10")
    )
    hostile = plan.model_copy(update={"designs": (change(plan, sites=sites),)})
    with pytest.raises(DocumentError, match="same"):
        fc.Plan.from_json(hostile.to_json())
