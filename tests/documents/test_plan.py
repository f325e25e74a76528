"""The Plan: what it holds, what it refuses to hold, and how it is looked at."""

import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from documents.samples import edited, plan, with_digest
from fedconformal.documents import PlanBlock, ScoreRule

BINS = fc.Bins.uniform(0, 1, 100)


@pytest.fixture(scope="module")
def private():
    return fc.plan(n_sites=5, n_points=200, privacy=fc.Privacy(epsilon=1.0, bins=BINS))


@pytest.fixture(scope="module")
def grouped():
    sizes = {"old": {"A": 40, "B": 200}, "young": {"A": 90, "C": 60}}
    return fc.plan(groups=sizes, confidence_level=0.8, score="absolute")


class TestConsistency:
    @pytest.mark.parametrize(
        ("path", "value", "words"),
        [
            (("levels", 0, "server_rank"), 9, "server_rank must lie"),
            (("levels", 0, "server_rank"), 4, "do not fit together"),
            (("levels", 1, "confidence_level"), 0.8, "twice"),
            (("levels", 0, "share"), "1/2", "do not follow from the share"),
            (("levels", 0, "share"), "2/4", "lowest terms"),
            (("levels", 0, "quantile"), "9/10", "quantile if the plan is private"),
            (("blocks", 0, "ranks"), [[5]], "ranks for each level"),
            (("blocks", 0, "ranks"), [[25, 25], [28]], "different, in increasing order"),
            (("blocks", 0, "ranks"), [[*range(1, 22)], [28]], "at most 20 items"),
            (("blocks", 0, "weights"), [[1]], "one entry for each level"),
            (("blocks", 0, "weights"), [[1], [1, 2]], "one vote or as many as there are ranks"),
            (("blocks", 0, "weights"), [[2], [0]], "weights.*greater than or equal to 1"),
            (("blocks", 0, "weights"), [[2], [2**20 + 1]], "weights.*less than or equal to 1048576"),
            (("blocks", 0, "weights"), [[2], [1.5]], "weights.*valid integer"),
            (("levels", 0, "numbers"), 3, "spacing goes with several numbers"),
            (("max_missing",), -1, "max_missing"),
            (("blocks", 0, "ranks"), [[32], [5]], r"between 1 and n \+ 1 = 31"),
            (("blocks", 0, "count"), 3, "number of names differ"),
            (("blocks", 0, "names"), None, "all sites have names or none"),
            (("blocks", 0, "names"), ["A", "C"], "occurs twice"),
            (("blocks",), [], "closed plan has blocks"),
            (("blocks",), None, "an open plan"),
            (("max_faulty",), 2, "below half"),
            (("delta",), 0.1, "delta does not fit"),
            (("names",), ["A"], "closed plan"),
            (("label",), " a", "label"),
            (("epsilon",), 1e9, "epsilon"),
            (("criterion",), "best", "criterion must be one of"),
            (("promise",), "everyone", "promise must be one of"),
            (("promise",), "each-site", "criterion must be conditional or marginal"),
        ],
    )
    def test_an_inconsistent_plan_is_refused(self, path, value, words):
        with pytest.raises(fc.DocumentError, match=words) as caught:
            fc.Plan.from_json(edited(plan(), "parts", 0, *path, value=value))
        assert "\n" not in str(caught.value)

    def test_keys_are_those_of_the_sites(self):
        with pytest.raises(fc.DocumentError, match="exactly the sites"):
            fc.Plan.from_json(edited(plan(), "keys", value=[]))

    def test_unnamed_sites_of_one_size_share_their_ranks(self):
        uneven = fc.plan(n_points=[30, 40, 30], confidence_level=0.9)
        content = json.loads(uneven.to_json())
        content["parts"][0]["levels"][0].pop("share", None)
        content["parts"][0]["blocks"][2]["ranks"] = [[1]]
        with pytest.raises(fc.DocumentError, match="same ranks"):
            fc.Plan.from_json(json.dumps(content))

    def test_open_plans_are_checked_too(self):
        open_plan = fc.plan(sites=["A"], confidence_level=0.9)
        for path, value, words in [
            (("expected",), 3, "not both"),
            (("levels", 0, "server_rank"), 1, "no server_rank"),
            (("levels", 0, "share"), None, "a share for every level"),
            (("levels", 0, "numbers"), 3, "spacing goes with several numbers"),
        ]:
            with pytest.raises(fc.DocumentError, match=words):
                fc.Plan.from_json(edited(open_plan, "parts", 0, *path, value=value))
        five = fc.plan(confidence_level=0.9, numbers=5)
        for path, value, words in [
            (("levels", 0, "numbers"), 21, "numbers.*less than or equal to 20"),
            (("levels", 0, "spacing"), "58/106", "spacing must be a fraction in lowest terms"),
            (("levels", 0, "spacing"), None, "spacing goes with several numbers"),
        ]:
            with pytest.raises(fc.DocumentError, match=words):
                fc.Plan.from_json(edited(five, "parts", 0, *path, value=value))

    def test_a_closed_plan_has_its_numbers_in_its_blocks(self):
        content = json.loads(plan().to_json())
        content["parts"][0]["levels"][0].update(numbers=2, spacing="1/2")
        with pytest.raises(fc.DocumentError, match="the numbers of a closed plan are in its blocks"):
            fc.Plan.from_json(json.dumps(with_digest(content)))

    def test_a_promise_to_each_site_keeps_the_largest_report(self):
        each = fc.plan(n_points=[60, 80], promise="each-site")
        with pytest.raises(fc.DocumentError, match="keeps the largest report"):
            fc.Plan.from_json(edited(each, "parts", 0, "levels", 0, "server_rank", value=1))

    @pytest.mark.parametrize(
        "change",
        [
            lambda part: [block.update(weights=[[2]]) for block in part["blocks"]],
            lambda part: [block.update(ranks=[[1, 2]]) for block in part["blocks"]],
            lambda part: (part["blocks"][0].update(ranks=[[]]), part["levels"][0].update(server_rank=1)),
        ],
    )
    def test_a_promise_to_each_site_is_for_one_number_and_one_vote_of_each(self, change):
        """With two votes each, one small report would be enough, and the promise to the other site void."""
        content = json.loads(fc.plan(n_points=[60, 80], promise="each-site").to_json())
        content["parts"][0]["levels"][0].pop("share")
        change(content["parts"][0])
        with pytest.raises(fc.DocumentError, match="every site sends one number, of one vote"):
            fc.Plan.from_json(json.dumps(with_digest(content)))


