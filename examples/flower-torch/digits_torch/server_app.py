"""Server part of the app: train and calibrate, and use the thresholds."""

import torch
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from sklearn.datasets import load_digits

from digits_torch import task
from fedconformal.flower import Conformal

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run FedAvg, then one calibration round, and make a few prediction sets."""
    config, sites = context.run_config, context.run_config["n-sites"]
    fedavg = FedAvg(
        fraction_evaluate=0.0, min_train_nodes=sites, min_available_nodes=sites
    )
    digits = [str(digit) for digit in range(10)]
    by_class = (
        {"groups": dict.fromkeys(digits), "group_by": "class"}
        if config["per-class"]
        else {}
    )
    strategy = Conformal.from_config(fedavg, config, **by_class)
    start = ArrayRecord(task.network().state_dict())
    result = strategy.start(
        grid, start, config["num-server-rounds"], timeout=config["timeout"]
    )

    calibration = result.calibration
    thresholds = ", ".join(f"{part.thresholds[0]:.4f}" for part in calibration.parts)
    print(f"{calibration.n_answers} sites answered; thresholds: {thresholds}")
    X, _ = load_digits(return_X_y=True)
    model = task.network()
    model.load_state_dict(result.arrays.to_torch_state_dict())
    probabilities = task.probabilities(
        model, torch.tensor(X[:5] / 16, dtype=torch.float32)
    )
    for labels in calibration.predict_set(probabilities, as_labels=True):
        print("a prediction set:", labels)
