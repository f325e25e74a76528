"""From options to a Plan: arguments, defaults, open plans, several levels."""

from fractions import Fraction

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.messages import of
from fedconformal.planning import CRITERIA

BINS = fc.Bins.uniform(0, 1, 100)
FOUR = {"n_sites": 4, "n_points": 5}
PRIVATE = fc.Privacy(epsilon=2.0, bins=BINS)
PAPER = fc.Privacy(epsilon=10.0, bins=BINS, analysis="paper")


def ranks_for(plan, n):
    return of(plan.message).ranks_for(plan.designs[0], n, "A")


class TestCriterion:
    """Left out, it is the promise's own, or that of the private analysis."""

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("options", "meant"),
        [
            ({}, "stable"),
            ({"promise": "each-site"}, "marginal"),
            ({"privacy": PRIVATE}, "stable"),
            ({"privacy": PAPER}, "marginal"),
            ({"n_points": None, "promise": "each-site"}, "marginal"),
        ],
    )
    def test_default(self, options, meant):
        wishes = {"n_sites": 5, "n_points": 300, "confidence_level": 0.8, **options}
        default = fc.plan(**wishes)
        assert default.criterion == meant
        assert default == fc.plan(**wishes, criterion=meant)

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (
                {"promise": "each-site", "criterion": "stable"},
                "criterion must be conditional or marginal",
            ),
            (
                {"privacy": PAPER, "criterion": "stable"},
                "criterion must be 'marginal' with the paper's",
            ),
        ],
    )
    def test_an_impossible_choice_is_refused_not_replaced(self, options, words):
        with pytest.raises(ValueError, match=words):
            fc.plan(n_sites=5, n_points=500, confidence_level=0.8, **options)

    @pytest.mark.parametrize("criterion", ["marginal", "stable", "conditional"])
    def test_delta_is_kept_where_it_is_part_of_the_promise(self, criterion):
        plan = fc.plan(n_sites=5, n_points=100, criterion=criterion, delta=0.2)
        assert plan.designs[0].delta == (
            Fraction(1, 5) if CRITERIA[criterion].takes_delta else None
        )


class TestFunctionOfInputs:
    def test_the_same_wishes_give_the_same_plan_and_digest(self):
        same = [
            fc.plan(n_sites=10, n_points=79, confidence_level=0.9) for _ in range(2)
        ]
        assert same[0] == same[1]
        assert (
            same[0].digest
            == "sha256:de1f3f6f996e362957248135cfc76d758ca2959b7ad1488bf6a6ad911bb1fd40"
        )
        assert fc.plan(n_points=[79] * 10, confidence_level=0.9) == same[0]

    def test_the_papers_rule(self):
        paper = fc.plan(
            n_sites=10, n_points=79, confidence_level=0.9, criterion="marginal"
        )
        table = fc.coverage_table(n_sites=10, n_points=79)
        l, k = paper.local_ranks[0], paper.server_rank
        assert table[l - 1, k - 1] == table[table >= 0.9].min()


class TestOpenPlans:
    def test_sites_apply_the_rule_to_what_they_have(self):
        plan = fc.plan(confidence_level=0.9)
        assert plan.is_open
        assert (
            plan.law,
            plan.server_rank,
            plan.local_ranks,
            plan.n_points,
            plan.n_sites,
        ) == (None,) * 5
        assert [ranks_for(plan, n) for n in (9, 10, 99, 5)] == [
            ((9,),),
            ((10,),),
            ((90,),),
            ((6,),),
        ]
        assert fc.plan(n_sites=4, confidence_level=0.9).n_sites == 4
        assert fc.plan(["A", "B"]).n_sites == 2

    def test_several_levels(self):
        assert ranks_for(fc.plan(confidence_level=[0.8, 0.9]), 9) == ((8,), (9,))

    def test_levels_with_many_digits(self):
        level = 0.0012345678901234567
        assert ranks_for(fc.plan(confidence_level=level), 10_000) == ((13,),)


