"""The Plan: what it holds, which hostile ones are refused, and how it is looked at."""

import json
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import fedconformal as fc
from documents.samples import edited, forged, plan
from fedconformal.documents import RankLevel, ScoreRule
from fedconformal.messages import check_plan

GRID = fc.Bins.uniform(0, 1, 30)
NAMED = {"A": 60, "B": 40, "C": 90}
SIZES = {"old": {"A": 40, "B": 200}, "young": {"A": 90, "C": 60}}
PLANS = {
    "levels": plan(),
    "usual": fc.plan(n_points=NAMED),
    "uneven": fc.plan(n_points=[30, 40, 30]),
    "open": fc.plan(n_sites=["A"]),
    "anybody": fc.plan(),
    "five": fc.plan(numbers=5),
    "mixed": fc.plan(
        n_points=NAMED, promise="mixture", mixture={"A": 0.5, "B": 0.5, "C": 0}
    ),
    "drawn": fc.plan(
        n_points={f"site {i}": 30 + i for i in range(12)}, promise="new-site", numbers=2
    ),
    "ranked": fc.plan(
        n_sites=20, n_points=[50, 80] * 10, promise="new-site", criterion="conditional"
    ),
    "open-ranked": fc.plan(n_sites=20, promise="new-site", criterion="conditional"),
    "each": fc.plan(n_points=[60, 80], promise="each-site"),
    "each-levels": fc.plan(
        n_points=[60, 80], promise="each-site", confidence_level=[0.8, 0.9]
    ),
    "curve": fc.plan(n_points=[200] * 3, curve=GRID),
    "open-curve": fc.plan(curve=GRID),
    "mixed-curve": fc.plan(n_points=NAMED, promise="mixture", curve=GRID),
    "noisy": fc.plan(n_points=[200] * 5, privacy=fc.Privacy(2.0, GRID)),
    "noisy-each": fc.plan(
        n_points=[2000] * 2, promise="each-site", privacy=fc.Privacy(2.0, GRID)
    ),
    "paper": fc.plan(
        n_points=[200] * 5, privacy=fc.Privacy(10.0, GRID, analysis="paper")
    ),
    "groups": fc.plan(groups=SIZES, confidence_level=0.8, score="absolute"),
}
SHORT = {
    "D": "designs.0",
    "S": "designs.0.sites.0",
    "M": "designs.0.message",
    "L": "designs.0.levels.0",
}
SHORT["R"] = "designs.0.message.levels.0"


def at(path):
    first, *rest = path.split(".")
    return ".".join([SHORT.get(first, first), *rest])


