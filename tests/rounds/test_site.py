"""A site's answer in a round: a report or a fixed code, and nothing else."""

import logging

import numpy as np
import pytest

import fedconformal as fc
from fedconformal import rounds
from fedconformal.rounds import Failure, Site

LOG = logging.getLogger("fedconformal.test")
PLAN = fc.plan(n_sites=3, n_points=20, confidence_level=0.8)
PACKED = rounds.pack_plan(PLAN)
SCORES = np.arange(20.0)
SECRET = "patient 4711"
BINS = fc.Bins.uniform(0, 20, 20)


def answer(
    packed=PACKED, scores=lambda plan: SCORES, site=lambda plan: Site("A"), **options
):
    return rounds.CALIBRATE.answer(packed, scores, site, log=LOG, **options)


def test_the_report_is_that_of_files_and_the_log_shows_all_of_it(caplog):
    caplog.set_level("INFO", LOG.name)
    made = answer()
    assert rounds.unpack_report(made) == fc.report(PLAN, SCORES, site="A")
    assert f"this is everything that leaves the site: {made}" in caplog.text


def secret(*_):
    raise RuntimeError(SECRET)


@pytest.mark.parametrize(
    ("options", "failure"),
    [
        ({"packed": b"nonsense"}, Failure.PLAN),
        ({"scores": secret}, Failure.SCORES),
        ({"site": secret}, Failure.REPORT),
        ({"scores": lambda plan: SCORES[:5]}, Failure.REPORT),
        (
            {"packed": rounds.pack_plan(fc.plan(n_sites=3, n_points=20, curve=BINS))},
            Failure.POLICY,
        ),
        ({"site": lambda plan: Site("two\nlines")}, Failure.REPORT),
    ],
)
def test_whatever_goes_wrong_only_a_code_leaves(options, failure, caplog):
    assert answer(**options) is failure
    assert failure.meaning in caplog.text
    assert (SECRET in caplog.text) == (secret in options.values())


def test_groups_come_as_a_pair_of_scores_and_labels():
    plan = fc.plan(groups={"child": [8], "adult": [12]}, confidence_level=0.5)
    labels = ["child"] * 8 + ["adult"] * 12
    packed = rounds.pack_plan(plan)
    made = answer(packed, lambda plan: (SCORES, labels))
    assert rounds.unpack_report(made) == fc.report(
        plan, SCORES, groups=labels, site="A"
    )
    assert answer(packed) is Failure.SCORES
    assert (
        answer(scores=lambda plan: (SCORES, labels)) == answer()
    )  # labels that nobody asked for stay
    few = rounds.pack_plan(fc.plan(confidence_level=0.5))
    pair = (0.25, 0.75)  # two scores, and no labels
    assert rounds.unpack_report(answer(few, lambda plan: pair)).n == 2


def test_a_private_answer_is_charged_and_an_empty_budget_is_a_code(tmp_path):
    plan = fc.plan(
        n_sites=3, n_points=300, confidence_level=0.8, privacy=fc.Privacy(5.0, BINS)
    )
    book, scores = fc.Ledger.create(tmp_path / "ledger"), np.linspace(0, 20, 300)
    book.set_budget("mine", 5.0)
    mine = {
        "packed": rounds.pack_plan(plan),
        "site": lambda plan: Site("A", None, book, "mine"),
    }
    first = answer(scores=lambda plan: scores, **mine)
    assert answer(scores=lambda plan: scores, **mine) == first
    before = book.entries()
    assert answer(scores=lambda plan: 2 * scores, model="new", **mine) is Failure.BUDGET
    assert book.spent("mine") == 5
    assert book.entries() == before  # a question that is refused leaves nothing behind
    book.raise_budget("mine", 20.0, reason="two more models")
    assert answer(scores=lambda plan: 2 * scores, **mine) is Failure.BUDGET
    assert answer(scores=lambda plan: 2 * scores, model="new", **mine) != first
    assert answer(scores=lambda plan: scores, model="old", **mine) == first
    assert [entry.reason for entry in book.entries() if entry.kind == "data"] == [
        "scores under the model new"
    ]
    assert book.spent("mine") == 10


