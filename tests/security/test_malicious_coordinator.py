"""A plan, a calibration or a message from somebody who wants more than the site means
to give.
"""

import json
import logging
from fractions import Fraction

import numpy as np
import pytest
import typer

pytest.importorskip("flwr", reason="the extra [flower] is not installed")

from flower_grid import LocalGrid
from flwr.app import ArrayRecord
from flwr.clientapp import ClientApp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fedconformal as fc
from documents.samples import forged, with_digest
from fedconformal import monitoring, rounds
from fedconformal.cli import main
from fedconformal.documents import Check, ratio_text
from fedconformal.protocol import prepare
from fedconformal.rounds import Failure, Site

LOG = logging.getLogger("fedconformal.test")
BINS = fc.Bins.uniform(0, 10, 40)
SCORES = np.random.default_rng(0).exponential(size=500)


def greedy(n_levels, n=500, **options):
    """A plan that asks for as many different scores as it has levels."""
    levels = [0.5 + 0.49 * i / n_levels for i in range(n_levels)]
    return fc.plan(n_sites=5, n_points=n, confidence_level=levels, **options)


@pytest.fixture
def book(tmp_path):
    ledger = fc.Ledger.create(tmp_path / "ledger.db")
    ledger.set_budget("D", 1)
    return ledger


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """The command as a site would run it, in a directory with its scores and its
    ledger.
    """
    monkeypatch.chdir(tmp_path)
    np.savetxt("scores.csv", SCORES, header="score", comments="")

    def run(*arguments, code=0):
        capsys.readouterr()
        assert main([str(argument) for argument in arguments]) == code
        return capsys.readouterr()

    return run


class TestSilentDowngrade:
    """A site that has set up its privacy is never made to answer exactly."""

    def test_over_flower(self, book):
        app = ClientApp()
        fc.flower.add_conformal(app, lambda context: SCORES)
        node = (app, {"site": "A", "ledger": str(book.path), "dataset": "D"})
        grid = LocalGrid([node], tamper=self.seen)
        with pytest.raises(ValueError, match="0 sites answered"):
            fc.flower.calibrate(grid, greedy(1), timeout=60, wait=0)
        (reply,) = self.replies
        assert reply.error.code == Failure.POLICY

    def seen(self, replies):
        self.replies = list(replies)
        return replies

    def test_in_a_check(self, book):
        plan = fc.plan(n_sites=3, n_points=100)
        calibration = fc.calibrate(
            plan, [fc.report(plan, SCORES[:100], site=site) for site in "ABC"]
        )
        with pytest.raises(fc.PolicyError, match="but a ledger was given"):
            monitoring.answer(calibration, SCORES, site="A", ledger=book, dataset="D")


class TestMoreThanOneNumber:
    """What one message holds is bounded by the site, through every door."""

    @pytest.mark.slow
    def test_on_the_command_line(self, run, tmp_path):
        (tmp_path / "plan.json").write_text(greedy(26).to_json())
        order = ["report", "plan.json", "scores.csv", "--site", "A", "-o", "A.json"]
        error = run(*order, code=2).err
        assert "allows 25: max_numbers = " in error
        (tmp_path / "site.toml").write_text("max_numbers = 26\n")
        run(*order, "--policy", "site.toml")

    def test_over_flower_with_a_policy_in_the_node_configuration(self, tmp_path):
        (tmp_path / "site.toml").write_text("max_numbers = 2\n")
        app = ClientApp()
        fc.flower.add_conformal(app, lambda context: SCORES)
        codes = []

        def seen(replies):
            codes.extend(reply.error.code for reply in replies if reply.has_error())
            return replies

        grid = LocalGrid(
            [(app, {"site": "A", "policy": str(tmp_path / "site.toml")})], tamper=seen
        )
        with pytest.raises(ValueError, match="0 sites answered"):
            fc.flower.calibrate(grid, greedy(3), timeout=60, wait=0)
        assert codes == [Failure.POLICY]
        assert fc.flower.calibrate(grid, greedy(2), timeout=60, wait=0).n_answers == 1

    def test_many_plans_in_a_row_are_counted_where_there_is_a_ledger(self, book):
        policy = fc.SitePolicy(private_only=False, max_answers=3)
        account = {"ledger": book, "dataset": "D", "policy": policy}
        plans = [
            fc.plan(n_sites=5, n_points=500, confidence_level=0.5 + i / 100)
            for i in range(4)
        ]
        for plan in plans[:3]:
            fc.report(plan, SCORES, site="A", **account)
        with pytest.raises(
            ValueError, match=r"3 exact answers, .* max_answers = 4 would"
        ):
            fc.report(plans[3], SCORES, site="A", **account)
        assert book.exact_answers("D") == 3

    def test_made_up_thresholds_are_not_answered(self):
        """A calibration whose claim does not hold may be a question in disguise."""
        plan = fc.plan(n_sites=3, n_points=100, confidence_level=[0.5, 0.6, 0.7])
        real = fc.calibrate(
            plan, [fc.report(plan, SCORES[:100], site=site) for site in "ABC"]
        )
        votes = {f"parts.0.design.levels.{i}.votes": 1 for i in range(3)}
        made_up = fc.Calibration.from_json(
            forged(real, {"parts.0.thresholds": [3.0, 2.0, 1.0], **votes})
        )
        with pytest.raises(ValueError, match="this calibration does not verify"):
            monitoring.answer(made_up, SCORES, site="A")

    def test_nor_are_many_levels(self):
        plan = greedy(26, n=200)
        unlimited = fc.SitePolicy.unlimited()
        reports = [
            fc.report(plan, SCORES[:200], site=site, policy=unlimited)
            for site in "ABCDE"
        ]
        with pytest.raises(
            fc.PolicyError, match=r"26 counts of your 500 cases, .* allows 25"
        ):
            monitoring.answer(fc.calibrate(plan, reports), SCORES, site="A")


