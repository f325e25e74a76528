"""Flower's messages without its processes: a grid that hands every message to a
ClientApp of its own.
"""

import json
import logging
import math
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from every_plan import PLANS, SITES, Round, scores_and_labels

import fedconformal as fc

pytest.importorskip("flwr", reason="the extra [flower] is not installed")

from flower_grid import LocalGrid
from flwr.app import ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode

from fedconformal.flower import Failure, _server, add_conformal, calibrate, sealed
from fedconformal.rounds import pack_plan

SECRET = "patient 4711"


def sent(failure):
    """All that travels of a failure."""
    return Error(int(failure), failure.meaning)


def site(scores, *, name=None, **options):
    """A node with these scores."""
    app = ClientApp()
    add_conformal(app, lambda context: scores, **options)
    return app, {} if name is None else {"site": name}


def draws(seed, n=50):
    return np.random.default_rng(seed).random(n)


def reports(plan, data, **options):
    return [
        fc.report(plan, scores, site=name, **options) for name, scores in data.items()
    ]


DATA = {"A": draws(1), "B": draws(2), "C": draws(3)}


@pytest.mark.parametrize(
    "plan",
    [fc.plan(confidence_level=0.9), fc.plan(n_sites=5, confidence_level=[0.8, 0.9])],
    ids=["open", "missing"],
)
def test_the_same_calibration_as_from_files(plan):
    """With open plans and unnamed sites."""
    grid = LocalGrid([site(scores, name=name) for name, scores in DATA.items()])
    found = calibrate(grid, plan, timeout=60, wait=0, min_sites=3)
    assert found.to_json() == fc.calibrate(plan, reports(plan, DATA)).to_json()


@pytest.mark.parametrize("name", PLANS)
def test_every_plan_gives_the_same_bytes_as_through_files(name, tmp_path):
    given, nodes = Round(name, tmp_path), []
    for place in SITES:
        app, config = site(scores_and_labels(place), name=place)
        nodes.append(
            (
                app,
                config
                | {
                    key.replace("_", "-"): text
                    for key, text in given.files[place].items()
                },
            )
        )
    found = calibrate(
        LocalGrid(nodes), given.plan, timeout=60, reports=tmp_path / "reports"
    )
    sent, expected = given.expected()
    assert found.to_json() == expected.to_json()
    kept = [
        fc.Report.read(path) for path in (tmp_path / "reports").glob("*/report-*.json")
    ]
    assert sorted(report.digest for report in kept) == sorted(
        report.digest for report in sent
    )


def masked_nodes(given, places=SITES):
    """Nodes of sites that are asked for masked counts."""
    nodes = []
    for place in places:
        app, config = site(scores_and_labels(place), name=place)
        settings = {
            key.replace("_", "-"): text for key, text in given.files[place].items()
        }
        nodes.append((app, config | settings))
    return nodes


def test_masks_cancel_if_all_nodes_have_the_same_run_configuration(tmp_path):
    given = Round("masked curve", tmp_path)
    nodes = masked_nodes(given)
    same = calibrate(
        LocalGrid(nodes, config={"preset": "usual"}), given.plan, timeout=60
    )
    assert same.threshold == given.expected()[1].threshold


def test_no_masked_sum_if_one_node_has_another_run_configuration(tmp_path):
    """A site's function might read there which model to take."""
    given = Round("masked curve", tmp_path)
    other = LocalGrid(masked_nodes(given), configs={101: {"preset": "broken"}})
    with pytest.raises(ValueError, match="sum over all sites"):
        calibrate(other, given.plan, timeout=60)


def test_no_masked_sum_without_a_node_that_has_died(tmp_path):
    given = Round("masked curve", tmp_path)
    nodes = masked_nodes(given, SITES[:2])
    with pytest.raises(ValueError, match="needs every site, and 'C' did not answer"):
        calibrate(LocalGrid(nodes), given.plan, timeout=60, wait=0, min_sites=2)


