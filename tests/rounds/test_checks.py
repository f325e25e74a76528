"""A round of checks: what travels, what a site lets out, what the server makes of it."""

import logging
import zlib

import pytest

import fedconformal as fc
from fedconformal import monitoring, rounds
from fedconformal.rounds import CheckCollection, Failure, Site

LOG = logging.getLogger("fedconformal.test")
PLAN = fc.plan(n_points={"A": 20, "B": 20}, confidence_level=0.6)
PUBLISHED = fc.calibrate(PLAN, [fc.report(PLAN, range(20), site=name) for name in "AB"])
NEW = [float(i) for i in range(5, 35)]


def answer(packed=None, scores=NEW, site="A", **options):
    packed = rounds.pack_calibration(PUBLISHED) if packed is None else packed
    return rounds.CHECK.answer(packed, lambda plan: scores, lambda plan: Site(site), log=LOG, **options)


def test_the_check_is_that_of_files_and_the_log_shows_all_of_it(caplog):
    caplog.set_level("INFO", LOG.name)
    made = answer()
    assert rounds.unpack_check(made) == monitoring.answer(PUBLISHED, NEW, site="A")
    assert f"this is everything that leaves the site: {made}" in caplog.text


def test_a_calibration_and_its_groups_come_back_as_they_were():
    assert rounds.unpack_calibration(rounds.pack_calibration(PUBLISHED)) == PUBLISHED
    plan = fc.plan(groups={"child": None, "adult": None}, confidence_level=0.5)
    labels = ["child"] * 8 + ["adult"] * 12
    whole = fc.calibrate(plan, [fc.report(plan, range(20), groups=labels, site=name) for name in "AB"])
    packed = rounds.pack_calibration(whole["child"])
    assert rounds.unpack_calibration(packed) == whole["child"]
    for several in (whole, whole[0.5]):
        with pytest.raises(ValueError, match=r"one group of it, as in calibration\['adult'\]"):
            rounds.pack_calibration(several)
    made = rounds.unpack_check(answer(packed, (list(range(20)), labels)))
    assert (made.group, made.n) == ("child", 8)
    assert answer(packed) is Failure.SCORES  # no labels
    assert answer(packed, ([1.0], ["adult"])) is Failure.REPORT  # nobody of this group


def test_groups_that_are_sites_need_no_labels():
    plan = fc.plan(n_points={"A": 20, "B": 30}, group_by="site", confidence_level=0.5)
    reports = [fc.report(plan, range(n), site=name) for name, n in (("A", 20), ("B", 30))]
    packed = rounds.pack_calibration(fc.calibrate(plan, reports)["A"])
    assert rounds.unpack_check(answer(packed)).n == 30
    assert answer(packed, site="B") is Failure.REPORT


@pytest.mark.parametrize(
    "packed",
    [
        b"no zlib",
        zlib.compress(b"null\n{}"),
        zlib.compress(b'"child"\n' + PUBLISHED.to_json().encode()),
        zlib.compress(b"[]\n" + PUBLISHED.to_json().encode()),
        zlib.compress(b" " * (fc.Calibration.limit.largest + 1)),
        fc.DocumentError("not alone"),
    ],
)
def test_what_is_no_calibration_is_answered_with_a_code(packed):
    made = rounds.CHECK.answer(packed, lambda plan: NEW, lambda plan: Site("A"), log=LOG)
    assert made is Failure.CALIBRATION


def test_the_policy_and_the_ledger_hold_for_checks(tmp_path):
    strict = fc.SitePolicy(private_only=True)
    packed = rounds.pack_calibration(PUBLISHED)

    def ask(epsilon, **who):
        return rounds.CHECK.answer(
            packed, lambda plan: NEW, lambda plan: Site("A", check_epsilon=epsilon, **who), log=LOG
        )

    assert ask(None, policy=strict) is Failure.POLICY
    book = fc.Ledger.create(tmp_path / "ledger")
    book.set_budget("new", 1.0)
    account = {"policy": strict, "ledger": book, "dataset": "new"}
    assert ask(2.0, **account) is Failure.BUDGET
    assert ask(1.0, **account) == ask(1.0, **account)
    assert book.spent("new") == 1


def test_the_server_counts_one_check_of_each_site(caplog):
    found = CheckCollection(PUBLISHED, {1: "", 2: "", 3: "", 4: ""}, engine="Test", log=LOG)
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