class TestWeights:
    """Votes are part of a plan, written in one way."""

    @staticmethod
    def with_weights(document, weights):
        content = json.loads(document.to_json())
        for block in content["parts"][0]["blocks"]:
            block["weights"] = weights
        return content

    @pytest.mark.parametrize("ones", [None, [[1], [1]]])
    def test_one_vote_each_is_the_default_however_it_is_said(self, ones):
        again = fc.Plan.from_json(json.dumps(self.with_weights(plan(), ones)))
        assert again == plan()
        assert (again.digest, again.to_json()) == (plan().digest, plan().to_json())
        assert again.blocks[0].weights is None
        with pytest.raises(fc.DocumentError, match="digest"):
            fc.Plan.from_json(json.dumps(with_digest(self.with_weights(plan(), [[1], [1]]))))

    def test_the_same_votes_for_all_numbers_are_one_entry(self):
        block = PlanBlock(count=2, n=30, ranks=((20, 25), (28,)), weights=((3, 3), (1,)))
        assert block.weights == ((3,), (1,))
        assert block.votes == ((3, 3), (1,))
        assert block == PlanBlock(count=2, n=30, ranks=((20, 25), (28,)), weights=((3,), (1,)))
        different = PlanBlock(count=2, n=30, ranks=((20, 25), (28,)), weights=((3, 2), (1,)))
        assert different.votes == different.weights == ((3, 2), (1,))

    def test_what_is_not_asked_has_no_vote(self):
        block = PlanBlock(count=1, n=30, ranks=((), (28,)), weights=((), (2,)))
        assert block.votes == ((), (2,))
        with pytest.raises(ValueError, match="as many as there are ranks"):
            PlanBlock(count=1, n=30, ranks=((), (28,)), weights=((1,), (2,)))

    def test_a_private_plan_has_one_vote_each(self, private):
        """Its votes are counted per site, so that a sum of vectors will do."""
        for change in ({"weights": [[2]]}, {"ranks": [[100, 180]]}):
            content = json.loads(private.to_json())
            content["parts"][0]["blocks"][0].update(change)
            with pytest.raises(fc.DocumentError, match="every site sends one number, of one vote"):
                fc.Plan.from_json(json.dumps(with_digest(content)))


class TestPrivate:
    @pytest.mark.parametrize(
        ("path", "value"),
        [
            (("parts", 0, "levels", 0, "quantile"), "1/4"),
            (("parts", 0, "levels", 0, "slope"), None),
            (("parts", 0, "levels", 0, "slope"), "14/20"),
            (("parts", 0, "levels", 0, "quantile"), f"{2**60 - 1}/{2**60}"),
            (("parts", 0, "levels", 0, "quantile"), None),
            (("privacy", "epsilon"), 150.0),
            (("privacy", "mechanism"), "laplace"),
            (("privacy", "analysis"), "loose"),
        ],
    )
    def test_a_plan_that_cannot_be_answered_cannot_be_read(self, private, path, value):
        with pytest.raises(fc.DocumentError, match="not a plan"):
            fc.Plan.from_json(edited(private, *path, value=value))

    def test_edited_edges_are_noticed(self, private):
        content = json.loads(private.to_json())
        content["privacy"]["edges"][3] += 1e-9
        with pytest.raises(fc.DocumentError, match="digest"):
            fc.Plan.from_json(json.dumps(content))
        content["privacy"]["edges"][3] = content["privacy"]["edges"][4]
        with pytest.raises(fc.DocumentError, match="increase strictly"):
            fc.Plan.from_json(json.dumps(content))

    def test_a_private_plan_has_sizes(self, private):
        content = json.loads(private.to_json())
        part = content["parts"][0]
        del part["blocks"], part["levels"][0]["server_rank"]
        part["levels"][0]["share"] = "9/10"
        with pytest.raises(fc.DocumentError, match="needs the sizes"):
            fc.Plan.from_json(json.dumps(with_digest(content)))