def test_a_site_that_is_not_asked_sends_a_code_and_is_not_missing(caplog):
    plan = fc.plan(n_points={"A": 20, "B": 400}, confidence_level=0.8, max_missing=0)
    assert plan.designs[0].asked_names == ("B",)
    data = {"A": draws(1, 20), "B": draws(2, 400)}
    found = calibrate(
        LocalGrid([site(data[name], name=name) for name in data]),
        plan,
        timeout=60,
        wait=0,
    )
    assert found == fc.calibrate(plan, reports(plan, {"B": data["B"]}))
    assert (found.missing, found.refused) == ((), ())
    assert "node 100 sent no report: the site could not answer this plan" in caplog.text


def test_a_new_model_gets_a_new_private_answer_from_the_same_budget(tmp_path):
    privacy = fc.Privacy(epsilon=5.0, bins=fc.Bins.uniform(0, 20, 100))
    plan = fc.plan(n_sites=1, n_points=300, confidence_level=0.8, privacy=privacy)
    app = ClientApp()
    add_conformal(app, lambda arrays: arrays.to_numpy_ndarrays()[0][0] * draws(1, 300))
    fc.Ledger.create(tmp_path / "ledger").set_budget("mine", 10.0)
    grid = LocalGrid(
        [(app, {"site": "A", "ledger": str(tmp_path / "ledger"), "dataset": "mine"})]
    )

    def threshold(model):
        return calibrate(
            grid, plan, ArrayRecord([np.array([model])]), timeout=60
        ).threshold

    first, second = threshold(1.0), threshold(10.0)
    assert first < 2 < second
    assert threshold(1.0) == first
    assert fc.Ledger(tmp_path / "ledger").spent("mine") == 10
    with pytest.raises(ValueError, match="0 sites answered"):
        threshold(5.0)


# -- what a site lets out --------------------------------------------------------------


def raising(error):
    app = ClientApp()

    def scores(context):
        raise error

    add_conformal(app, scores)
    return app, {"site": "A"}


class Unusual(BaseException):
    pass


@pytest.mark.parametrize("broken", ["arrays", "import"])
def test_no_text_of_an_exception_before_the_plan_is_read_leaves(
    broken, monkeypatch, caplog
):
    app, config = site(draws(1), name="A")
    LocalGrid([])  # gives the process an identity, which messages need
    content = {"conformal": ConfigRecord({"plan": pack_plan(fc.plan())})}
    if broken == "arrays":
        content["arrays"] = ArrayRecord([np.zeros(1)])
        monkeypatch.setattr(
            "fedconformal.protocol.model_digest", lambda model: draws(SECRET)
        )
    else:
        monkeypatch.setitem(sys.modules, "fedconformal.protocol", None)
    message = Message(RecordDict(content), 100, "query.conformal")
    reply = app(message, Context(1, 100, config, RecordDict(), {}))
    assert reply.error == sent(Failure.SITE)
    assert "the server receives only: the site failed" in caplog.text


@pytest.mark.parametrize(
    "error", [ValueError(SECRET), SystemExit(SECRET), Unusual(SECRET)]
)
def test_no_text_of_an_exception_leaves(error, caplog):
    grid = LocalGrid(
        [raising(error), *(site(scores, name=name) for name, scores in DATA.items())]
    )
    seen = []
    grid.tamper = lambda replies: seen.extend(replies) or replies
    caplog.set_level("CRITICAL", "flwr.fedconformal")
    found = calibrate(grid, fc.plan(confidence_level=0.9), timeout=60)
    assert found.n_answers == 3
    assert any(reply.has_error() for reply in seen)
    assert SECRET not in repr(seen) + found.to_json()


def question(plan):
    return RecordDict({"conformal": ConfigRecord({"plan": pack_plan(plan)})})


def reply_of(node, content):
    """What one node replies."""
    seen = []
    grid = LocalGrid([node], tamper=lambda replies: seen.extend(replies) or [])
    grid.push_messages([Message(content, 100, "query.conformal", ttl=5.0)])
    return seen[0]


