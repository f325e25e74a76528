"""A round of checks: what travels, what a site lets out, what the server makes of
it.
"""

import logging
import zlib
from fractions import Fraction

import pytest

import fedconformal as fc
from fedconformal import monitoring, rounds
from fedconformal.documents import CheckQuestion
from fedconformal.rounds import CheckCollection, Failure, Site

LOG = logging.getLogger("fedconformal.test")
PLAN = fc.plan(n_points={"A": 20, "B": 20}, confidence_level=0.6)
PUBLISHED = fc.calibrate(PLAN, [fc.report(PLAN, range(20), site=name) for name in "AB"])
NEW = [float(i) for i in range(5, 35)]


def answer(packed=None, scores=NEW, site="A", **options):
    packed = rounds.pack_calibration(PUBLISHED) if packed is None else packed
    return rounds.CHECK.answer(
        packed, lambda plan: scores, lambda plan: Site(site), log=LOG, **options
    )


def test_the_check_is_that_of_files_and_the_log_shows_all_of_it(caplog):
    caplog.set_level("INFO", LOG.name)
    made = answer()
    assert rounds.unpack_check(made) == monitoring.answer(PUBLISHED, NEW, site="A")
    assert f"this is everything that leaves the site: {made}" in caplog.text


def test_a_signed_calibration_travels_as_a_whole_and_others_as_thresholds():
    question = rounds.unpack_calibration(rounds.pack_calibration(PUBLISHED))
    assert question == CheckQuestion.of(PUBLISHED)
    assert (question.calibration_digest, question.thresholds) == (
        PUBLISHED.digest,
        PUBLISHED.thresholds,
    )
    key = fc.SigningKey.new()
    signed = key.sign(PUBLISHED)
    assert rounds.unpack_calibration(rounds.pack_calibration(signed)) == signed
    question = rounds.unpack_calibration(rounds.pack_calibration(signed, key=key))
    assert isinstance(question, CheckQuestion)
    assert question.is_signed


def test_a_question_takes_a_few_hundred_bytes_for_any_number_of_sites():
    plan = fc.plan(
        n_points=dict.fromkeys((f"site {i}" for i in range(300)), 20), score="lac"
    )
    whole = fc.calibrate(
        plan, [fc.report(plan, range(20), site=f"site {i}") for i in range(300)]
    )
    assert len(rounds.pack_calibration(whole)) < 500


@pytest.mark.parametrize("is_signed", [True, False])
def test_every_way_of_asking_gives_the_check_of_files(is_signed, tmp_path):
    """The same answer, known again by the ledger, whether thresholds travel or the
    whole calibration.
    """
    key, book = fc.SigningKey.new(), fc.Ledger.create(tmp_path / "ledger")
    book.set_budget("new", 1.0)
    published = key.sign(PUBLISHED)
    packed = rounds.pack_calibration(published, key=key if is_signed else None)
    who = Site(
        "A",
        None,
        book,
        "new",
        fc.SitePolicy(coordinator=key.public_key),
        check_epsilon=1.0,
    )
    made = rounds.CHECK.answer(packed, lambda plan: NEW, lambda plan: who, log=LOG)
    account = {"policy": who.policy, "ledger": book, "dataset": "new", "epsilon": 1.0}
    assert rounds.unpack_check(made) == monitoring.answer(
        published, NEW, site="A", **account
    )
    assert book.spent("new") == 1


def test_a_policy_with_a_coordinator_wants_its_signature():
    key = fc.SigningKey.new()
    who = Site("A", policy=fc.SitePolicy(coordinator=key.public_key))

    def ask(packed):
        return rounds.CHECK.answer(packed, lambda plan: NEW, lambda plan: who, log=LOG)

    assert ask(rounds.pack_calibration(PUBLISHED)) is Failure.POLICY
    assert (
        ask(rounds.pack_calibration(PUBLISHED, key=fc.SigningKey.new()))
        is Failure.POLICY
    )
    question = key.sign(CheckQuestion.of(PUBLISHED))
    other = question.model_copy(update={"thresholds": (7.0,)})
    assert ask(zlib.compress(other.to_json().encode())) is Failure.POLICY
    assert ask(zlib.compress(question.to_json().encode())) == answer()


def test_other_thresholds_under_the_same_digest_are_another_question(tmp_path):
    """A coordinator that makes up thresholds pays for each of them, as for a
    calibration that it made up.
    """
    book = fc.Ledger.create(tmp_path / "ledger")
    book.set_budget("new", 2.0)
    policy = fc.SitePolicy(private_only=False, max_answers=2)
    question = CheckQuestion.of(PUBLISHED)

    def ask(threshold, epsilon=None):
        packed = zlib.compress(
            question.model_copy(update={"thresholds": (threshold,)}).to_json().encode()
        )
        who = Site("A", None, book, "new", policy, epsilon)
        return rounds.CHECK.answer(packed, lambda plan: NEW, lambda plan: who, log=LOG)

    assert [type(ask(threshold)) for threshold in (10.0, 10.0, 11.0)] == [str] * 3
    assert ask(12.0) is Failure.POLICY
    assert [type(ask(threshold, 1.0)) for threshold in (20.0, 20.0, 21.0)] == [str] * 3
    assert ask(22.0, 1.0) is Failure.BUDGET


