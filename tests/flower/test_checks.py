"""Checks over Flower: what sites see of a calibration on new cases, and what they let
out of it.
"""

import numpy as np
import pytest

import fedconformal as fc
from fedconformal import monitoring

pytest.importorskip("flwr", reason="the extra [flower] is not installed")

from flower_grid import LocalGrid
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

from fedconformal.flower import add_conformal, calibrate, check, conformal_mod

SITES = ("A", "B", "C")
OLD = {name: np.random.default_rng(i).random(60) for i, name in enumerate(SITES)}
NEW = {name: np.random.default_rng(10 + i).random(40) for i, name in enumerate(SITES)}
KINDS = {name: np.where(scores < 0.5, "child", "adult") for name, scores in NEW.items()}
OLD_KINDS = {
    name: np.where(scores < 0.5, "child", "adult") for name, scores in OLD.items()
}


def node(name, new=None, **config):
    def new_cases(context):
        if isinstance(new, Exception):
            raise new
        return (NEW[name] if new is None else new), KINDS[name]

    app = ClientApp()
    add_conformal(
        app, lambda context: (OLD[name], OLD_KINDS[name]), check_scores_fn=new_cases
    )
    return app, {"site": name, **config}


def grid(**options):
    return LocalGrid([node(name) for name in SITES], **options)


def calibration(**wishes):
    plan = fc.plan(
        n_points=dict.fromkeys(SITES, 60), confidence_level=[0.8, 0.9], **wishes
    )
    return fc.calibrate(plan, [fc.report(plan, OLD[name], site=name) for name in SITES])


def test_the_same_assessment_as_from_files():
    published = calibration()
    found = check(grid(), published, timeout=60)
    answers = [monitoring.answer(published, NEW[name], site=name) for name in SITES]
    assert found == monitoring.compare(published, answers)
    assert [(row.site, row.check.n) for row in found.rows] == [
        (name, 40) for name in SITES for _ in range(2)
    ]


def test_sites_whose_policy_names_the_coordinator_answer_what_its_key_signs(tmp_path):
    key = fc.SigningKey.new()
    (tmp_path / "policy.toml").write_text(f'coordinator = "{key.public_key}"\n')
    nodes = LocalGrid(
        [node(name, policy=str(tmp_path / "policy.toml")) for name in SITES]
    )
    published = calibration()
    with pytest.raises(ValueError, match="0 sites sent a check"):
        check(nodes, published, timeout=60)
    found = check(nodes, published, timeout=60, period="2027-03", key=key)
    assert [row.site for row in found.rows] == [
        name for name in SITES for _ in range(2)
    ]


def test_one_group_of_a_calibration_is_checked_on_its_own_cases():
    plan = fc.plan(
        groups={"child": None, "adult": None}, n_sites=list(SITES), confidence_level=0.8
    )
    whole = grid()
    published = calibrate(whole, plan, timeout=60)
    found = check(whole, published["child"], timeout=60)
    children = {row.site: row.check.n for row in found.rows}
    assert children == {name: int((KINDS[name] == "child").sum()) for name in SITES}
    with pytest.raises(
        ValueError, match=r"one group of it, as in calibration\['adult'\]"
    ):
        check(whole, published, timeout=60)


def test_the_site_decides_that_its_answer_is_private_and_pays_once(tmp_path):
    fc.Ledger.create(tmp_path / "ledger").set_budget("new", 2.0)
    config = {
        "ledger": str(tmp_path / "ledger"),
        "check-dataset": "new",
        "check-epsilon": 2.0,
    }
    whole, published = LocalGrid([node("A", **config), node("B")]), calibration()
    first = check(whole, published, timeout=60, wait=0)
    assert first == check(whole, published, timeout=60, wait=0)
    assert {row.site: row.epsilon for row in first.rows} == {"A": 2.0, "B": None}
    assert fc.Ledger(tmp_path / "ledger").spent("new") == 2


def test_a_calibration_that_does_not_verify_is_not_asked_about():
    published = calibration()
    part = published.parts[0]
    levels = tuple(each.model_copy(update={"votes": 1}) for each in part.design.levels)
    design = part.design.model_copy(update={"levels": levels})
    forged = published.model_copy(
        update={"parts": (part.model_copy(update={"design": design}),)}
    )
    whole = grid()
    with pytest.raises(ValueError, match="this calibration does not verify"):
        check(whole, forged, timeout=60)
    assert whole.sent == []


def test_sites_without_new_cases_or_with_trouble_send_a_code(caplog):
    silent = ClientApp(
        lambda context: 1 / 0, mods=[conformal_mod(lambda context: OLD["C"])]
    )
    nodes = [
        node("A"),
        node("B", new=RuntimeError("patient 4711")),
        (silent, {"site": "C"}),
    ]
    seen = []
    whole = LocalGrid(nodes[:2], tamper=lambda replies: seen.extend(replies) or replies)
    found = check(whole, calibration(), timeout=60, wait=0)
    assert {row.site for row in found.rows} == {"A"}
    assert (
        "node 101 sent no check: the site could not compute its scores" in caplog.text
    )
    assert "patient 4711" not in repr(seen)
    with pytest.raises(
        ZeroDivisionError
    ):  # no check_scores_fn: the message is left to the app
        check(LocalGrid(nodes[2:]), calibration(), timeout=60, wait=0)


def test_contradictions_strangers_and_nonsense_do_not_count(caplog):
    named = {100: "A", 101: "B", 102: "Z"}
    found = check(grid(names=named), calibration(), timeout=60)
    assert {row.site for row in found.rows} == {"A", "B"}
    assert "refused: Z: registered as 'Z', but reports as 'C'" in caplog.text
    twice = LocalGrid([node("A"), node("B"), node("A", new=NEW["A"] + 1)])
    assert {row.site for row in check(twice, calibration(), timeout=60).rows} == {"B"}
    assert "2 different checks from this site" in caplog.text


OTHER = monitoring.answer(calibration(max_faulty=1), NEW["A"], site="A").to_json()


@pytest.mark.parametrize(
    "check_text", [None, "{}", OTHER], ids=["none", "empty", "of another calibration"]
)
def test_what_is_no_check_of_this_calibration_is_refused(check_text, caplog):
    content = (
        {} if check_text is None else {"conformal": ConfigRecord({"check": check_text})}
    )
    whole = grid()
    whole.tamper = lambda replies: [
        Message(RecordDict(content), reply_to=whole.sent[0]),
        *replies[:-1],
    ]
    assert {row.site for row in check(whole, calibration(), timeout=60).rows} == {
        "B",
        "C",
    }
    assert "refused: node 100" in caplog.text


def test_a_calibration_for_one_model_is_not_checked_under_another(caplog):
    mine, other = ArrayRecord([np.array([1.0])]), ArrayRecord([np.array([2.0])])
    published = calibration(terms={"model": mine})
    assert {row.site for row in check(grid(), published, mine, timeout=60).rows} == set(
        SITES
    )
    with pytest.raises(ValueError, match="0 sites sent a check"):
        check(grid(), published, other, timeout=60)
