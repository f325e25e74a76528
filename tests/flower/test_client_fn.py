"""An app with NumPyClient, client_fn and server_fn takes part: one line at the site,
two at the server.
"""

import numpy as np
import pytest

import fedconformal as fc

pytest.importorskip("flwr", reason="the extra [flower] is not installed")

from flower_grid import LocalGrid
from flwr.app import Context, RecordDict
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.common import ndarrays_to_parameters
from flwr.server import Server, ServerAppComponents, ServerConfig, SimpleClientManager
from flwr.server.strategy import FedAvg
from flwr.serverapp import ServerApp

from fedconformal.flower import (
    Failure,
    add_conformal,
    calibrate,
    conformal_mod,
    sealed,
    train,
)

N_SITES, ROUNDS = 3, 2


def data(context):
    """Targets around the site's number."""
    return context.node_config["level"] + np.random.default_rng(
        context.node_config["level"]
    ).random(50)


class MeanClient(NumPyClient):
    """Its model is the mean of its targets."""

    def __init__(self, targets):
        self.targets = targets

    def fit(self, parameters, config):
        return [np.array([self.targets.mean()])], len(self.targets), {}

    def evaluate(self, parameters, config):
        return float(np.abs(self.targets - parameters[0]).mean()), len(self.targets), {}


def client_fn(context: Context):
    return MeanClient(data(context)).to_client()


def server_fn(context: Context):
    strategy = FedAvg(
        min_available_clients=N_SITES,
        min_fit_clients=N_SITES,
        min_evaluate_clients=N_SITES,
        initial_parameters=ndarrays_to_parameters([np.zeros(1)]),
    )
    return ServerAppComponents(
        strategy=strategy, config=ServerConfig(num_rounds=ROUNDS)
    )


def scores_fn(parameters, context):
    return np.abs(data(context) - parameters[0])


def grid(*mods):
    app = ClientApp(client_fn, mods=list(mods))
    return LocalGrid([(app, {"site": f"site-{i}", "level": i}) for i in range(N_SITES)])


def context():
    return Context(1, 1, {}, RecordDict(), {})


def reports(plan, model):
    for i in range(N_SITES):
        scores = np.abs(data(Context(1, 1, {"level": i}, RecordDict(), {})) - model)
        yield fc.report(plan, scores, site=f"site-{i}")


def test_the_whole_app_trains_as_before_and_is_calibrated():
    plan, results = fc.plan(n_sites=N_SITES, n_points=50, confidence_level=0.8), []
    app = ServerApp()

    @app.main()
    def main(grid, context):
        arrays = train(grid, context, server_fn)
        results.append((arrays, calibrate(grid, plan, arrays, timeout=60)))

    app(grid(conformal_mod(scores_fn)), context())
    ((arrays, calibration),) = results
    (model,) = arrays.to_numpy_ndarrays()
    targets = [
        data(Context(1, 1, {"level": i}, RecordDict(), {})) for i in range(N_SITES)
    ]
    assert model == pytest.approx(np.mean(targets))
    assert calibration.to_json() == fc.calibrate(plan, reports(plan, model)).to_json()


def test_a_server_of_ones_own_is_used():
    parts = server_fn(context())
    mine = Server(client_manager=SimpleClientManager(), strategy=parts.strategy)
    components = ServerAppComponents(server=mine, config=ServerConfig(num_rounds=1))
    train(grid(), context(), lambda _: components)
    assert mine.parameters.tensors


def test_add_conformal_says_what_to_do_with_a_client_fn():
    with pytest.raises(
        ValueError, match=r"ClientApp\(client_fn, mods=\[conformal_mod\(scores_fn\)\]\)"
    ):
        add_conformal(ClientApp(client_fn), scores_fn)


def test_the_mod_goes_together_with_others_and_lets_no_exception_out(caplog):
    def raising(context):
        raise RuntimeError("patient 4711")

    seen = []
    found = grid(sealed, conformal_mod(raising))
    found.tamper = lambda replies: seen.extend(replies) or replies
    with pytest.raises(ValueError, match="0 sites answered"):
        calibrate(found, fc.plan(confidence_level=0.8), timeout=60, wait=0)
    assert {reply.error.code for reply in seen} == {Failure.SCORES}
    assert "patient 4711" not in repr(seen)