@pytest.mark.parametrize("name", PLANS)
def test_is_read_as_it_was_written(name):
    again = fc.Plan.from_json(PLANS[name].to_json())
    assert again == PLANS[name]
    assert again.digest == PLANS[name].digest
    assert fc.Plan.from_json(forged(PLANS[name], {})) == again
    check_plan(again)


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        (
            "levels",
            {"D.levels.1.confidence_level": "0.8"},
            "a confidence level occurs twice",
        ),
        ("levels", {"L.confidence_level": 0.8}, 'exact number such as "0.9" or "1/3"'),
        ("levels", {"L.confidence_level": "0.80"}, "written as '0.8'"),
        ("levels", {"L.confidence_level": "1"}, "between 0 and 1"),
        ("levels", {"L.votes": None}, "every level needs a number of votes"),
        ("levels", {"L.votes": 10**41}, "votes: Input should be less than or equal"),
        ("levels", {"D.message": []}, "must be an object with a kind"),
        (
            "levels",
            {"M.kind": "letter"},
            "kind must be one of 'ranks', 'cases', 'curve', 'bin', got 'letter'",
        ),
        ("levels", {"M.kind": None}, "kind must be one of .* got None"),
        ("levels", {"M.colour": 1}, "colour: Extra inputs"),
        ("levels", {"M.levels": []}, "at least 1 item"),
        (
            "levels",
            {"R.ranks": [[5]]},
            "ranks and votes must be given for each kind of sites",
        ),
        ("levels", {"R.ranks": [[25, 25], [41]]}, "different, in increasing order"),
        ("levels", {"R.ranks": [[*range(1, 22)], [41]]}, "at most 20 items"),
        ("levels", {"R.ranks": [[32], [41]]}, r"between 1 and n \+ 1"),
        (
            "levels",
            {"R.votes": [[1]]},
            "ranks and votes must be given for each kind of sites",
        ),
        (
            "levels",
            {"R.votes": [[1], [1, 2]]},
            "one for all numbers of a site, or one for each",
        ),
        ("levels", {"R.votes": [[1], [1]]}, "shortest form"),
        (
            "levels",
            {"R.ranks": [[9, 25], [9, 41]], "R.votes": [[2, 2], [1]]},
            "shortest form",
        ),
        ("levels", {"R.votes": [[1], [0]]}, "votes.*greater than or equal to 1"),
        (
            "levels",
            {"R.votes": [[1], [2**20 + 1]]},
            "votes.*less than or equal to 1048576",
        ),
        ("levels", {"R.votes": [[1], [1.5]]}, "votes.*valid integer"),
        ("levels", {"D.max_missing": -1}, "max_missing"),
        ("levels", {"D.max_faulty": 2}, "below half"),
        ("levels", {"D.delta": "0.6"}, "delta must be at most 0.5"),
        ("levels", {"D.names": ["A"]}, "a plan of known sizes lists its sites"),
        ("levels", {"D.group": " a"}, "label"),
        ("levels", {"D.sites": []}, "a plan of known sizes lists its sites"),
        ("levels", {"D.sites": None}, "an open plan has neither votes nor advice"),
        ("levels", {"S.count": 3}, "number of names differ"),
        ("levels", {"S.names": None}, "all sites have names or none"),
        ("levels", {"S.names": ["A", "C"]}, "a site occurs twice"),
        ("levels", {"S.asked": False}, "a site that is not asked has none"),
        ("usual", {"keys": []}, "keys: "),
        ("anybody", {"keys": []}, "keys: "),
        (
            "usual",
            {"group_by": ["class"]},
            "group_by was given, but there are no groups",
        ),
        (
            "usual",
            {"M": {"kind": "cases", "numbers": 1}},
            "random round of 32 hexadecimal digits",
        ),
        (
            "uneven",
            {"R.rule": None, "R.ranks.2": [1]},
            "sites without names must have the same ranks",
        ),
        ("ranked", {"R.ranks.0": [3]}, "sites without names must have the same ranks"),
        ("open", {"D.expected": 3}, "not both"),
        ("open", {"L.votes": 1}, "an open plan has neither votes nor advice"),
        ("open", {"R.ranks": [[3]]}, "a rule for every level, and no ranks"),
        ("open", {"R.rule": None}, "a rule for every level, and no ranks"),
        ("open", {"R.rule.numbers": 3}, "spacing must be given with several numbers"),
        ("five", {"R.rule.numbers": 21}, "numbers.*less than or equal to 20"),
        ("five", {"R.rule.spacing": "58/106"}, "written as '29/53'"),
        (
            "five",
            {"R.rule.spacing": None},
            "spacing must be given with several numbers",
        ),
        ("open-ranked", {"R.rule.eta": None}, "a rule has a share or an eta"),
        ("open-ranked", {"R.rule.share": "0.9"}, "a rule has a share or an eta"),
        ("ranked", {"R.rule.eta": "1"}, "between 0 and 1"),
        ("mixed", {"S.share": "1/2"}, "written as '0.5'"),
        ("mixed", {"S.share": "-1/2"}, "share: must be an exact number"),
        ("mixed", {"S.share": "1/0"}, "share: must be an exact number"),
        ("drawn", {"M.numbers": 0}, "numbers"),
        ("drawn", {"M.numbers": 21}, "numbers"),
        ("drawn", {"terms": None}, "random round of 32 hexadecimal digits"),
        ("drawn", {"terms.round": "spring"}, "random round of 32 hexadecimal digits"),
        ("curve", {"M.edges.3": 0.0}, "edges: must be different, in increasing order"),
        ("curve", {"M.edges.3": "Infinity"}, "valid number"),
        (
            "curve",
            {"M.own": [[180, 180, 180]]},
            "own counts must be given for each level and each kind",
        ),
        (
            "curve",
            {"M.epsilon": "1"},
            "offsets must be given with noise, and only with it",
        ),
        (
            "noisy",
            {"M.epsilon": None},
            "offsets must be given with noise, and only with it",
        ),
        (
            "noisy",
            {"M.offsets": None},
            "offsets must be given with noise, and only with it",
        ),
        ("noisy", {"M.offsets": [[1]]}, "for each level and each edge but the last"),
        ("noisy", {"M.bounded": True}, "for each level and each edge but the last"),
        ("noisy", {"M.epsilon": "101"}, "epsilon must be between 1e-06 and 100"),
        ("noisy", {"M.epsilon": "0"}, "epsilon must be between 1e-06 and 100"),
        ("noisy", {"M.epsilon": 2.0}, "epsilon: must be an exact number"),
        ("paper", {"R.gamma": "1"}, "between 0 and 1"),
        ("paper", {"M.levels": []}, "at least 1 item"),
        ("groups", {"D.group": "zebra"}, "alphabetical order"),
        ("groups", {"D.group": None}, "alphabetical order"),
        ("groups", {"L.confidence_level": "0.7"}, "same confidence levels"),
        ("groups", {"M": {"kind": "cases", "numbers": 1}}, "same kind of message"),
    ],
)
def test_what_does_not_fit_together_cannot_be_read(name, changes, words):
    text = forged(PLANS[name], {at(path): value for path, value in changes.items()})
    with pytest.raises(fc.DocumentError, match=words) as caught:
        fc.Plan.from_json(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("levels", {"L.votes": 9}, "votes must be at most the number of votes plus 1"),
        ("levels", {"L.votes": 4}, "votes must be at most the number of votes plus 1"),
        (
            "levels",
            {"L.advice": {}},
            "votes must be at most the number of votes plus 1",
        ),
        ("levels", {"D.max_faulty": 1, "L.votes": 1}, "votes must be above max_faulty"),
        ("levels", {"R.rule": {"share": "0.5"}}, "do not follow from the share"),
        ("levels", {"D.delta": "0.1"}, "delta does not fit"),
        ("levels", {"D.criterion": "best"}, "criterion must be one of"),
        ("levels", {"D.promise": "everyone"}, "promise must be one of"),
        (
            "levels",
            {"D.promise": "each-site"},
            "criterion must be conditional or marginal",
        ),
        (
            "usual",
            {"S.share": "1/3"},
            "a share of new cases goes with a promise to a mixture",
        ),
        (
            "usual",
            {"M": {"kind": "cases", "numbers": 1}, "terms": {"round": "0" * 32}},
            "'population' does not go with the message 'cases'",
        ),
        ("each", {"L.votes": 1}, "keeps the largest report"),
        ("each", {"R.votes": [[2], [2]]}, "every site sends one number, of one vote"),
        ("each", {"R.rule": None, "R.ranks": [[1, 2], [1, 2]]}, "numbers must be 1"),
        (
            "each",
            {"R.rule": None, "R.ranks": [[], [73]], "L.votes": 1},
            "every site sends one number",
        ),
        (
            "each-levels",
            {"R.rule": None, "R.ranks": [[], [65]], "L.votes": 1},
            "every site sends one number",
        ),
        ("mixed", {"L.votes": 4492}, "too few for a promise to this mixture"),
        (
            "mixed",
            {"R.votes.0": [1, 1, 1, 1, 2**20]},
            "too few for a promise to this mixture",
        ),
        ("mixed", {"S.share": "0.25"}, "the shares of a mixture must add up to 1"),
        ("mixed", {"S.share": None}, "every site has a share"),
        (
            "mixed",
            {"S.share": f"1/{10**39 + 7}", "D.sites.1.share": f"1/{10**39 + 9}"},
            r"common denominator of at most 10\^40",
        ),
        (
            "mixed",
            {"S.share": "0", "D.sites.1.share": "1"},
            "a site without a share .* is not asked",
        ),
        (
            "mixed",
            {"D.criterion": "stable"},
            "criterion must be marginal with promise 'mixture'",
        ),
        (
            "mixed",
            {"D.promise": "population"},
            "a share of new cases goes with a promise to a mixture",
        ),
        ("mixed", {"D.max_faulty": 1}, "max_faulty must be 0 with promise 'mixture'"),
        ("drawn", {"L.votes": 20}, "too few for a promise to a new site"),
        ("drawn", {"M.numbers": 3}, "too few for a promise to a new site"),
        ("drawn", {"M.numbers": 1}, "votes must be at most the number of votes plus 1"),
        ("ranked", {"L.votes": 18}, "too few for a promise to a new site"),
        ("ranked", {"R.rule.eta": "0.999"}, "a site's rank must keep the chance eta"),
        ("ranked", {"R.rule.eta": "0.001"}, "the votes needed are too few"),
        ("ranked", {"R.rule": None}, "a level has its eta"),
        ("ranked", {"D.max_faulty": 1}, "max_faulty must be 0 with promise 'new-site'"),
        ("open-ranked", {"D.promise": "mixture"}, "criterion must be marginal"),
        ("curve", {"L.votes": 500}, "votes needed are too few"),
        ("curve", {"D.max_faulty": 1}, "one site can claim every count"),
        (
            "curve",
            {"D.promise": "new-site", "D.criterion": "marginal"},
            "does not go with curves",
        ),
        ("mixed-curve", {"L.votes": 1}, "too few for a promise to this mixture"),
        ("mixed-curve", {"S.share": "0.9"}, "must add up to 1"),
        ("noisy", {"L.votes": 880}, "votes needed are too few"),
        ("noisy", {"M.epsilon": "0.5"}, "votes needed are too few"),
        ("noisy-each", {"M.own": [[1700]]}, "own count is too small"),
        ("noisy-each", {"L.votes": 1}, "keeps the largest threshold"),
        ("paper", {"R.correction": 0}, "the correction is too small for the noise"),
        (
            "paper",
            {"R.local_rank": 150},
            "do not reach the level that the noise leaves",
        ),
        ("paper", {"R.local_rank": 200}, "must be below the number of scores"),
        ("paper", {"L.votes": 1}, "do not reach the level that the noise leaves"),
        ("paper", {"L.votes": 6}, "must be below the number of scores"),
        (
            "paper",
            {"D.criterion": "stable"},
            "criterion must be 'marginal' with the paper's",
        ),
        (
            "groups",
            {"D.promise": "each-site", "D.criterion": "marginal"},
            "every site sends one number",
        ),
    ],
)
def test_what_cannot_keep_its_promise_is_neither_answered_nor_calibrated(
    name, changes, words
):
    hostile = fc.Plan.from_json(
        forged(PLANS[name], {at(path): value for path, value in changes.items()})
    )
    for use in (
        check_plan,
        lambda plan: fc.report(plan, [0.5], site="A"),
        lambda p: fc.calibrate(p, []),
    ):
        with pytest.raises(ValueError, match=words):
            use(hostile)