@pytest.mark.parametrize(
    ("node", "failure"),
    [
        (raising(ValueError(SECRET)), Failure.SCORES),
        (site([1.0, math.nan], name="A"), Failure.REPORT),
        (site([1.0], name="A\n"), Failure.REPORT),
        (site([1.0], settings=lambda context: 1 / 0), Failure.REPORT),
        (
            site(
                [1.0], settings=lambda context: {"site": "A", "check-epsilon": "much"}
            ),
            Failure.REPORT,
        ),
    ],
)
def test_every_failure_is_one_fixed_code(node, failure):
    error = reply_of(node, question(fc.plan(confidence_level=0.9))).error
    assert error == sent(failure)


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"conformal": ConfigRecord({})},
        {"conformal": ConfigRecord({"plan": b"no zlib"})},
        {"conformal": ArrayRecord()},
    ],
)
def test_a_plan_that_cannot_be_read(content):
    assert reply_of(site([1.0], name="A"), RecordDict(content)).error == sent(
        Failure.PLAN
    )


def test_not_even_a_broken_log_lets_text_out():
    class Broken(logging.Handler):
        def emit(self, record):
            raise RuntimeError(record.getMessage() + SECRET)

    handler = Broken()
    logging.getLogger("flwr.fedconformal").addHandler(handler)
    try:
        content = question(fc.plan(confidence_level=0.9))
        assert reply_of(raising(ValueError(SECRET)), content).error == sent(
            Failure.SCORES
        )
        assert reply_of(site([1.0], name="A"), content).error == sent(Failure.REPORT)
    finally:
        logging.getLogger("flwr.fedconformal").removeHandler(handler)


def test_sealed_keeps_exceptions_of_any_handler_at_the_site(caplog):
    app = ClientApp(mods=[sealed])

    @app.train()
    def train(message, context):
        raise RuntimeError(SECRET)

    LocalGrid([])  # gives the process an identity, which messages need
    message = Message(RecordDict(), 100, "train")
    reply = app(message, Context(1, 100, {}, RecordDict(), {}))
    assert reply.error == sent(Failure.SITE)
    assert SECRET in caplog.text  # the site's own log


# -- how scores_fn is called -----------------------------------------------------------


@pytest.mark.parametrize(
    "scores_fn",
    [
        lambda c: [float(c.node_config["value"])],
        lambda message, context: [
            float(message.content["arrays"].to_numpy_ndarrays()[0][0])
        ],
        lambda m, c: [float(m.content["arrays"].to_numpy_ndarrays()[0][0])],
        lambda plan, arrays: (
            [float(arrays.to_numpy_ndarrays()[0][0])] * len(plan.confidence_levels)
        ),
        lambda arrays, factor=1: [factor * float(arrays.to_numpy_ndarrays()[0][0])],
        lambda context, /, **other: [float(context.node_config["value"])],
        lambda *, arrays: [float(arrays.to_numpy_ndarrays()[0][0])],
        lambda parameters, context: [float(parameters[0][0])],
    ],
)
def test_scores_fn_gets_what_it_names(scores_fn):
    app = ClientApp()
    add_conformal(app, scores_fn)
    grid = LocalGrid([(app, {"site": "A", "value": 0.25})])
    plan = fc.plan(confidence_level=0.5)
    found = calibrate(grid, plan, ArrayRecord([np.array([0.25])]), timeout=60)
    assert found.threshold == 0.25


@pytest.mark.parametrize(
    "scores_fn", [lambda a, b, c: [1.0], lambda ctx, arrays: [1.0]]
)
def test_scores_fn_that_asks_for_something_unknown(scores_fn):
    with pytest.raises(
        TypeError,
        match="scores_fn may ask for arrays, context, message, parameters, plan",
    ):
        add_conformal(ClientApp(), scores_fn)


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"site": "A", "partition-id": 3}, "A"),
        ({"partition-id": 3}, "site-3"),
        ({}, "node-100"),
    ],
)
def test_the_name_of_a_site(config, name):
    app, _ = site([1.0])
    found = calibrate(
        LocalGrid([(app, config)]), fc.plan(confidence_level=0.5), timeout=60
    )
    assert found.answered == (name,)


def test_settings_come_from_a_function_of_the_context(tmp_path):
    node, _ = site(
        draws(1), settings=lambda context: {"site": f"place-{context.node_id}"}
    )
    strict, _ = site(
        draws(1), settings=lambda context: {"policy": str(tmp_path / "none.toml")}
    )
    found = calibrate(
        LocalGrid([(node, {"site": "A"}), (strict, {})]), fc.plan(confidence_level=0.5)
    )
    assert found.answered == (
        "place-100",
    )  # and a site whose policy cannot be read answers nothing