class TestAPlanThatBreaksItsOwnPromise:
    """Ranks and votes that are no calibration are a question in disguise."""

    @staticmethod
    def edited(plan, **fields):
        return fc.Plan.from_json(
            forged(
                plan, {f"designs.0.{place}": value for place, value in fields.items()}
            )
        )

    @pytest.mark.parametrize(
        ("options", "fields"),
        [
            ({"n_sites": 10}, {"levels.0.votes": 1}),
            ({"n_sites": 10}, {"message.levels.0.ranks.0": [250]}),
            ({"n_sites": 10, "criterion": "conditional"}, {"levels.0.votes": 3}),
            ({"n_sites": 10, "max_faulty": 2}, {"levels.0.votes": 3}),
            (
                {"n_sites": 3, "promise": "each-site"},
                {"message.levels.0.ranks.0": [250]},
            ),
            ({"n_sites": 10**5, "numbers": 3}, {"levels.0.votes": 10**5}),
            pytest.param(
                {"n_sites": 10**6, "numbers": 5},
                {"levels.0.votes": 10**6},
                marks=pytest.mark.nightly,
            ),
            pytest.param(
                {"n_sites": 10**6, "numbers": 5, "criterion": "conditional"},
                {"levels.0.votes": 10**6},
                marks=pytest.mark.nightly,
            ),
        ],
    )
    def test_is_not_answered_whoever_asks(self, options, fields):
        plan = fc.plan(n_points=500, **options)
        wrong = self.edited(plan, **fields)
        assert wrong.designs != plan.designs
        for call in (
            lambda: fc.report(
                wrong, SCORES, site="A", policy=fc.SitePolicy.unlimited()
            ),
            lambda: fc.calibrate(wrong, []),
        ):
            with pytest.raises(
                ValueError, match=r"do not keep its own promise|too low for the level"
            ):
                call()
        fc.report(fc.Plan.from_json(plan.to_json()), SCORES, site="A")
        made = rounds.CALIBRATE.answer(
            rounds.pack_plan(wrong),
            lambda plan: SCORES,
            lambda plan: Site("A"),
            log=LOG,
        )
        assert made == Failure.REPORT

    def test_a_level_that_is_not_reached_asks_for_no_other_rank(self):
        plan = fc.plan(n_sites=2, n_points=4)
        assert fc.report(
            fc.Plan.from_json(plan.to_json()), range(4), site="A"
        ).payload.levels[0].ranks == (4,)
        wrong = self.edited(plan, **{"message.levels.0.ranks.0": [2]})
        with pytest.raises(ValueError, match="do not keep its own promise"):
            fc.report(wrong, range(4), site="A")

    def test_a_rule_for_other_ranks_than_those_of_the_level(self):
        wrong = self.edited(
            fc.plan(confidence_level=0.9), **{"message.levels.0.rule.share": "0.2"}
        )
        with pytest.raises(
            ValueError, match="the share of a site's ranks must be the level"
        ):
            fc.report(wrong, SCORES, site="A")

    @pytest.mark.parametrize(
        "options",
        [
            {"n_points": {f"{i}": 60 + 7 * i for i in range(40)}, "numbers": 5},
            {
                "n_points": {f"{i}": 60 + 7 * i for i in range(20)},
                "numbers": 3,
                "max_faulty": 2,
            },
            {
                "n_points": {f"{i}": 60 + 7 * i for i in range(20)},
                "criterion": "conditional",
            },
            {
                "n_sites": 9,
                "n_points": 30,
                "confidence_level": [0.1, 0.5, 0.7, 0.9],
                "criterion": "marginal",
            },
            {"n_points": [30, 40, 500], "local_ranks": "paper"},
            {"n_sites": 300_000, "n_points": 60, "numbers": 3},
            {
                "n_sites": 300_000,
                "n_points": 60,
                "numbers": 3,
                "criterion": "conditional",
            },
        ],
    )
    def test_every_plan_of_the_planner_is_answered(self, options):
        plan = fc.Plan.from_json(fc.plan(**options).to_json())
        design = plan.designs[0]
        kind = next(kind for kind in design.kinds if kind.asked)
        fc.report(
            plan, np.arange(float(kind.n)), site=kind.names[0] if kind.names else "A"
        )