@pytest.mark.slow
def test_a_thousand_odd_shares_are_refused_at_once():
    """Adding up fractions without a common denominator would take for ever."""
    names = {f"s{i}": i + 1 for i in range(1000)}
    odd = {f"designs.0.sites.{i}.share": f"1/{10**38 + 2 * i + 1}" for i in range(1000)}
    whole = fc.plan(n_points=dict.fromkeys(names, 20), promise="mixture", mixture=names)
    with pytest.raises(
        ValueError,
        match="the common denominator of all shares has more than 400 digits",
    ):
        check_plan(fc.Plan.from_json(forged(whole, odd)))


def test_edited_edges_are_noticed():
    edge = PLANS["noisy"].message.edges[3] + 1e-9
    with pytest.raises(fc.DocumentError, match="digest"):
        fc.Plan.from_json(
            edited(PLANS["noisy"], "designs", 0, "message", "edges", 3, value=edge)
        )


class TestExactNumbers:
    @given(
        st.fractions(0, 1, max_denominator=10**6)
        | st.decimals(0, 1, places=9).map(Fraction)
    )
    def test_survive(self, share):
        kind = fc.documents.SiteKind(count=1, n=9, share=share)
        written = json.loads(kind.model_dump_json())["share"]
        assert Fraction(written) == share
        assert (
            fc.documents.SiteKind.model_validate_json(
                json.dumps({"count": 1, "n": 9, "share": written})
            )
            == kind
        )

    def test_are_never_longer_than_can_be_read(self):
        with pytest.raises(
            ValueError,
            match="at most 40 digits above and below the line, or 320 decimals",
        ):
            fc.plan(5, 50, confidence_level=Fraction(10**60 + 1, 2 * 10**60 + 1))

    def test_0_9_is_nine_tenths(self):
        assert PLANS["usual"].designs[0].levels[0].confidence_level == Fraction(9, 10)
        assert PLANS["usual"].confidence_levels == (0.9,)


