"""Server part of the app: train, calibrate, and use the thresholds."""

from pathlib import Path

import torch
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from sklearn.datasets import load_digits

import fedconformal as fc
from digits_torch import task
from fedconformal.flower import calibrate

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run FedAvg, then one calibration round; both results are saved as soon as they are there."""
    config = context.run_config
    folder = Path(config["output"] or f"digits-torch-{context.run_id}").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    print(f"results go to {folder}", flush=True)
    model, file = task.network(), folder / "model.pt"
    if file.exists():  # of an interrupted run
        model.load_state_dict(torch.load(file, weights_only=True))
    else:
        model.load_state_dict(trained(grid, config, model.state_dict()))
        torch.save(model.state_dict(), file)
    arrays = ArrayRecord(model.state_dict())

    level, digits = config["confidence-level"], [str(digit) for digit in range(10)]
    by_class = {"groups": dict.fromkeys(digits), "group_by": "class"} if config["per-class"] else {}
    terms = {"model": arrays}
    plan = fc.plan(confidence_level=level, score="lac", terms=terms, **by_class)
    calibration = calibrate(grid, plan, arrays, config["timeout"], reports=folder / "reports")
    (folder / "calibration.json").write_text(calibration.to_json() + "\n")
    thresholds = ", ".join(f"{part.thresholds[0]:.4f}" for part in calibration.parts)
    print(f"{calibration.n_answers} sites answered; thresholds: {thresholds}")

    X, _ = load_digits(return_X_y=True)
    probabilities = task.probabilities(model, torch.tensor(X[:5] / 16, dtype=torch.float32))
    for labels in calibration.predict_set(probabilities, as_labels=True):
        print("a prediction set:", labels)


def trained(grid: Grid, config, start):
    """Return the weights after all rounds; Flower waits for sites that are not connected."""
    sites = config["sites"]
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=sites, min_available_nodes=sites)
    result = strategy.start(grid, ArrayRecord(start), num_rounds=config["rounds"], timeout=config["timeout"])
    return result.arrays.to_torch_state_dict()