class TestScore:
    @given(
        st.dictionaries(
            st.text("abc_", min_size=1, max_size=5),
            st.booleans()
            | st.integers(-10, 10)
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.text().filter(str.isprintable),
            max_size=3,
        )
    )
    def test_parameters_keep_their_type(self, parameters):
        rule = ScoreRule(name="mine", parameters=parameters)
        again = ScoreRule.model_validate_json(rule.model_dump_json())
        assert again.parameters == parameters
        kinds = {name: type(value) for name, value in again.parameters.items()}
        assert kinds == {name: type(value) for name, value in parameters.items()}


class TestGroups:
    def test_the_plan_of_one_group_is_an_ordinary_plan(self, grouped):
        alone = fc.plan(n_points={"A": 40, "B": 200}, confidence_level=0.8, score="absolute")
        assert grouped["old"] == alone
        assert grouped["old"].to_json() == alone.to_json()
        assert not grouped["old"].is_grouped
        assert grouped.by_label == {label: grouped[label] for label in grouped.labels}

    def test_what_only_one_group_can_answer_says_so(self, grouped):
        for name in ("part", "levels", "blocks", "designs", "fewest_answers", "delta"):
            with pytest.raises(
                ValueError, match=r"this plan has groups: ask one of them, as in plan\['old'\]"
            ):
                getattr(grouped, name)
        with pytest.raises(KeyError, match="no group 'adult': this plan has 'old', 'young'"):
            grouped["adult"]
        with pytest.raises(KeyError, match="this plan has no groups"):
            plan()["old"]

    def test_what_is_open_in_any_group_is_open(self):
        half = fc.plan(groups={"a": None, "b": [30, 40]})
        assert half.is_open
        assert half.law["a"] is None
        assert half.law["b"].mean() >= 0.9
        assert half.n_sites is None

    @pytest.mark.parametrize(
        ("forge", "words"),
        [
            (lambda c: c["parts"].reverse(), "alphabetical order"),
            (lambda c: c["parts"][0].pop("label"), "alphabetical order"),
            (lambda c: c["parts"][0].update(epsilon=1.0), "part of epsilon"),
            (lambda c: c["parts"][0]["levels"][0].update(confidence_level=0.7), "same confidence levels"),
            (
                lambda c: c["parts"][0].update(promise="each-site", criterion="marginal"),
                "every site sends one number, of one vote",
            ),
        ],
    )
    def test_parts_that_do_not_fit_together(self, grouped, forge, words):
        content = json.loads(grouped.to_json())
        forge(content)
        with pytest.raises(fc.DocumentError, match=words):
            fc.Plan.from_json(json.dumps(with_digest(content)))

    @pytest.mark.slow
    def test_epsilon_is_split_and_not_exceeded(self):
        sizes = {"a": [300] * 9, "b": [400] * 9}
        rule = fc.Privacy(epsilon=3.0, bins=BINS)
        split = fc.plan(groups=sizes, privacy=rule)
        assert split["a"].epsilon == split["b"].privacy.epsilon == 1.5
        assert split.cost(["b"]) == Fraction(3, 2)
        with pytest.raises(fc.DocumentError, match="add up to more"):
            fc.Plan.from_json(edited(split, "parts", 0, "epsilon", value=1.51))
        with pytest.raises(fc.DocumentError, match="one-hot"):
            fc.Plan.from_json(edited(split, "privacy", "one_hot", value=True))


class TestViews:
    def test_sites_are_found_by_name_or_by_size(self):
        named = fc.plan(n_points={"A": 120, "B": 40}, confidence_level=0.9, max_missing=1)
        assert named.part.votes_for(40, site="B") == ((named.weights[1],),)
        assert named.ranks_for(40, site="B") == ((named.local_ranks[1],),)
        for n, site, words in [
            (41, "B", "expects 40 scores from site 'B', got 41"),
            (40, "C", "one of the plan's, 'A', 'B', got 'C'"),
        ]:
            with pytest.raises(ValueError, match=words):
                named.ranks_for(n, site=site)
        sized = fc.plan(n_points=[120, 40], confidence_level=0.9, max_missing=1)
        assert sized.ranks_for(120) == ((sized.local_ranks[0],),)
        with pytest.raises(ValueError, match="expects sites with 40, 120 scores, got 7"):
            sized.ranks_for(7)