class TestALabelThatThePlanDoesNotHave:
    """Neither an error code nor an answer tells that there is a case of it."""

    @pytest.mark.parametrize(
        "odd", ["rare", "", None, float("nan"), "a" * 10**4, ("a",)]
    )
    @pytest.mark.parametrize("private", [False, True])
    def test_it_is_left_out_over_an_engine(self, book, odd, private):
        privacy = fc.Privacy(epsilon=0.5, bins=BINS) if private else None
        groups = {label: {"A": 250, "B": 250} for label in "ab"}
        plan = fc.plan(groups=groups, privacy=privacy, confidence_level=0.5)
        labels = ["a", "b"] * 250
        account = (book, "D") if private else (None, None)
        site = Site("A", None, *account)
        sent = []
        for scores, own in ((SCORES, labels), (np.append(SCORES, 3.0), [*labels, odd])):
            made = rounds.CALIBRATE.answer(
                rounds.pack_plan(plan),
                lambda plan, pair=(scores, own): pair,
                lambda plan: site,
                log=LOG,
            )
            sent.append(rounds.unpack_report(made))
        assert sent[0] == sent[1]

    @pytest.mark.parametrize("odd", ["rare", 7, None, float("nan"), ("a",)])
    @pytest.mark.parametrize("question", [rounds.CALIBRATE, rounds.CHECK])
    @pytest.mark.parametrize("by_class", [False, True])
    def test_a_class_that_the_plan_does_not_have_is_left_out_too(
        self, odd, question, by_class, caplog
    ):
        """Where truths are scored; a randomized score keeps its draws, so that no plan
        can choose them.
        """
        caplog.set_level("INFO", LOG.name)
        options = (
            {"groups": {"a": None, "b": None}, "group_by": "class"} if by_class else {}
        )
        plan = fc.plan(
            **options, score=fc.scores.APS(randomized=True), confidence_level=0.5
        )
        plan = plan.model_copy(update={"classes": ("a", "b")})
        table = np.random.default_rng(1).dirichlet([1, 1], 41)
        site = Site("A", policy=fc.SitePolicy(secret="s" * 32))

        def ask(truth, question, packed):
            cases = {
                "truth": np.array(truth, dtype=object),
                "prediction": table[: len(truth)],
            }
            return question.answer(
                packed, lambda plan: cases, lambda plan: site, log=LOG
            )

        known, asked = ["a", "b"] * 20, rounds.pack_plan(plan)
        if question is rounds.CHECK:
            whole = fc.calibrate(
                plan, [rounds.unpack_report(ask(known, rounds.CALIBRATE, asked))]
            )
            asked = rounds.pack_calibration(whole["a"] if by_class else whole)
        mixed = np.empty(41, dtype=object)
        mixed[:] = [*known, odd]
        made = [ask(truth, question, asked) for truth in (known, mixed)]
        assert isinstance(made[0], str)
        assert "1 case left out: of no class of the plan" in caplog.text
        if question is rounds.CALIBRATE:
            assert made[0] == made[1]
        else:  # whose draws are new each time, without a ledger
            assert rounds.unpack_check(made[1]).n == (20 if by_class else 40)

    @pytest.mark.parametrize("kept", [0, 1, 4])
    def test_classes_do_not_single_out_a_few_cases(self, kept):
        plan = fc.plan(score="lac").model_copy(update={"classes": ("rare", "x")})
        cases = {
            "truth": ["rare"] * kept + ["common"] * 40,
            "prediction": np.full((40 + kept, 2), 0.5),
        }
        packed = rounds.pack_plan(plan)
        assert rounds.CALIBRATE.answer(
            packed, lambda plan: cases, lambda plan: Site("A"), log=LOG
        ) is (Failure.POLICY)

    def test_a_site_that_answers_itself_is_told(self):
        plan = fc.plan(groups={"a": None, "b": None})
        with pytest.raises(
            ValueError, match="groups of the plan, got 'rare' in 1 of 500 rows"
        ):
            fc.report(plan, SCORES, site="A", groups=[*["a", "b"] * 249, "a", "rare"])


