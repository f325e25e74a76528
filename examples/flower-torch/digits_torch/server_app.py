"""What runs at the server: train, calibrate, and use the thresholds."""

from pathlib import Path

import numpy as np
import torch
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from sklearn.datasets import load_digits

import fedconformal as fc
from digits_torch import task
from fedconformal.flower import calibrate, model_digest

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Rounds of FedAvg, then one calibration round; both results are saved as soon as they are there."""
    config = context.run_config
    folder = Path(config["output"] or f"digits-torch-{context.run_id}").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    print(f"results go to {folder}", flush=True)
    model, file = task.network(), folder / "model.pt"
    if file.exists():  # of a run that died
        model.load_state_dict(torch.load(file, weights_only=True))
    else:
        model.load_state_dict(trained(grid, config, model.state_dict()))
        torch.save(model.state_dict(), file)
    arrays = ArrayRecord(model.state_dict())

    level, digits = config["confidence-level"], [str(digit) for digit in range(10)]
    by_class = {"groups": dict.fromkeys(digits), "group_by": "class"} if config["per-class"] else {}
    plan = fc.plan(confidence_level=level, score="lac", model=model_digest(arrays), **by_class)
    calibration = calibrate(grid, plan, arrays, config["timeout"], reports=folder / "reports")
    (folder / "calibration.json").write_text(calibration.to_json() + "\n")
    print(f"{len(calibration.reports)} sites answered; thresholds: {calibration.threshold}")

    X, _ = load_digits(return_X_y=True)
    sets = calibration.predict_set(task.probabilities(model, torch.tensor(X[:5] / 16, dtype=torch.float32)))
    for found in np.asarray(sets).reshape(5, 10):
        print("a prediction set:", [digit for digit, inside in zip(digits, found, strict=True) if inside])


def trained(grid: Grid, config, start):
    """The weights after all rounds; sites that are not there are waited for by Flower."""
    sites = config["sites"]
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=sites, min_available_nodes=sites)
    result = strategy.start(grid, ArrayRecord(start), num_rounds=config["rounds"], timeout=config["timeout"])
    return result.arrays.to_torch_state_dict()
