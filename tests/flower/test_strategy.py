"""The strategy: another one trains and evaluates, and its model is calibrated."""

import numpy as np
import pytest

import fedconformal as fc

pytest.importorskip("flwr", reason="the extra [flower] is not installed")

from flower_grid import LocalGrid
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg

from fedconformal.flower import (
    Conformal,
    add_conformal,
    calibration_record,
    read_calibration,
    sealed,
)
from fedconformal.protocol import model_digest

N_SITES, START = 3, ArrayRecord([np.zeros(1)])


def targets(context):
    number = context.node_config["partition-id"]
    return number + np.random.default_rng(number).random(50)


def make_app():
    """The model of a site is the mean of its targets."""
    app = ClientApp(mods=[sealed])

    @app.train()
    def train(message, context):
        mine = targets(context)
        metrics = MetricRecord({"num-examples": len(mine), "train-loss": 1.0})
        content = {"arrays": ArrayRecord([np.array([mine.mean()])]), "metrics": metrics}
        return Message(RecordDict(content), reply_to=message)

    @app.evaluate()
    def evaluate(message, context):
        metrics = MetricRecord({"num-examples": 50, "loss": 0.5})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    @app.query("cover")
    def cover(message, context):
        """Intervals at the site, with the calibration that the server sends."""
        calibration = read_calibration(message)
        low, high = calibration.predict_interval(
            message.content["arrays"].to_numpy_ndarrays()[0]
        ).T
        mine = targets(context)
        covered = float(np.mean((low <= mine) & (mine <= high)))
        return Message(
            RecordDict({"metrics": MetricRecord({"covered": covered})}),
            reply_to=message,
        )

    add_conformal(app, cases)
    return app


def cases(context, parameters):
    mine = targets(context)
    return {"truth": mine, "prediction": np.full(len(mine), parameters[0][0])}


def grid(**options):
    app = make_app()
    return LocalGrid(
        [(app, {"partition-id": i, "num-partitions": N_SITES}) for i in range(N_SITES)]
    )


def fedavg(**options):
    return FedAvg(min_train_nodes=N_SITES, min_available_nodes=N_SITES, **options)


def expected(plan, model):
    """The calibration of the same reports in files."""
    reports = []
    for i in range(N_SITES):
        mine = i + np.random.default_rng(i).random(50)
        scores = np.abs(mine - model)
        reports.append(fc.report(plan, scores, site=f"site-{i}", score="absolute"))
    return fc.calibrate(plan, reports)


OPTIONS = {"confidence_level": 0.8, "n_sites": N_SITES, "score": "absolute"}


def test_the_model_of_another_strategy_is_calibrated_after_its_last_round(tmp_path):
    alone = fedavg().start(grid(), START, num_rounds=2)
    output = tmp_path / "results" / "calibration.json"
    strategy = Conformal(fedavg(), output=output, timeout=60, **OPTIONS)
    result = strategy.start(grid(), START, num_rounds=2)
    (model,) = result.arrays.to_numpy_ndarrays()
    assert model == alone.arrays.to_numpy_ndarrays()[0]
    assert result.train_metrics_clientapp == alone.train_metrics_clientapp
    plan = fc.plan(**OPTIONS, terms={"model": result.arrays})
    assert result.calibration.to_json() == expected(plan, model).to_json()
    assert fc.Calibration.read(output) == result.calibration
    first, last = (result.evaluate_metrics_clientapp[number] for number in (1, 2))
    assert first == alone.evaluate_metrics_clientapp[1]
    assert last == MetricRecord(
        {
            "loss": 0.5,
            "conformal-threshold": result.calibration.threshold,
            "conformal-coverage": result.calibration.law.mean(),
            "conformal-sites-answered": 3,
            "conformal-sites-missing": 0,
        }
    )
    assert "conformal-threshold" in repr(result)


def test_several_levels_and_groups_have_lists_of_figures():
    app = ClientApp()
    add_conformal(app, lambda context: (np.arange(100.0), ["old", "young"] * 50))
    nodes = LocalGrid([(app, {"partition-id": i}) for i in range(N_SITES)])
    groups = {"old": None, "young": None}
    strategy = Conformal(
        fedavg(), confidence_level=[0.7, 0.8], groups=groups, n_sites=N_SITES
    )
    result = strategy.start(nodes, START, num_rounds=0)
    figures = result.evaluate_metrics_clientapp[0]
    assert figures["conformal-threshold"] == [
        result.calibration[group, level].threshold
        for group in groups
        for level in (0.7, 0.8)
    ]
    assert len(figures["conformal-coverage"]) == 4


class Saving(FedAvg):
    """As users write them: what is done around every run."""

    def start(self, *args, **options):
        self.seen = (args, options)
        return super().start(*args, **options)