# -- what the server makes of it -------------------------------------------------------


def named_grid(**options):
    return LocalGrid(
        [site(scores, name=name) for name, scores in DATA.items()], **options
    )


def test_a_site_that_connects_twice_is_named():
    plan = fc.plan(confidence_level=0.8)
    same = LocalGrid([*named_grid().nodes.values(), site(DATA["A"], name="A")])
    found = calibrate(same, plan, timeout=60)
    assert found.n_answers == 3
    assert [(r.source, r.reason) for r in found.refused] == [
        ("A", "the same report a second time")
    ]
    other = LocalGrid([*named_grid().nodes.values(), site(draws(9), name="A")])
    found = calibrate(other, plan, timeout=60)
    assert found.answered == ("B", "C")
    assert "2 different reports" in found.refused[0].reason
    with pytest.raises(fc.RefusedReportsError, match="2 different reports"):
        calibrate(other, plan, timeout=60, on_refused="raise")


def test_a_registered_node_speaks_for_its_own_site_and_nobody_else_for_it():
    plan = fc.plan(n_points=dict.fromkeys(DATA, 50), confidence_level=0.8)
    grid = LocalGrid([*named_grid().nodes.values(), site(draws(9), name="A")])
    grid.names = {100: "A", 101: "B", 102: "Z"}
    found = calibrate(grid, plan, timeout=60)
    assert found.missing == ("C",)
    assert {refusal.source: refusal.reason for refusal in found.refused} == {
        "Z": "registered as 'Z', but reports as 'C'",
        "node 103": "reports as 'A', but is not registered under a name as others are",
    }


def test_every_error_code_of_flower_has_a_sentence():
    codes = {value for name, value in vars(ErrorCode).items() if name.isupper()}
    assert codes - {ErrorCode.UNKNOWN} == set(_server._CODES)


def test_an_error_reply_is_attributed_by_the_question_not_by_its_source(caplog):
    def die(replies):
        """As Flower does when a SuperNode is killed: the error comes from node 1."""
        lost = Message(Error(5, SECRET), reply_to=grid.sent[1])
        lost.metadata.__dict__["_src_node_id"] = 1
        return [lost, *(r for r in replies if r.metadata.src_node_id != 101)]

    grid = named_grid(tamper=die, names={100: "A", 101: "B", 102: "C"})
    plan = fc.plan(n_points=dict.fromkeys(DATA, 50), confidence_level=0.8)
    found = calibrate(grid, plan, timeout=60)
    assert found.missing == ("B",)
    assert "B sent no report: it is not connected any more" in caplog.text
    assert SECRET not in caplog.text


@pytest.fixture
def clock(monkeypatch):
    """Give the server a clock that moves only while it sleeps, however busy the machine
    is.
    """
    now = [0.0]

    def sleep(seconds):
        now[0] += seconds
        time.sleep(0.005)

    virtual = SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)
    monkeypatch.setattr("fedconformal.flower._server.time", virtual)
    return virtual


def test_silent_sites_are_missing_and_named(caplog, clock):
    grid = named_grid(
        tamper=lambda replies: replies[:1], names={100: "A", 101: "B", 102: "C"}
    )
    plan = fc.plan(n_points=dict.fromkeys(DATA, 50), confidence_level=0.8)
    found = calibrate(grid, plan, timeout=5)
    assert found.missing == ("A", "B")
    assert found == fc.calibrate(plan, reports(plan, {"C": DATA["C"]}))
    assert "A did not answer within 5 s" in caplog.text