@st.composite
def hand_written_plans(draw):
    """A plan that no planner made, for a site A with these many points of each group,
    and these.
    """
    n_levels = draw(st.integers(1, 12))
    levels = [
        {"confidence_level": ratio_text(Fraction(1 + i, 2000))} for i in range(n_levels)
    ]
    labels = draw(st.sampled_from([[None], ["a"], ["a", "b"], list("abcdefghijklmno")]))
    sizes = [draw(st.sampled_from([4, 5, 30, 60, 400])) for _ in labels]
    if draw(st.booleans()):
        spaced = {
            "numbers": st.integers(2, 20),
            "spacing": st.sampled_from(["1/3", "2"]),
        }
        rules = st.just({}) | st.fixed_dictionaries(spaced)
        levels = [
            {"confidence_level": ratio_text(Fraction(20 + i, 40))}
            for i in range(n_levels)
        ]
        shares = [{"share": level["confidence_level"]} for level in levels]
        parts = [
            {
                "levels": levels,
                "message": _ranks([{"rule": share | draw(rules)} for share in shares]),
            }
            for _ in labels
        ]
    else:
        parts = [_closed(draw, levels, n) for n in sizes]
    named = [{} if label is None else {"group": label} for label in labels]
    common = {"promise": "population", "criterion": "marginal"}
    fields = [common | label | part for label, part in zip(named, parts, strict=True)]
    return {"format": "fedconformal/plan", "version": 1, "designs": fields}, dict(
        zip(labels, sizes, strict=True)
    )


def _closed(draw, levels, n):
    one = st.lists(
        st.integers(1, n + 1), min_size=1, max_size=min(4, n + 1), unique=True
    ).map(sorted)
    ranks = [draw(one) for _ in levels]
    return {
        "sites": [{"count": 2, "n": n, "names": ["A", "B"]}],
        "message": _ranks([{"ranks": [each]} for each in ranks]),
        "levels": [level | {"votes": 1} for level in levels],
    }


def _ranks(levels):
    return {"kind": "ranks", "levels": levels}


@pytest.mark.nightly
@given(hand_written_plans(), st.sampled_from([None, 1, 7]))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_plan_at_all_gets_more_than_the_policy_allows(asked, most):
    """Scores that differ show which of them left; a group's size is told with at least
    one number.
    """
    fields, sizes = asked
    policy = fc.SitePolicy(max_numbers=most)
    scores = np.arange(float(sum(sizes.values())))
    labels = np.repeat([str(label) for label in sizes], list(sizes.values()))
    try:
        plan = fc.Plan.from_json(json.dumps(with_digest(fields)))
        sent = fc.report(
            plan,
            scores,
            site="A",
            groups=labels if plan.is_grouped else None,
            policy=policy,
        )
    except ValueError:
        return
    left = [
        {
            value
            for level in part.payload.levels
            for value in level.values
            if value < np.inf
        }
        for part in sent.parts
    ]
    n = sum(part.n for part in sent.parts)
    assert sum(max(1, len(values)) for values in left) <= policy.numbers_of(n)
    assert all(part.group is None or part.n >= policy.min_group for part in sent.parts)


