"""Answers kept as they arrive: a coordinator that dies goes on from there, and asks
nobody twice.
"""

import logging
import re

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.protocol import model_digest
from fedconformal.rounds import Failure, Folder, ReportCollection, new_folder

LOG = logging.getLogger("fedconformal.test")
PLAN = fc.plan(n_points={"A": 20, "B": 20, "C": 20}, confidence_level=0.8)
REPORTS = {name: fc.report(PLAN, range(20), site=name) for name in "ABC"}
NAMED = {1: "A", 2: "B", 3: "C"}


def begin(path, nodes=NAMED, plan=PLAN):
    """A coordinator starts, or starts again."""
    return ReportCollection(
        plan, nodes, engine="Test", log=LOG, folder=Folder(path, plan)
    )


def send(found, nodes=NAMED, reports=REPORTS):
    for node in found.to_ask:
        found.receive(node, reports[nodes[node]].to_json(indent=None))


def finish(found, on_refused="skip"):
    return found.calibrate(timeout=5, on_refused=on_refused)


def test_a_coordinator_that_dies_in_the_middle_asks_only_who_has_not_answered(tmp_path):
    first = begin(tmp_path / "round")
    first.receive(1, REPORTS["A"].to_json(indent=None))
    first.fail(2, Failure.SCORES)
    again = begin(tmp_path / "round")
    assert again.to_ask == (2, 3)
    send(again)
    assert finish(again).to_json() == fc.calibrate(PLAN, REPORTS.values()).to_json()


def test_a_complete_round_asks_nobody_and_gives_the_same_bytes(tmp_path):
    first = begin(tmp_path)
    first.receive(1, REPORTS["A"].to_json(indent=None))
    first.receive(2, REPORTS["C"].to_json(indent=None))  # registered as another
    first.receive(None, "stray")
    made = finish(first)
    assert made.missing == ("B", "C")
    again = begin(tmp_path)
    assert again.to_ask == ()
    assert finish(again).to_json() == made.to_json()
    (tmp_path / "complete").unlink()  # another chance for those that were missing
    assert begin(tmp_path).to_ask == (3,)


def test_sites_are_known_by_name_under_new_numbers(tmp_path):
    send(begin(tmp_path))
    again = begin(tmp_path, {7: "A", 8: "B", 9: "C"})
    assert again.to_ask == ()
    twins = begin(tmp_path, {7: "A", 8: "A", 9: "C"})
    assert twins.to_ask == (
        7,
        8,
    )  # two of one name: each is asked, so that a contradiction shows
    twins.receive(7, REPORTS["A"].to_json(indent=None))
    twins.receive(8, fc.report(PLAN, range(20, 40), site="A").to_json(indent=None))
    assert finish(twins).missing == ("A",)


def test_nodes_without_names_that_come_back_say_the_same_again(tmp_path):
    nodes = {1: "", 2: "", 3: ""}
    first = begin(tmp_path, nodes)
    first.receive(1, REPORTS["A"].to_json(indent=None))
    assert begin(tmp_path, nodes).to_ask == (2, 3)
    again = begin(tmp_path, {11: "", 12: "", 13: ""})
    assert again.to_ask == (11, 12, 13)
    send(again, {11: "A", 12: "B", 13: "C"})
    made = finish(again)
    assert (made.n_answers, made.refused) == (3, ())


def test_a_kept_report_counts_and_not_another_that_its_site_sends_under_a_new_number(
    tmp_path,
):
    first = begin(tmp_path, {1: "", 2: "", 3: ""})
    first.receive(1, REPORTS["A"].to_json(indent=None))
    first.receive(
        2,
        REPORTS["B"].model_copy(update={"plan": fc.plan().digest}).to_json(indent=None),
    )
    again = begin(tmp_path, {11: "", 12: "", 13: ""})
    other = fc.report(
        PLAN, range(20, 40), site="A"
    )  # of a randomized score, for example
    send(again, {11: "A", 12: "B", 13: "C"}, REPORTS | {"A": other})
    made = finish(again)
    assert made.answered == (
        "A",
        "B",
        "C",
    )  # the one of B that was kept answers another plan
    assert made.thresholds == fc.calibrate(PLAN, REPORTS.values()).thresholds
    (refusal,) = [refusal for refusal in made.refused if refusal.source == "node 11"]
    assert refusal.reason == "'A' has answered before: its report in the folder counts"
    (tmp_path / "complete").unlink()
    assert finish(begin(tmp_path, {11: "", 12: "", 13: ""})) == made


def test_a_round_that_nobody_answered_is_not_over(tmp_path):
    with pytest.raises(ValueError, match="0 sites answered"):
        finish(begin(tmp_path))
    assert begin(tmp_path).to_ask == (1, 2, 3)


def test_a_folder_holds_the_answers_to_one_plan(tmp_path):
    send(begin(tmp_path))
    with pytest.raises(
        ValueError,
        match=r"must be of this plan, but .* answers another one, .*plan\.json",
    ):
        Folder(tmp_path, fc.plan(n_sites=3))
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("mine")
    with pytest.raises(ValueError, match="must be a new folder"):
        Folder(other, PLAN)
    with pytest.raises(ValueError, match="must be a folder"):
        Folder(other / "thesis.txt", PLAN)


def test_a_folder_holds_answers_under_one_model(tmp_path):
    Folder(tmp_path, PLAN, model="sha256:1").complete()
    assert Folder(tmp_path, PLAN, model="sha256:1").is_complete
    for other in ("sha256:2", None):
        with pytest.raises(ValueError, match=r"under another one \(sha256:1, not "):
            Folder(tmp_path, PLAN, model=other)