def test_replies_to_nothing_and_second_replies_are_refused():
    def repeat(replies):
        stray = Message(replies[0].content, reply_to=grid.sent[0])
        stray.metadata.__dict__["_reply_to_message_id"] = "elsewhere"
        return [*replies, replies[0], stray]

    grid = named_grid(tamper=repeat)
    found = calibrate(grid, fc.plan(confidence_level=0.8), timeout=60)
    assert found.n_answers == 3
    assert [r.source for r in found.refused] == ["unknown node"] * 2


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"conformal": ConfigRecord({"report": 1.0})},
        {"conformal": ConfigRecord({"report": "{}"})},
        {"conformal": ConfigRecord({"report": "\x00\ud7ff" * 100})},
        {"conformal": ArrayRecord([np.zeros(2)])},
    ],
)
def test_unreadable_replies_are_refused(content):
    def forge(replies):
        return [Message(RecordDict(content), reply_to=grid.sent[0]), *replies[:-1]]

    grid = named_grid(tamper=forge)
    found = calibrate(grid, fc.plan(confidence_level=0.8), timeout=60)
    assert found.n_answers == 2
    assert found.refused[0].source == "node 100"


def test_a_report_that_does_not_come_alone_is_refused_with_a_reason():
    def load(replies):
        replies[-1].content["junk"] = ArrayRecord([np.zeros(100_000)])
        return replies

    found = calibrate(
        named_grid(tamper=load), fc.plan(confidence_level=0.8), timeout=60
    )
    assert found.n_answers == 2
    assert [(r.source, r.reason) for r in found.refused] == [
        ("node 100", "the message carries 'junk' beside the report")
    ]


def test_a_site_answers_no_plan_that_does_not_come_alone(caplog, clock):
    class LoadingGrid(LocalGrid):
        def push_messages(self, messages):
            for message in messages:
                message.content["junk"] = ConfigRecord({"more": b"x" * 1000})
            return super().push_messages(messages)

    seen = []
    grid = LoadingGrid(
        [site(draws(1), name="A")], tamper=lambda replies: seen.extend(replies) or []
    )
    with pytest.raises(ValueError, match="0 sites answered"):
        calibrate(grid, fc.plan(confidence_level=0.8), timeout=5, wait=0)
    assert seen[0].error == sent(Failure.PLAN)
    assert "carries 'junk' beside the plan" in caplog.text


def test_the_round_waits_for_sites_that_are_late(caplog, clock):
    nodes = list(named_grid().nodes.items())
    grid = LocalGrid([])
    grid.nodes = {}
    look = grid.get_nodes

    def one_more():
        if nodes:
            grid.nodes.update([nodes.pop()])
        return look()

    grid.get_nodes = one_more
    assert (
        calibrate(grid, fc.plan(n_sites=3, confidence_level=0.8), timeout=60).n_answers
        == 3
    )
    assert "wanted" not in caplog.text
    more = fc.plan(n_sites=4, confidence_level=0.8)
    with pytest.raises(
        ValueError,
        match="at least 4 sites must be there, got 3 of 4; min_sites=3 starts",
    ):
        calibrate(grid, more, timeout=60, wait=0)
    assert "sites connected: 3, wanted: 4" in caplog.text
    assert calibrate(grid, more, timeout=60, min_sites=3).n_missing == 1


def test_an_open_plan_waits_for_the_sites_that_it_is_told_of(caplog, clock):
    grid, plan = named_grid(), fc.plan(confidence_level=0.8)
    with pytest.raises(ValueError, match="at least 4 sites must be there, got 3"):
        calibrate(grid, plan, timeout=60, wait=2, min_sites=4)
    assert clock.monotonic() == 2
    assert calibrate(grid, plan, timeout=60, min_sites=3).n_answers == 3
    assert "whoever is connected is asked" not in caplog.text
    assert calibrate(grid, plan, timeout=60).n_answers == 3
    assert (
        "the plan expects no number of sites: whoever is connected is asked"
        in caplog.text
    )


@pytest.mark.parametrize("value", [None, 0, math.inf, "5"])
def test_there_is_always_a_timeout(value):
    with pytest.raises(ValueError, match="timeout must be a finite number of seconds"):
        calibrate(named_grid(), fc.plan(confidence_level=0.9), timeout=value)


def test_a_site_whose_clock_is_wrong_by_ten_minutes_is_heard():
    """A reply gets what is left of the question's time by the site's clock; Flower
    drops it at nothing.
    """
    grid = named_grid()
    calibrate(grid, fc.plan(confidence_level=0.8), timeout=60)
    assert all(message.metadata.ttl == 60 + 600 for message in grid.sent)