class TestBeforeAnythingIsComputed:
    """What can be refused without looking at a score is."""

    @pytest.mark.parametrize(
        ("plan", "policy"),
        [
            (
                fc.plan(
                    n_sites=5, n_points=500, terms={"expires": "2001-01-01T00:00:00Z"}
                ),
                None,
            ),
            (fc.plan(n_sites=5, n_points=500), fc.SitePolicy(private_only=True)),
            (fc.plan(n_sites=5, n_points=500, curve=BINS), None),
            (
                fc.plan(n_sites=5, n_points=500),
                fc.SitePolicy(coordinator=fc.SigningKey.new().public_key),
            ),
        ],
    )
    def test_no_score_is_computed(self, plan, policy):
        computed = []
        site = Site("A", policy=policy)
        made = rounds.CALIBRATE.answer(
            rounds.pack_plan(plan), computed.append, lambda plan: site, log=LOG
        )
        assert isinstance(made, Failure)
        assert computed == []

    @pytest.mark.parametrize(
        "policy",
        [
            fc.SitePolicy(private_only=True),
            fc.SitePolicy(coordinator=fc.SigningKey.new().public_key),
        ],
    )
    def test_nor_for_a_check(self, policy):
        plan = fc.plan(n_sites=3, n_points=100)
        calibration = fc.calibrate(
            plan, [fc.report(plan, SCORES[:100], site=site) for site in "ABC"]
        )
        computed = []
        made = rounds.CHECK.answer(
            rounds.pack_calibration(calibration),
            computed.append,
            lambda plan: Site("A", policy=policy),
            log=LOG,
        )
        assert made is Failure.POLICY
        assert computed == []

    def test_one_group_of_a_plan_is_no_plan(self):
        whole = fc.plan(
            groups={"a": [50] * 4}, terms={"expires": "2001-01-01T00:00:00Z"}
        )
        for use in (
            lambda plan: fc.report(plan, SCORES[:50], site="A"),
            lambda plan: fc.calibrate(plan, []),
        ):
            with pytest.raises(TypeError, match="plan must be a Plan, got PlanView"):
                use(whole["a"])

    def test_an_answer_that_was_prepared_in_time_may_come_too_late(self, monkeypatch):
        plan = fc.plan(
            n_sites=5, n_points=500, terms={"expires": "9999-01-01T00:00:00Z"}
        )
        prepared = prepare(plan, SCORES, site="A")
        monkeypatch.setattr(
            fc.documents.Terms, "has_expired", lambda self, now=None: True
        )
        with pytest.raises(ValueError, match="expired"):
            prepared.report()

    def test_nor_is_noise_drawn_too_late(self, book, monkeypatch):
        terms = {"expires": "9999-01-01T00:00:00Z"}
        plan = fc.plan(
            n_sites=5, n_points=500, privacy=fc.Privacy(0.5, BINS), terms=terms
        )
        prepared = prepare(plan, SCORES, site="A", ledger=book, dataset="D")
        monkeypatch.setattr(
            fc.documents.Terms, "has_expired", lambda self, now=None: True
        )
        with pytest.raises(ValueError, match="expired"):
            prepared.report()
        assert book.spent("D") == 0


def test_how_many_points_a_group_has_is_a_number_too():
    """Ranks that no site reaches would tell every group's size for nothing."""
    labels = np.repeat([f"g{i:03}" for i in range(50)], 10)
    plan = fc.plan(
        groups=dict.fromkeys(sorted(set(labels))),
        n_sites=5,
        confidence_level=0.999,
        local_ranks="paper",
    )
    with pytest.raises(
        fc.PolicyError, match=r"50 of your 500 scores would leave, .* allows 25"
    ):
        fc.report(plan, SCORES, site="A", groups=labels)


def test_only_the_groups_that_are_answered_count_for_one_in_twenty():
    sizes = {"big": {"B": 1900}, "x": {"A": 100, "B": 100}}
    levels = [0.5 + 0.02 * i for i in range(11)]
    plan = fc.plan(groups=sizes, confidence_level=levels)
    labels = ["big"] * 1900 + ["x"] * 100
    with pytest.raises(
        fc.PolicyError,
        match="of your 100 scores would leave, and the site's policy allows 10",
    ):
        fc.report(plan, np.arange(2000.0), site="A", groups=labels)


def test_cases_that_are_left_out_of_a_check_do_not_count_for_one_in_twenty():
    """Hundreds of cases of rare kinds do not let more be told of forty others."""
    levels = [0.5 + i / 20 for i in range(8)]
    plan = fc.plan(n_sites=3, n_points=200, confidence_level=levels)
    calibration = fc.calibrate(
        plan, [fc.report(plan, SCORES[:200], site=site) for site in "ABC"]
    )
    kinds = [f"kind {i}" for i in range(98) for _ in range(4)] + ["a", "b"] * 20
    with pytest.raises(
        fc.PolicyError, match=r"16 counts of your 40 cases, .* allows 10"
    ):
        monitoring.answer(calibration, np.arange(432.0), site="A", by={"kind": kinds})


