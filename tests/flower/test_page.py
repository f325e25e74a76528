"""The code of the page about Flower, on a grid without processes."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import fedconformal as fc

pytest.importorskip("flwr", reason="the extra [flower] is not installed")

from flower_grid import LocalGrid
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.client import NumPyClient
from flwr.common import ndarrays_to_parameters
from flwr.server import ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg as Averaging
from flwr.serverapp.strategy import FedAvg

PAGE = Path(__file__).parents[2] / "docs" / "flower.md"
BLOCKS = re.findall(
    r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL
)
SITES = 3


@pytest.fixture
def page():
    """Names that the blocks up to one with some words define."""

    def run(words):
        last = next(number for number, code in enumerate(BLOCKS) if words in code)
        namespace = {"__name__": "__page__"}
        for code in BLOCKS[: last + 1]:
            exec(compile(code, str(PAGE), "exec"), namespace)
        return namespace

    return run


def run_alone(*words):
    """Names that the first blocks with these words define in a module of their own."""
    namespace = {"__name__": "__page__"}
    for each in words:
        exec(
            compile(next(code for code in BLOCKS if each in code), str(PAGE), "exec"),
            namespace,
        )
    return namespace


def grid(app, folder, **config):
    nodes = []
    for i in range(SITES):
        rng = np.random.default_rng(i)
        files = {name: str(folder / f"{name}-{i}.npz") for name in ("data", "new-data")}
        for file in files.values():
            np.savez(file, X=rng.random((80, 5)), y=rng.integers(4, size=80))
        nodes.append((app, {"partition-id": i, **files}))
    return LocalGrid(nodes, config=config)


def start(server, nodes):
    server(nodes, Context(1, 1, {}, RecordDict(), {}))


def test_the_main_path(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    app = run_alone("add_conformal(app, calibration_cases)\n", "def sets(")["app"]

    @app.train()
    def train(message, context):
        metrics = MetricRecord({"num-examples": 80})
        content = {"arrays": ArrayRecord([np.eye(5, 4)]), "metrics": metrics}
        return Message(RecordDict(content), reply_to=message)

    names, nodes = (
        run_alone("@server.main()", "def send_calibration"),
        grid(app, tmp_path),
    )
    start(names["server"], nodes)
    printed = capsys.readouterr().out
    calibration = fc.Calibration.read(tmp_path / "calibration.json")
    assert f"{calibration.threshold} () {calibration.law.mean()}" in printed
    assert calibration.plan.score.name == "aps"
    arrays = ArrayRecord([np.eye(5, 4)])
    names["send_calibration"](
        nodes, SimpleNamespace(calibration=calibration, arrays=arrays)
    )
    assert capsys.readouterr().out.count("set-size") == SITES


def test_without_a_strategy(page, tmp_path):
    names = page("def calibrate_model")
    calibration = names["calibrate_model"](
        grid(names["app"], tmp_path), ArrayRecord([np.eye(5, 4)])
    )
    assert calibration.n_answers == SITES


class Client(NumPyClient):
    def fit(self, parameters, config):
        return parameters, 1, {}


def server_fn(context):
    strategy = Averaging(initial_parameters=ndarrays_to_parameters([np.eye(5, 4)]))
    return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=1))


def test_apps_with_a_client_fn(page, tmp_path):
    names = page("conformal_mod")
    nodes = grid(names["make_app"](lambda context: Client().to_client()), tmp_path)
    calibration = names["train_and_calibrate"](
        nodes, Context(1, 1, {}, RecordDict(), {}), server_fn
    )
    assert calibration.n_answers == SITES


def test_checks(page, tmp_path, capsys):
    names, model = page("def check_model"), ArrayRecord([np.eye(5, 4)])
    nodes = grid(names["app"], tmp_path)
    result = fc.flower.Conformal(FedAvg(), n_sites=SITES, score="raps").start(
        nodes, model, num_rounds=0
    )
    names["check_model"](nodes, result)
    assert "No significant shortfall" in capsys.readouterr().out


def test_private_rounds_and_checks_with_ledgers(page, tmp_path):
    names, model = page("def settings"), ArrayRecord([np.eye(5, 4)])
    (tmp_path / "ledgers").mkdir()
    nodes = grid(names["private"], tmp_path, ledgers=str(tmp_path / "ledgers"))
    options = {"privacy": fc.Privacy(epsilon=1.0), "terms": {"model": model}}
    plan = fc.plan(
        n_sites=SITES, n_points=80, confidence_level=0.7, score="aps", **options
    )
    calibration = fc.flower.calibrate(nodes, plan, model, timeout=60)
    assert calibration == fc.flower.calibrate(
        nodes, plan, model, timeout=60
    )  # paid once
    assessment = fc.flower.check(nodes, calibration, model, timeout=60)
    assert {row.epsilon for row in assessment.rows} == {1.0}
    for i in range(SITES):
        ledger = fc.Ledger(tmp_path / "ledgers" / f"site-{i}")
        assert [ledger.spent(name) for name in ("cases", "new cases")] == [1, 1]