def test_no_large_reply_is_waited_for_beyond_the_timeout_or_holds_up_others(
    clock, monkeypatch
):
    monkeypatch.setattr("fedconformal.flower._server._PATIENCE", 0.2)
    over = threading.Event()
    grid = named_grid(names={100: "A", 101: "B", 102: "C"}, before={100: over.wait})
    plan = fc.plan(n_points=dict.fromkeys(DATA, 50), confidence_level=0.8)
    found = calibrate(grid, plan, timeout=5)
    over.set()
    assert found.missing == ("A",)


def test_a_large_reply_that_comes_in_time_counts(monkeypatch):
    """Its fetching ends only after that of another has begun."""
    monkeypatch.setattr("fedconformal.flower._server._PATIENCE", 0.2)
    other = threading.Event()
    grid = named_grid(before={100: other.wait, 102: other.set})
    assert (
        calibrate(grid, fc.plan(n_sites=3, confidence_level=0.8), timeout=300).n_answers
        == 3
    )


@pytest.mark.parametrize(
    "nodes",
    [lambda node: node.name in {"A", "C"}, ["A", 102]],
    ids=["by a function", "by name and number"],
)
def test_only_chosen_nodes_are_asked(nodes):
    grid = named_grid(names={100: "A", 101: "B", 102: "C"})
    found = calibrate(grid, fc.plan(confidence_level=0.8), timeout=60, nodes=nodes)
    assert [message.metadata.dst_node_id for message in grid.sent] == [100, 102]
    assert found.answered == ("A", "C")


@pytest.mark.parametrize("nodes", ["A", 100])
def test_nodes_that_nobody_can_choose_by(nodes):
    with pytest.raises(
        TypeError, match="nodes must be a function of a node, or numbers or names"
    ):
        calibrate(named_grid(), fc.plan(confidence_level=0.8), timeout=60, nodes=nodes)


def test_a_server_that_dies_goes_on_from_the_reports_it_has(tmp_path, clock, caplog):
    caplog.set_level("INFO", "flwr.fedconformal")
    plan = fc.plan(n_points=dict.fromkeys(DATA, 50), confidence_level=0.8)
    names = {100: "A", 101: "B", 102: "C"}

    def die(message_ids):
        if message_ids == {"message 2"}:
            raise ConnectionError("the SuperLink died")
        return pull(message_ids)

    first = named_grid(names=names)
    pull, first.pull_messages = first.pull_messages, die
    with pytest.raises(ConnectionError):
        calibrate(first, plan, timeout=60, reports=tmp_path / "reports")
    (kept,) = (tmp_path / "reports").iterdir()
    assert f"reports are kept in {kept}" in caplog.text
    again = named_grid(names=names)
    found = calibrate(again, plan, timeout=60, reports=kept)
    assert [message.metadata.dst_node_id for message in again.sent] == [102]
    assert found.to_json() == fc.calibrate(plan, reports(plan, DATA)).to_json()
    nobody = LocalGrid([])
    assert calibrate(nobody, plan, timeout=60, reports=kept) == found
    assert clock.monotonic() == 0  # nobody is waited for
    with pytest.raises(ValueError, match="another one"):
        calibrate(nobody, fc.plan(n_sites=3), timeout=60, reports=kept)
    retrained = ArrayRecord(
        [np.zeros(2)]
    )  # the same plan, but no answer of before fits
    with pytest.raises(ValueError, match="folder of this model"):
        calibrate(nobody, plan, retrained, timeout=60, reports=kept)


def test_sites_that_have_answered_and_are_there_again_count_once(tmp_path, caplog):
    caplog.set_level("INFO", "flwr.fedconformal")
    plan = fc.plan(n_sites=5, confidence_level=0.8)
    calibrate(named_grid(), plan, timeout=60, wait=0, min_sites=3, reports=tmp_path)
    (kept,) = tmp_path.iterdir()
    (kept / "complete").unlink()
    caplog.clear()
    with pytest.raises(ValueError, match="at least 5 sites must be there, got 3 of 5"):
        calibrate(named_grid(), plan, timeout=60, wait=0, reports=kept)
    later = LocalGrid([*named_grid().nodes.values(), site(draws(4), name="D")])
    with pytest.raises(ValueError, match="at least 5 sites must be there, got 4 of 5"):
        calibrate(later, plan, timeout=60, wait=0, reports=kept)
    assert "asking" not in caplog.text
    found = calibrate(later, plan, timeout=60, wait=0, min_sites=4, reports=kept)
    assert "asking 1 site for a report: node 103" in caplog.text
    assert found == fc.calibrate(plan, reports(plan, DATA | {"D": draws(4)}))