class TestChargedBeforeAsked:
    """A person who says no has spent nothing."""

    def test_no_and_yes(self, run, book, monkeypatch, tmp_path):
        book.set_budget("private", 5)
        plan = fc.plan(
            n_sites=4, n_points=500, privacy=fc.Privacy(epsilon=2.0, bins=BINS)
        )
        (tmp_path / "plan.json").write_text(plan.to_json())
        monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
        account = ["--ledger", "ledger.db", "--dataset", "private"]
        order = [
            "report",
            "plan.json",
            "scores.csv",
            "--site",
            "A",
            *account,
            "-o",
            "A.json",
        ]

        def no(*_, **__):
            raise typer.Abort

        monkeypatch.setattr("typer.confirm", no)
        run(*order, code=130)
        assert [entry.kind for entry in book.entries("private")] == ["budget"]
        assert not (tmp_path / "A.json").exists()
        monkeypatch.setattr("typer.confirm", lambda *_, **__: None)
        assert "costs epsilon 2 of the 5 that are left" in run(*order).err
        assert book.spent("private") == 2
        assert (tmp_path / "A.json").exists()


class TestSameQuestionSameAnswer:
    """Noise is drawn once per question, whatever a GPU does to the last bit of a
    score.
    """

    @pytest.fixture(scope="class")
    @classmethod
    def options(cls):
        return {
            "n_sites": 4,
            "n_points": 500,
            "privacy": fc.Privacy(epsilon=0.5, bins=BINS),
        }

    def test_a_plan_that_names_its_model_is_answered_once(self, book, options):
        plan = fc.plan(**options, terms={"model": "sha256:" + "0" * 64})
        first = fc.report(plan, SCORES, site="A", ledger=book, dataset="D")
        for scores in (
            np.nextafter(SCORES, 9),
            SCORES[::-1] * (1 + 1e-15),
        ):
            assert fc.report(plan, scores, site="A", ledger=book, dataset="D") == first
        assert book.spent("D") == 0.5

    def test_another_model_than_the_plan_says_is_not_answered(self, book, options):
        plan = fc.plan(**options, terms={"model": "sha256:" + "0" * 64})
        app = ClientApp()
        fc.flower.add_conformal(app, lambda context: SCORES)
        grid = LocalGrid(
            [(app, {"site": "A", "ledger": str(book.path), "dataset": "D"})]
        )
        with pytest.raises(
            ValueError, match="arrays must be the model that the plan names"
        ):
            fc.flower.calibrate(
                grid, plan, ArrayRecord([np.arange(3.0)]), timeout=60, wait=0
            )
        sent = rounds.CALIBRATE.answer(  # from a server that asks all the same
            rounds.pack_plan(plan),
            lambda plan: SCORES,
            lambda plan: Site("A", None, book, "D"),
            model=f"sha256:{1:064}",
            log=LOG,
        )
        assert sent is Failure.REPORT
        assert book.spent("D") == 0

    def test_refused_questions_leave_nothing_behind(self, book, options):
        """After many of them the original scores are answered as if nothing had
        been.
        """
        costly = fc.plan(**{**options, "privacy": fc.Privacy(epsilon=4.0, bins=BINS)})
        before = book.entries()
        for i in range(5):
            made = rounds.CALIBRATE.answer(
                rounds.pack_plan(costly),
                lambda plan, i=i: SCORES * (1 + i),
                lambda plan: Site("A", None, book, "D"),
                model=f"sha256:{i:064}",
                log=LOG,
            )
            assert made is Failure.BUDGET
        assert book.entries() == before
        fc.report(fc.plan(**options), SCORES, site="A", ledger=book, dataset="D")


def test_only_the_release_of_a_private_check_is_printed(run, book, tmp_path):
    plan = fc.plan(n_sites=3, n_points=100)
    calibration = fc.calibrate(
        plan, [fc.report(plan, SCORES[:100], site=site) for site in "ABC"]
    )
    (tmp_path / "c.json").write_text(calibration.to_json())
    order = [
        "check",
        "c.json",
        "scores.csv",
        "--site",
        "A",
        "--private",
        0.05,
        "-o",
        "check.json",
    ]
    printed = run(*order, "--ledger", "ledger.db", "--dataset", "D", "--json")
    made = Check.read(tmp_path / "check.json")
    assert json.loads(printed.out) == json.loads(made.to_json())
    assert float(made.epsilon) == 0.05
    for word in ("coverage", "interval", "p_value"):
        assert word not in printed.out + printed.err