class TestArguments:
    @pytest.mark.parametrize(
        ("arguments", "error", "words"),
        [
            (
                {"n_sites": 0, "n_points": 5},
                ValueError,
                "n_sites must be between 1 and 10000000, got 0",
            ),
            (
                {"confidence_level": 90},
                ValueError,
                r"confidence_level must be a number in \(0, 1\), got 90",
            ),
            (
                {"confidence_level": "0.9"},
                TypeError,
                "confidence_level must be .* got '0.9'",
            ),
            ({"confidence_level": [0.9, 0.9]}, ValueError, "different levels"),
            (
                {"n_points": [3, -1]},
                ValueError,
                r"n_points\[1\] must be between 1 and .*, got -1",
            ),
            ({"n_points": [3, True]}, TypeError, "n_points"),
            (
                {"n_sites": 3, "n_points": [3, 1]},
                ValueError,
                "be the length of n_points, 2, got 3",
            ),
            (
                {**FOUR, "delta": 0.6},
                ValueError,
                r"delta must be .* \(0, 0.5\], got 0.6",
            ),
            (
                {**FOUR, "delta": 1e-301},
                ValueError,
                "between 1e-300 and 0.5, got 1e-301",
            ),
            (
                {**FOUR, "delta": 1e-7, "max_faulty": 1},
                ValueError,
                "1e-06 and 0.5 with max_faulty, got 1e-07",
            ),
            ({**FOUR, "max_faulty": 2}, ValueError, "max_faulty must be below half"),
            ({**FOUR, "criterion": "best"}, ValueError, "criterion must be one of"),
            ({"n_points": 5}, TypeError, "n_sites is needed"),
            ({"n_sites": 3, "n_points": 10**400}, ValueError, "n_points"),
            ({"n_sites": ["A"], "keys": {"A": "nonsense"}}, ValueError, "public_key"),
            (
                {**FOUR, "score": "best"},
                ValueError,
                "score must be one of .*got 'best'",
            ),
            (
                {"n_points": {"A": 3}, "n_sites": ["B"]},
                ValueError,
                "name the same sites",
            ),
            ({"n_sites": ["A", "A"]}, ValueError, "twice"),
            ({"n_sites": "A"}, ValueError, "n_sites"),
            (
                {"n_sites": 3, "n_points": {"A": 3, "B": 3}},
                ValueError,
                "number of site names, 2, got 3",
            ),
            (
                {"n_sites": ["A"], "keys": {"B": "ed25519:" + "0" * 64}},
                ValueError,
                "keys must hold",
            ),
            (
                {"privacy": fc.Privacy(epsilon=1, bins=BINS)},
                ValueError,
                "privacy needs n_points",
            ),
            (
                {"n_sites": 2, "n_points": 100, "privacy": 1.0},
                TypeError,
                "privacy must be a Privacy",
            ),
            (
                {"n_sites": 2, "n_points": 100, "curve": 100},
                TypeError,
                "curve must be Bins",
            ),
            (
                {"curve": BINS, "privacy": PRIVATE},
                ValueError,
                "curve must be left out with privacy",
            ),
            (
                {"curve": BINS, "numbers": 2},
                ValueError,
                "numbers must be left out with curves, got 2",
            ),
            (
                {"n_sites": 5, "curve": BINS, "max_faulty": 1},
                ValueError,
                "max_faulty must be 0 with curves",
            ),
            (
                {"curve": BINS, "promise": "new-site"},
                ValueError,
                "promise must be 'population' or .* curve",
            ),
            ({"terms": "x"}, TypeError, "terms must be a mapping"),
            ({"terms": {"colour": "red"}}, ValueError, "fact must be one of"),
            (
                {
                    "n_sites": 3,
                    "n_points": 300,
                    "local_ranks": "paper",
                    "privacy": PRIVATE,
                },
                ValueError,
                "local_ranks must be left out with curves",
            ),
        ],
    )
    def test_a_refusal_names_argument_value_and_range(self, arguments, error, words):
        with pytest.raises(error, match=words):
            fc.plan(**arguments)

    def test_a_score_is_written_with_all_its_parameters(self):
        by_name = fc.plan(score={"name": "raps", "k_reg": 2})
        assert by_name.score.parameters == fc.scores.RAPS(k_reg=2).parameters()
        assert by_name == fc.plan(score=fc.scores.RAPS(k_reg=2))
        assert fc.plan(score="lac").score.name == "lac"


class TestSizes:
    def test_names_come_with_sizes_or_apart(self):
        by_mapping = fc.plan(n_points={"B": 30, "A": 40})
        assert by_mapping.site_names == ("B", "A")
        assert by_mapping == fc.plan(["B", "A"], [30, 40])
        assert fc.plan(["A", "B"], {"B": 30, "A": 40}).site_names == ("A", "B")
        assert fc.plan(["A", "B"], 30).n_points == [30, 30]

    @pytest.mark.slow
    def test_many_sites_of_few_sizes_are_kept_by_size(self):
        sizes = np.tile([30, 40], 6000)
        plan = fc.plan(n_points=sizes, local_ranks="paper")
        assert [(kind.n, kind.count) for kind in plan.designs[0].sites] == [
            (30, 6000),
            (40, 6000),
        ]
        named = fc.plan(
            n_points={f"{j}": int(n) for j, n in enumerate(sizes)}, local_ranks="paper"
        )
        assert len(named.designs[0].sites) == 12_000
        assert named.law.mean() == plan.law.mean()