@pytest.mark.parametrize("is_named", [True, False])
def test_a_resumed_round_sends_the_model_that_was_kept(is_named, tmp_path):
    model = ArrayRecord([np.full(1, 3.0)])
    plan = fc.plan(
        n_sites=3, confidence_level=0.8, terms={"model": model} if is_named else None
    )
    failing, nodes = {"C"}, []
    for name in DATA:
        app = ClientApp()

        def scores(context, parameters):
            if context.node_config["site"] in failing:
                raise ValueError(SECRET)
            return DATA[context.node_config["site"]] * (
                parameters[0][0] if parameters else 1000.0
            )

        add_conformal(app, scores)
        nodes.append((app, {"site": name}))
    grid = LocalGrid(nodes)
    calibrate(grid, plan, model, timeout=60, reports=tmp_path)
    (kept,) = tmp_path.iterdir()
    (kept / "complete").unlink()
    failing.clear()
    found = calibrate(grid, plan, timeout=60, reports=kept)
    assert len(grid.sent) == 4
    assert grid.sent[-1].content["arrays"] == model
    expected = reports(plan, {name: 3.0 * scores for name, scores in DATA.items()})
    assert found.to_json() == fc.calibrate(plan, expected).to_json()
    with pytest.raises(ValueError, match="answers another one"):
        calibrate(
            grid,
            fc.plan(n_sites=3, terms={"model": ArrayRecord([np.zeros(1)])}),
            reports=kept,
        )
    (kept / "model.npz").unlink()
    with pytest.raises(ValueError, match="folder of this model"):
        calibrate(grid, plan, timeout=60, reports=kept)


def test_a_model_that_the_plan_does_not_name_is_sent_to_nobody(tmp_path):
    plan, grid = (
        fc.plan(n_sites=3, terms={"model": ArrayRecord([np.zeros(2)])}),
        named_grid(),
    )
    with pytest.raises(
        ValueError,
        match=r"arrays must be the model that the plan names \(sha256:.*, got sha256:",
    ):
        calibrate(
            grid,
            plan,
            ArrayRecord([np.ones(2)]),
            timeout=60,
            reports=tmp_path / "reports",
        )
    assert grid.sent == []
    assert not (tmp_path / "reports").exists()


def test_the_same_line_twice_makes_two_rounds_in_the_folder_of_the_app(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("FLWR_HOME", str(tmp_path))
    plan = fc.plan(n_points=dict.fromkeys(DATA, 50), confidence_level=0.8)
    for model in (1.0, 2.0):
        grid = named_grid()
        grid.run = SimpleNamespace(
            run_id=1, fab_id="me/app", fab_version="1.0.0", fab_hash="0123456789abcdef"
        )
        calibrate(
            grid, plan, ArrayRecord([np.array([model])]), timeout=60, reports="reports"
        )
        assert len(grid.sent) == 3
    assert (
        len(list((tmp_path / "apps" / "me.app.1.0.0.01234567" / "reports").iterdir()))
        == 2
    )


def test_what_travels_is_small():
    plan = fc.plan(n_sites=1000, n_points=100, confidence_level=0.9)
    grid = LocalGrid([site(draws(1, 100), name="hospital-1")])
    seen = []
    grid.tamper = lambda replies: seen.extend(replies) or replies
    calibrate(grid, plan, timeout=60, wait=0, min_sites=1)
    question, reply = (
        grid.sent[0].content["conformal"]["plan"],
        seen[0].content["conformal"]["report"],
    )
    assert len(question) + len(reply) < 1500
    assert json.loads(reply)["site"] == "hospital-1"