def test_a_question_has_thresholds_that_a_calibration_could_have():
    question = CheckQuestion.of(PUBLISHED)
    levels = (Fraction(1, 2), Fraction(4, 5))
    for changes, reason in (
        ({"thresholds": (1.0, 2.0)}, "a threshold for each level"),
        (
            {"levels": levels, "thresholds": (2.0, 1.0)},
            "a higher level must not have a smaller threshold",
        ),
        ({"group": "child"}, "a group must come with what it is made of"),
        (
            {"group": "A", "group_by": ("site",)},
            "a group must come with what it is made of",
        ),
    ):
        with pytest.raises(fc.DocumentError, match=reason):
            CheckQuestion.from_json(question.model_copy(update=changes).to_json())


def test_the_server_asks_nobody_about_a_calibration_that_does_not_verify():
    forged = PUBLISHED.model_copy(update={"assumptions": ()})
    with pytest.raises(ValueError, match="this calibration does not verify"):
        CheckCollection(forged, {1: "A"}, engine="Test", log=LOG)


def test_truth_and_predictions_are_scored_for_checks_too():
    plan = fc.plan(n_points={"A": 20, "B": 20}, confidence_level=0.6, score="absolute")
    published = fc.calibrate(
        plan, [fc.report(plan, range(20), site=name) for name in "AB"]
    )
    packed = rounds.pack_calibration(published)
    made = answer(packed, {"truth": NEW, "prediction": [1.0] * len(NEW)})
    expected = monitoring.answer(published, [abs(new - 1) for new in NEW], site="A")
    assert rounds.unpack_check(made) == expected
    assert answer(packed) is Failure.SCORES


def test_a_calibration_and_its_groups_come_back_as_they_were():
    plan = fc.plan(groups={"child": None, "adult": None}, confidence_level=0.5)
    labels = ["child"] * 8 + ["adult"] * 12
    whole = fc.calibrate(
        plan, [fc.report(plan, range(20), groups=labels, site=name) for name in "AB"]
    )
    packed = rounds.pack_calibration(whole["child"])
    assert rounds.unpack_calibration(packed).thresholds == whole["child"].thresholds
    key = fc.SigningKey.new()
    signed = key.sign(whole)
    assert (
        rounds.unpack_calibration(rounds.pack_calibration(signed["child"]))
        == signed["child"]
    )
    for several in (whole, whole[0.5]):
        with pytest.raises(
            ValueError, match=r"one group of it, as in calibration\['adult'\]"
        ):
            rounds.pack_calibration(several)
    made = rounds.unpack_check(answer(packed, (list(range(20)), labels)))
    assert (made.group, made.n) == ("child", 8)
    assert answer(packed) is Failure.SCORES  # no labels
    assert answer(packed, ([1.0], ["adult"])) is Failure.REPORT  # nobody of this group


class TestPrivateChecksOfOneDataSet:
    """Each question is charged to the budget of the data set; none is refused while
    some is left.
    """

    @pytest.fixture
    def book(self, tmp_path):
        ledger = fc.Ledger.create(tmp_path / "ledger")
        ledger.set_budget("new", 1.0)
        return ledger

    def ask(self, packed, cases, book, **options):
        who = Site("A", None, book, "new", check_epsilon=0.5)
        return rounds.CHECK.answer(
            packed, lambda plan: cases, lambda plan: who, log=LOG, **options
        )

    def test_every_group_is_answered_and_charged_once(self, book):
        plan = fc.plan(groups={"child": None, "adult": None}, confidence_level=0.5)
        labels = ["child"] * 12 + ["adult"] * 18
        whole = fc.calibrate(
            plan, [fc.report(plan, NEW, groups=labels, site=name) for name in "AB"]
        )
        packed = {group: rounds.pack_calibration(whole[group]) for group in plan.groups}
        made = {group: self.ask(packed[group], (NEW, labels), book) for group in packed}
        sizes = {group: rounds.unpack_check(text).n for group, text in made.items()}
        assert sizes == {"adult": 18, "child": 12}
        assert {
            group: self.ask(packed[group], (NEW, labels), book) for group in packed
        } == made
        assert book.spent("new") == 1
        # Other labels of the same cases are another question, and other cases are other
        # data.
        book.raise_budget("new", 1.5, reason="test")
        assert isinstance(self.ask(packed["child"], (NEW, labels[::-1]), book), str)
        assert book.spent("new") == 1.5
        assert self.ask(packed["child"], (NEW[1:], labels[1:]), book) is Failure.BUDGET

    @pytest.mark.parametrize("named", [False, True])
    def test_scores_under_another_model_are_charged_to_the_same_budget(
        self, book, named
    ):
        made = []
        for number in (1, 2, 3):
            model = f"sha256:{number:064x}"
            terms = {"model": model} if named else None
            plan = fc.plan(
                n_points={"A": 20, "B": 20}, confidence_level=0.6, terms=terms
            )
            reports = [fc.report(plan, range(20), site=name) for name in "AB"]
            packed = rounds.pack_calibration(fc.calibrate(plan, reports))
            cases = [score + number for score in NEW]
            made.append(self.ask(packed, cases, book, model=None if named else model))
        assert [type(text) for text in made[:2]] == [str, str]
        assert made[2] is Failure.BUDGET
        assert book.spent("new") == 1
        assert [entry.kind for entry in book.entries("new")].count("data") == 1