def test_a_start_of_ones_own_is_used_with_its_arguments():
    mine = Saving(min_available_nodes=N_SITES, fraction_evaluate=0.0)
    nodes = grid()
    Conformal(mine, **OPTIONS).start(nodes, START, num_rounds=1, timeout=30.0)
    assert mine.seen == ((nodes, START, 1), {"timeout": 30.0})


def test_it_goes_inside_and_around_other_wrappers():
    private = DifferentialPrivacyServerSideFixedClipping(fedavg(), 0.0, 10.0, N_SITES)
    assert (
        Conformal(private, **OPTIONS).start(grid(), START, 1).calibration.n_answers
        == N_SITES
    )
    outside = DifferentialPrivacyServerSideFixedClipping(
        Conformal(fedavg(), **OPTIONS), 0.0, 10.0, N_SITES
    )
    outside.summary()
    result = outside.start(
        grid(), START, 1
    )  # trains, and says nothing of a calibration
    assert result.evaluate_metrics_clientapp[1] == MetricRecord({"loss": 0.5})


def test_a_plan_of_ones_own_is_asked_as_it_is():
    plan = fc.plan(**OPTIONS)
    result = Conformal(fedavg(), plan=plan).start(grid(), START, num_rounds=1)
    assert result.calibration.plan == plan
    with pytest.raises(
        TypeError, match="plan must be left out with options of a plan, got numbers"
    ):
        Conformal(fedavg(), plan=plan, numbers=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confidence_level": 2}, "confidence_level"),
        ({"confidence_levle": 0.9}, "confidence_levle"),
        ({"timeout": None}, "timeout must be a finite number"),
        ({"promise": "everything"}, "promise"),
        ({"on_refused": "ignore"}, "on_refused"),
        ({"timeout": True}, "timeout must be a finite number"),
        ({"wait": -1.0}, "wait must be a finite number"),
        ({"min_sites": 0}, "min_sites"),
        ({"min_sites": 2.5}, "min_sites"),
        ({"nodes": "north"}, "nodes must be a function of a node"),
        ({"reports": 5}, "reports must be a path, got 5"),
        ({"output": 5}, "output must be a path, got 5"),
    ],
)
def test_wrong_options_are_refused_before_any_training(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Conformal(fedavg(), **options)


def test_options_come_from_the_configuration_of_a_run(caplog):
    caplog.set_level("INFO", "flwr.fedconformal")
    config = {
        "confidence-level": 0.8,
        "n-sites": N_SITES,
        "promise": "each-site",
        "numbers": "",
        "timeout": 45,
        "learning-rate": 0.1,
        "groups": 7,  # the app's own: no option that a configuration can have
    }
    strategy = Conformal.from_config(
        fedavg(), config, score="absolute", promise="population"
    )
    assert caplog.messages == [
        "options of the calibration in the run's configuration: "
        "{'confidence_level': 0.8, 'n_sites': 3, 'promise': 'each-site', 'timeout': 45}"
    ]
    assert strategy.plan == fc.plan(**OPTIONS, promise="each-site")
    nodes = grid()
    strategy.start(nodes, START, num_rounds=0)
    assert nodes.sent[0].metadata.ttl == 45 + 600
    with pytest.raises(ValueError, match="confidence_level"):
        Conformal.from_config(fedavg(), config | {"confidence-level": 1.5})


def test_a_failed_calibration_loses_no_model(caplog):
    strategy = Conformal(fedavg(), **OPTIONS | {"n_sites": 5}, wait=0)
    result = strategy.start(grid(), START, num_rounds=1)
    assert result.arrays.to_numpy_ndarrays()[0] > 0
    assert "there is no calibration; the model is in the result" in caplog.text
    with pytest.raises(ValueError, match="at least 5 sites must be there, got 3 of 5"):
        _ = result.calibration
    assert result.evaluate_metrics_clientapp[1] == MetricRecord({"loss": 0.5})


def test_a_model_that_could_not_be_trained_is_not_calibrated(caplog):
    app = ClientApp(mods=[sealed])

    @app.train()
    def train(message, context):
        raise ValueError("no data")

    add_conformal(app, cases)
    nodes = LocalGrid([(app, {"partition-id": i}) for i in range(N_SITES)])
    result = Conformal(fedavg(fraction_evaluate=0.0), **OPTIONS).start(
        nodes, START, num_rounds=2
    )
    assert {message.metadata.message_type for message in nodes.sent} == {"train"}
    assert not result.arrays
    reason = "training gave no model in 2 rounds: nothing is calibrated"
    assert reason in caplog.text
    with pytest.raises(ValueError, match=reason):
        _ = result.calibration


def test_a_round_is_resumed_with_its_model_and_without_training(tmp_path):
    first = Conformal(fedavg(), **OPTIONS, reports=tmp_path / "reports").start(
        grid(), START, num_rounds=1
    )
    (kept,) = (tmp_path / "reports").iterdir()
    (kept / "complete").unlink()  # the server died before
    next(kept.glob("report-*.json")).unlink()
    nodes = grid()
    again = Conformal.from_config(fedavg(), {"reports": str(kept)}).start(
        nodes, START, num_rounds=1
    )
    assert [message.metadata.message_type for message in nodes.sent] == [
        "query.conformal"
    ]
    assert again.arrays == first.arrays
    assert again.calibration.to_json() == first.calibration.to_json()
    same = Conformal(fedavg(), **OPTIONS, reports=kept).start(
        LocalGrid([]), START, num_rounds=1
    )
    assert same.calibration == first.calibration
    given = Conformal(fedavg(), plan=first.calibration.plan, reports=kept)
    assert (
        given.start(LocalGrid([]), START, num_rounds=1).calibration == first.calibration
    )


def test_a_round_of_another_plan_is_not_resumed(tmp_path):
    Conformal(fedavg(), **OPTIONS, reports=tmp_path).start(grid(), START, num_rounds=0)
    (kept,) = tmp_path.iterdir()
    other = fc.plan(**OPTIONS, terms={"model": ArrayRecord([np.ones(1)])})
    for options in (OPTIONS | {"confidence_level": 0.5}, {"plan": other}):
        with pytest.raises(
            ValueError, match=r"reports must be the folder of a round with <Plan"
        ):
            Conformal(fedavg(), **options, reports=kept).start(
                LocalGrid([]), START, num_rounds=1
            )


def test_the_plan_names_the_model_that_was_trained():
    result = Conformal(fedavg(), **OPTIONS).start(grid(), START, num_rounds=1)
    assert result.calibration.plan.terms.model == model_digest(result.arrays)


def test_sites_make_sets_with_the_calibration_that_the_server_sends():
    nodes = grid()
    result = Conformal(fedavg(), **OPTIONS).start(nodes, START, num_rounds=1)
    content = {
        "arrays": result.arrays,
        "conformal": calibration_record(result.calibration),
    }
    messages = [
        Message(RecordDict(content), node, "query.cover")
        for node in nodes.get_node_ids()
    ]
    covered = [
        reply.content["metrics"]["covered"]
        for reply in nodes.send_and_receive(messages)
    ]
    assert np.mean(covered) >= 0.8  # of the cases of the calibration themselves
    message = Message(
        RecordDict(content | {"conformal": result.arrays}), 100, "query.cover"
    )
    with pytest.raises(ValueError, match="carries no calibration"):
        read_calibration(message)


CLASSES = ["a", "b", "c"]
GROUPED = {
    "aps": {"score": "aps"},
    "two levels": {"score": "raps", "confidence_level": [0.7, 0.8]},
    "by label": {"score": "lac", "groups": {"old": None, "young": None}},
    "by class": {"score": "lac", "groups": dict.fromkeys(CLASSES), "group_by": "class"},
    "by site": {"score": "lac", "group_by": "site", "n_points": {"A": 60, "B": 80}},
    "by site and class": {
        "score": "lac",
        "groups": {name: {"A": 30, "B": 40} for name in CLASSES},
        "group_by": ("site", "class"),
    },
}


@pytest.mark.parametrize("options", GROUPED.values(), ids=GROUPED)
def test_sets_of_every_kind_are_those_of_the_calibration(options):
    plan = fc.plan(**{"confidence_level": 0.8} | options)
    grouping, reports = plan.grouping, []
    for site, each in {"A": 30, "B": 40}.items():
        labels = sorted(grouping.labels * each) or None
        scores = np.random.default_rng(each).random(len(labels or range(2 * each)))
        reports.append(
            fc.report(plan, scores, site=site, groups=labels, score=plan.score.name)
        )
    calibration = fc.calibrate(plan, reports)
    record = calibration_record(calibration)
    LocalGrid([])  # gives the process an identity, which messages need
    thresholds = read_calibration(Message(RecordDict({"any": record}), 100, "evaluate"))
    table = np.random.default_rng(9).dirichlet([1, 1, 1], size=50)
    where = {"groups": ["old", "young"] * 25} if grouping.by_label else {}
    where |= {"site": "B"} if grouping.by_site else {}
    expected = calibration.predict_set(table, **where)
    assert expected.any()
    assert not expected.all()
    np.testing.assert_array_equal(thresholds.predict_set(table, **where), expected)


def test_an_infinite_threshold_arrives_as_it_is():
    plan = fc.plan(score="lac", confidence_level=0.9)
    calibration = fc.calibrate(
        plan, [fc.report(plan, [0.1, 0.2], site="A", score="lac")]
    )
    LocalGrid([])
    message = Message(
        RecordDict({"any": calibration_record(calibration)}), 100, "evaluate"
    )
    assert read_calibration(message).predict_set([[0.5, 0.5]]).all()


def test_a_message_with_a_calibration_is_small():
    """What a thousand sites get of each other must not grow with them."""
    scores = {f"hospital-{i}": np.random.default_rng(i).random(50) for i in range(1000)}
    assert (
        len(calibration_record(fc.conformalize(scores, score="lac"))["calibration"])
        < 500
    )