def test_votes_have_one_form():
    level = RankLevel.of(((20, 25), (28,)), ((3, 3), (1,)))
    assert (level.votes, level.all_votes()) == (((3,), (1,)), ((3, 3), (1,)))
    assert RankLevel.of(((20, 25), ()), ((1, 1), ())).votes == ()
    assert RankLevel.of(((20, 25), ()), ((1, 2), ())).all_votes() == ((1, 2), ())


@given(
    st.dictionaries(
        st.text("abc_", min_size=1, max_size=5),
        st.booleans()
        | st.integers(-10, 10)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=200).filter(str.isprintable),
        max_size=3,
    )
)
@example({"a": "b" * 200})
def test_parameters_of_a_score_keep_their_type(parameters):
    again = ScoreRule.model_validate_json(
        ScoreRule(name="mine", parameters=parameters).model_dump_json()
    )
    assert again.parameters == parameters
    kinds = {name: type(value) for name, value in again.parameters.items()}
    assert kinds == {name: type(value) for name, value in parameters.items()}


class TestViews:
    def test_of_one_group_and_level(self):
        grouped = fc.plan(groups=SIZES, confidence_level=[0.7, 0.8])
        alone = fc.plan(n_points=SIZES["old"], confidence_level=0.8)
        for view in (grouped["old", 0.8], grouped["old"][0.8], grouped[0.8]["old"]):
            for name in (
                "local_ranks",
                "weights",
                "server_rank",
                "n_points",
                "confidence_level",
                "criterion",
            ):
                assert getattr(view, name) == getattr(alone, name)
            assert (view.law.mean(), view.guarantee, view.feasible) == (
                alone.law.mean(),
                alone.guarantee,
                alone.feasible,
            )
        assert grouped.by_group["old"].site_names == ("A", "B")
        assert (grouped.groups, grouped.site_names, grouped.n_sites) == (
            ("old", "young"),
            ("A", "B", "C"),
            3,
        )

    @pytest.mark.parametrize(
        ("key", "name", "words"),
        [
            (
                None,
                "law",
                (
                    r"law differs by group and level: ask for one, as in plan\['old',"
                    r" 0.7\].law"
                ),
            ),
            (
                "old",
                "server_rank",
                (
                    r"server_rank differs by level: ask for one, as in plan\['old',"
                    r" 0.7\].server_rank"
                ),
            ),
            (
                0.8,
                "local_ranks",
                r"differs by group: ask for one, as in plan\['old', 0.8\].local_ranks",
            ),
            (
                None,
                "message",
                (
                    r"message differs between groups: ask for one, as in"
                    r" plan\['old'\].message"
                ),
            ),
        ],
    )
    def test_of_several_say_how_to_ask_for_one(self, key, name, words):
        grouped = fc.plan(groups=SIZES, confidence_level=[0.7, 0.8])
        with pytest.raises(ValueError, match=words):
            getattr(grouped if key is None else grouped[key], name)

    @pytest.mark.parametrize(
        ("name", "key", "error", "words"),
        [
            ("groups", "adult", KeyError, "no group 'adult': there are 'old', 'young'"),
            ("usual", "old", KeyError, "there are no groups"),
            ("levels", 0.5, KeyError, "no level 0.5: there are 0.8, 0.9"),
            ("levels", None, TypeError, "a group's label or a level selects"),
        ],
    )
    def test_of_none_say_which_there_are(self, name, key, error, words):
        with pytest.raises(error, match=words):
            PLANS[name][key]

    def test_what_is_open_in_any_group_is_open(self):
        half = fc.plan(groups={"a": None, "b": [30, 40]})
        assert half.is_open
        assert half["a"].law is None
        assert half["b"].law.mean() >= 0.9
        assert half.n_sites is None

    def test_sites_are_found_by_name_or_by_size(self):
        named, sized = PLANS["usual"].designs[0], PLANS["uneven"].designs[0]
        assert [named.find_kind(n, site=site) for site, n in NAMED.items()] == [0, 1, 2]
        assert (sized.find_kind(40), PLANS["anybody"].designs[0].find_kind(7)) == (
            1,
            None,
        )
        for design, n, site, words in [
            (named, 41, "B", "expects 40 scores from site 'B', got 41"),
            (named, 40, "D", "one of the plan's, 'A', 'B', 'C', got 'D'"),
            (sized, 7, None, "expects sites with 30, 40 scores, got 7"),
        ]:
            with pytest.raises(ValueError, match=words):
                design.find_kind(n, site=site)

    def test_what_there_is_depends_on_the_message(self):
        assert PLANS["mixed"].mixture == {
            "A": Fraction(1, 2),
            "B": Fraction(1, 2),
            "C": 0,
        }
        even = fc.plan(n_points=[9, 19], promise="mixture", confidence_level=0.5)
        assert list(even.mixture) == [Fraction(1, 3), Fraction(2, 3)]
        assert PLANS["usual"].mixture is None
        for name in ("drawn", "open-ranked", "curve"):
            assert PLANS[name].local_ranks is None
        assert (PLANS["drawn"].law, PLANS["open-ranked"].guarantee) == (None, None)
        assert PLANS["usual"].guarantee.mean == PLANS["usual"].law.mean()
        assert "np." not in repr(PLANS["usual"].guarantee)