PROBABILITIES = np.random.default_rng(0).dirichlet([1, 1, 1], size=60)
TRUTH = np.random.default_rng(1).integers(0, 3, size=60)
CLASSES = ["a", "b", "c"]


class TestTruthAndPredictions:
    """The plan's score is computed at the site, and scores say which they are."""

    @pytest.mark.parametrize(
        "score",
        [fc.scores.LAC(), fc.scores.APS(), fc.scores.RAPS(penalty=0.1, k_reg=1)],
    )
    def test_the_score_is_that_of_the_plan_and_the_report_names_it(self, score):
        plan = fc.plan(n_sites=3, n_points=60, confidence_level=0.8, score=score)
        made = answer(
            rounds.pack_plan(plan),
            lambda plan: {"truth": TRUTH, "prediction": PROBABILITIES},
        )
        scores = score.score(TRUTH, PROBABILITIES)
        assert rounds.unpack_report(made) == fc.report(
            plan, scores, site="A", score=score
        )
        assert rounds.unpack_report(made).score == plan.score

    @pytest.mark.parametrize(
        ("score", "prediction"),
        [
            (fc.scores.Absolute(), np.linspace(0, 2, 60)),
            (fc.scores.Absolute(), np.linspace(0, 2, 60)[:, np.newaxis]),
            (
                fc.scores.Normalized(),
                np.column_stack([np.linspace(0, 2, 60), np.linspace(1, 2, 60)]),
            ),
            (
                fc.scores.QuantileRegression(),
                np.column_stack([np.linspace(0, 2, 60), np.linspace(1, 3, 60)]),
            ),
        ],
    )
    def test_scores_of_numbers_take_the_columns_that_they_need(self, score, prediction):
        plan = fc.plan(n_sites=3, n_points=60, confidence_level=0.8, score=score)
        truth = np.linspace(-1, 3, 60)
        made = answer(
            rounds.pack_plan(plan),
            lambda plan: {"truth": truth, "prediction": prediction},
        )
        expected = score.score(
            truth,
            (
                prediction[:, 0]
                if score == fc.scores.Absolute() and prediction.ndim > 1
                else prediction
            ),
        )
        assert rounds.unpack_report(made) == fc.report(
            plan, expected, site="A", score=score
        )

    @pytest.mark.parametrize(
        "truth", [TRUTH, [CLASSES[i] for i in TRUTH], TRUTH.astype(float)]
    )
    def test_classes_have_names_or_numbers_and_make_the_groups(self, truth):
        groups = {
            name: {"A": int((i == TRUTH).sum()), "B": 30}
            for i, name in enumerate(CLASSES)
        }
        plan = fc.plan(
            groups=groups, group_by="class", score="lac", confidence_level=0.5
        )
        made = answer(
            rounds.pack_plan(plan),
            lambda plan: {"truth": truth, "prediction": PROBABILITIES},
        )
        expected = fc.report(
            plan,
            fc.scores.LAC().score(TRUTH, PROBABILITIES),
            groups=[CLASSES[i] for i in TRUTH],
            site="A",
            score="lac",
        )
        assert rounds.unpack_report(made) == expected

    def test_columns_of_a_data_frame_are_found_by_name(self):
        pandas = pytest.importorskip("pandas")
        terms = {"classes": CLASSES}
        plan = fc.plan(
            n_sites=3, n_points=60, confidence_level=0.8, score="lac", terms=terms
        )
        frame = pandas.DataFrame(PROBABILITIES, columns=CLASSES)[["c", "a", "b"]]
        cases = rounds.read_cases(plan, {"truth": TRUTH, "prediction": frame})
        assert (
            cases.scores.tolist()
            == fc.scores.LAC().score(TRUTH, PROBABILITIES).tolist()
        )
        others = rounds.read_cases(
            plan, {"truth": ["d", *TRUTH[1:].tolist()], "prediction": frame}
        )
        assert (others.left_out, others.scores.tolist()) == (
            1,
            cases.scores[1:].tolist(),
        )
        with pytest.raises(ValueError, match="one column for each of the 3 classes"):
            rounds.read_cases(
                plan, {"truth": TRUTH, "prediction": PROBABILITIES[:, :2]}
            )

    @pytest.mark.parametrize(
        ("computed", "reason"),
        [
            (
                SCORES,
                (
                    "fixes the score lac\\(\\), and nothing says that these scores are"
                    " it: return"
                ),
            ),
            ((SCORES, SCORES), "nothing says"),
            ({"scores": SCORES}, "nothing says"),
            ({"scores": SCORES, "score": "aps"}, "that of the plan, lac.*, got aps"),
            (
                {"scores": SCORES, "score": fc.scores.APS()},
                "that of the plan, lac.*, got aps",
            ),
            (
                {"truth": TRUTH, "prediction": PROBABILITIES, "score": fc.scores.APS()},
                "score of the plan, LAC",
            ),
            ({"truth": TRUTH}, "must return scores, or a mapping .*; got 'truth'"),
            (
                {"truth": TRUTH, "prediction": PROBABILITIES, "u": 1},
                "got 'truth', 'prediction', 'u'",
            ),
            ({"scores": SCORES, "score": 7}, "must be a score or its name, got 7"),
        ],
    )
    def test_scores_that_are_not_known_to_be_those_of_the_plan_do_not_leave(
        self, computed, reason, caplog
    ):
        plan = fc.plan(n_sites=3, n_points=20, confidence_level=0.8, score="lac")
        assert answer(rounds.pack_plan(plan), lambda plan: computed) is Failure.SCORES
        with pytest.raises((TypeError, ValueError), match=reason) as error:
            rounds.read_cases(plan, computed)
        assert str(error.value) in caplog.text

    def test_a_plan_without_a_score_takes_a_named_one_and_the_report_says_so(self):
        named = {"scores": SCORES, "score": "lac"}
        made = rounds.unpack_report(answer(scores=lambda plan: named))
        assert made.score == fc.plan(score="lac").score
        assert made.model_copy(update={"score": None}) == rounds.unpack_report(answer())
        computed = {"truth": TRUTH, "prediction": PROBABILITIES}
        with pytest.raises(ValueError, match="the plan fixes none"):
            rounds.read_cases(PLAN, computed)
        cases = rounds.read_cases(PLAN, {**computed, "score": "lac"})
        assert (cases.scores.size, cases.score) == (60, made.score)

    def test_a_private_answer_refuses_no_case(self, tmp_path):
        groups = {"a": {"A": 200}, "b": {"A": 200}}
        privacy = fc.Privacy(50.0, fc.Bins.uniform(0, 1, 20))
        plan = fc.plan(
            groups=groups,
            group_by="class",
            score="lac",
            confidence_level=0.5,
            privacy=privacy,
        )
        book = fc.Ledger.create(tmp_path / "ledger")
        book.set_budget("mine", 50.0)
        truth = np.array(
            (["a", 1] * 200) + [None, "x", float("nan"), "b"], dtype=object
        )
        prediction = np.full((404, 2), 0.5, dtype=object)
        prediction[-1] = ["none", 1.0]
        sizes = plan.by_group["a"].kinds[0].n
        assert sizes == 200
        cases = rounds.read_cases(
            plan, {"truth": truth, "prediction": prediction}, private=True
        )
        assert np.isnan(cases.scores[-4:]).all()
        assert np.unique(cases.labels, return_counts=True)[1].tolist() == [3, 200, 201]

    def test_a_randomized_score_repeats_its_draws_where_there_is_a_ledger(
        self, tmp_path
    ):
        plan = fc.plan(
            n_sites=3,
            n_points=60,
            confidence_level=0.5,
            score=fc.scores.APS(randomized=True),
            privacy=fc.Privacy(9.0, fc.Bins.uniform(0, 1, 20)),
        )
        book = fc.Ledger.create(tmp_path / "ledger")
        book.set_budget("mine", 9.0)
        mine = {
            "packed": rounds.pack_plan(plan),
            "site": lambda plan: Site("A", None, book, "mine"),
        }
        computed = {"truth": TRUTH, "prediction": PROBABILITIES}
        first = answer(scores=lambda plan: computed, **mine)
        assert isinstance(first, str)
        assert answer(scores=lambda plan: computed, **mine) == first
        assert book.spent("mine") == 9