def test_groups_that_are_sites_need_no_labels():
    plan = fc.plan(n_points={"A": 20, "B": 30}, group_by="site", confidence_level=0.5)
    reports = [
        fc.report(plan, range(n), site=name) for name, n in (("A", 20), ("B", 30))
    ]
    packed = rounds.pack_calibration(fc.calibrate(plan, reports)["A"])
    assert rounds.unpack_check(answer(packed)).n == 30
    assert answer(packed, site="B") is Failure.REPORT


@pytest.mark.parametrize(
    "packed",
    [
        b"no zlib",
        zlib.compress(b"null\n{}"),
        zlib.compress(b"{}"),
        zlib.compress(b'"child"\n' + PUBLISHED.to_json().encode()),
        zlib.compress(b"[]\n" + PUBLISHED.to_json().encode()),
        zlib.compress(b" " * (fc.Calibration.limit.largest + 1)),
        fc.DocumentError("not alone"),
    ],
)
def test_what_is_no_calibration_is_answered_with_a_code(packed):
    made = rounds.CHECK.answer(
        packed, lambda plan: NEW, lambda plan: Site("A"), log=LOG
    )
    assert made is Failure.CALIBRATION


def test_the_policy_and_the_ledger_hold_for_checks(tmp_path):
    strict = fc.SitePolicy(private_only=True)
    packed = rounds.pack_calibration(PUBLISHED)

    def ask(epsilon, **who):
        return rounds.CHECK.answer(
            packed,
            lambda plan: NEW,
            lambda plan: Site("A", check_epsilon=epsilon, **who),
            log=LOG,
        )

    assert ask(None, policy=strict) is Failure.POLICY
    book = fc.Ledger.create(tmp_path / "ledger")
    book.set_budget("new", 1.0)
    account = {"policy": strict, "ledger": book, "dataset": "new"}
    assert ask(2.0, **account) is Failure.BUDGET
    assert ask(1.0, **account) == ask(1.0, **account)
    assert book.spent("new") == 1


def test_the_server_counts_one_check_of_each_site(caplog):
    found = CheckCollection(
        PUBLISHED, {1: "", 2: "", 3: "", 4: ""}, engine="Test", log=LOG
    )
    found.receive(1, answer())
    found.receive(2, answer())  # the same again
    found.receive(3, answer(site="B"))
    found.receive(3, answer(site="B"))
    made = found.assess(timeout=5)
    assert [row.site for row in made.rows] == ["A", "B"]
    assert "node 4 did not answer within 5 s" in caplog.text
    assert "refused: unknown node: answers no open question" in caplog.text
    with pytest.raises(ValueError, match="0 sites sent a check"):
        CheckCollection(PUBLISHED, {}, engine="Test", log=LOG).assess(timeout=5)


def test_rounds_of_many_periods_are_watched():
    answers = []
    for month in ("2027-01", "2027-02-01/2027-02-28"):
        asked = CheckCollection(
            PUBLISHED, {1: "A", 2: "B"}, period=month, engine="Test", log=LOG
        )
        for node, site in ((1, "A"), (2, "B")):
            asked.receive(node, answer(asked.packed, site=site))
        answers += asked.assess(timeout=5).answers
    assert [check.period for check in answers] == [
        "2027-01",
        "2027-01",
        "2027-02",
        "2027-02",
    ]
    assert monitoring.watch(PUBLISHED, answers).due == "2027-03"


def test_a_check_of_another_period_does_not_count(caplog):
    asked = CheckCollection(
        PUBLISHED, {1: "A"}, period="2027-01", engine="Test", log=LOG
    )
    asked.receive(1, answer())
    with pytest.raises(ValueError, match="0 sites sent a check"):
        asked.assess(timeout=5)
    assert "checks the period None, and was asked for 2027-01" in caplog.text
    with pytest.raises(ValueError, match="period must be"):
        CheckCollection(PUBLISHED, {1: "A"}, period="soon", engine="Test", log=LOG)
    with pytest.raises(ValueError, match="period needs the coordinator's key"):
        rounds.pack_calibration(fc.SigningKey.new().sign(PUBLISHED), period="2027-01")