@pytest.mark.parametrize("name", ["plan", "../../up", "." * 200, "é" * 200])
def test_no_name_of_a_node_leads_out_of_the_folder_or_to_another_file(name, tmp_path):
    folder = Folder(tmp_path / "round", PLAN)
    folder.keep("1", name, REPORTS["A"])
    folder.keep("2", name, REPORTS["B"])
    assert folder.answered(dict.fromkeys("123", name)) == {"1", "2"}
    assert sorted(report.site for report in folder.read()[0]) == ["A", "B"]
    assert [path.name for path in tmp_path.iterdir()] == ["round"]


def test_a_report_may_be_put_there_and_what_is_none_is_refused_and_named(tmp_path):
    Folder(tmp_path, PLAN)
    (tmp_path / "mailed.json").write_text(REPORTS["B"].to_json())
    (tmp_path / "notes.json").write_text("{}")
    found = begin(tmp_path)
    assert found.to_ask == (1, 3)
    send(found)
    made = finish(found)
    assert made.n_answers == 3
    assert [refusal.source for refusal in made.refused] == [
        str(tmp_path / "notes.json")
    ]


def test_a_report_of_the_longest_curve_is_read_again(tmp_path):
    plan = fc.plan(n_sites=3, n_points=20, curve=fc.Bins.uniform(0, 20, 10_000))
    found = begin(tmp_path, {1: ""}, plan)
    report = fc.report(plan, range(20), site="A", policy=fc.SitePolicy(curves="plain"))
    found.receive(1, report.to_json(indent=None))
    assert Folder(tmp_path, plan).read() == ([report], [])


def test_refused_reports_stop_the_calibration_and_nobody_is_asked_again(tmp_path):
    found = begin(tmp_path)
    found.receive(1, "nonsense")
    with (tmp_path / "refused.jsonl").open("a") as file:
        file.write('{"node": "2", "sou')  # a line that was cut short is left out
    found = begin(tmp_path)
    assert found.to_ask == (2, 3)
    found.receive(2, REPORTS["B"].to_json(indent=None))
    with pytest.raises(fc.RefusedReportsError):
        finish(found, on_refused="raise")
    again = begin(tmp_path)
    assert again.to_ask == ()
    assert finish(again).n_answers == 1


MODEL = {
    "layer/0.weight": np.arange(6.0).reshape(2, 3),
    "": np.float32(0.5),
    "é.npy": np.array([True]),
}


class TestModels:
    """The model is kept beside the answers: retraining hardly ever gives the same
    one.
    """

    def test_a_model_comes_back_with_names_types_and_order(self, tmp_path):
        Folder(tmp_path, PLAN, model="sha256:1", parameters=MODEL)
        kept = Folder.read_model(tmp_path)
        assert list(kept) == list(MODEL)
        assert model_digest(kept) == model_digest(
            {name: np.asarray(array) for name, array in MODEL.items()}
        )

    def test_a_round_is_resumed_without_the_model(self, tmp_path):
        Folder(tmp_path, PLAN, model="sha256:1", parameters=MODEL).keep(
            "1", "A", REPORTS["A"]
        )
        again = Folder(tmp_path, PLAN)
        assert again.model == "sha256:1"
        assert ReportCollection(
            PLAN, NAMED, engine="Test", log=LOG, folder=again
        ).to_ask == (2, 3)
        with pytest.raises(
            ValueError, match=r"under another one \(sha256:1, not sha256:2\)"
        ):
            Folder(tmp_path, PLAN, model="sha256:2", parameters=MODEL)

    def test_a_folder_that_died_before_it_was_ready_keeps_the_next_model(
        self, tmp_path
    ):
        Folder(tmp_path, PLAN, model="sha256:1", parameters=MODEL)
        (tmp_path / "model.txt").unlink()
        Folder(tmp_path, PLAN, model="sha256:2", parameters={"w": np.ones(2)})
        assert list(Folder.read_model(tmp_path)) == ["w"]
        (tmp_path / "model.txt").unlink()
        assert Folder(tmp_path, PLAN).model is None
        assert Folder.read_model(tmp_path) is None

    def test_what_is_no_model_is_refused_and_nothing_is_unpickled(self, tmp_path):
        assert Folder.read_model(tmp_path / "nowhere") is None
        with pytest.raises(
            ValueError, match="parameter 'w' of the model must be an array of numbers"
        ):
            Folder(
                tmp_path / "round",
                PLAN,
                model="sha256:1",
                parameters={"w": np.array([object()])},
            )
        for content in (b"", b"PK", b"PK\x03\x04" + bytes(50)):
            (tmp_path / "model.npz").write_bytes(content)
            with pytest.raises(
                ValueError, match=r"model\.npz: not a model that was kept"
            ):
                Folder.read_model(tmp_path)
        np.savez(tmp_path / "model.npz", names=np.array([object()]))
        with pytest.raises(ValueError, match="not a model that was kept"):
            Folder.read_model(tmp_path)


def test_every_round_has_a_new_folder(tmp_path):
    first, second, third = (new_folder(tmp_path / "base", PLAN) for _ in range(3))
    digits = PLAN.digest[7:15]
    assert re.fullmatch(rf"20\d\d-\d\d-\d\d-{digits}", first.name)
    assert [second.name, third.name] == [f"{first.name}-2", f"{first.name}-3"]
    assert first.is_absolute()
    send(begin(first))
    assert begin(second).to_ask == (1, 2, 3)
    assert begin(first).to_ask == ()
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="reports must be a folder"):
        new_folder(tmp_path / "file", PLAN)
