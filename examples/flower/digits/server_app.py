"""Server part of the app: train, calibrate, check."""

import time
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

import fedconformal as fc
from digits import task
from fedconformal.flower import calibrate, check

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run FedAvg and one calibration round, and check the coverage at each site.

    Results are saved as soon as they are there; with the folder of an interrupted run, it is resumed.
    """
    config = context.run_config
    folder = Path(config["output"] or f"digits-{context.run_id}").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    print(f"results go to {folder}", flush=True)
    arrays = trained_model(grid, config, folder / "model.npz")

    kept = folder / "reports" / "plan.json"
    plan = fc.Plan.read(kept) if kept.exists() else new_plan(grid, config, arrays)
    calibration = calibrate(grid, plan, arrays, config["timeout"], reports=folder / "reports")
    (folder / "calibration.json").write_text(calibration.to_json() + "\n")

    print(f"threshold {calibration.threshold:.4f} from {calibration.n_answers} of {plan.n_sites} sites")
    law = calibration.law
    print(f"asked for {plan.confidence_level}: the coverage is {law.mean():.3f} on average")
    print(f"and above {law.ppf(0.05):.3f} in 95 % of calibrations", flush=True)

    assessment = check(grid, calibration, arrays, config["timeout"])
    for row in assessment.rows:
        print(f"{row.site}: {row.check.coverage:.3f} of {row.check.n} new images covered")
    print(assessment.sentence())


def trained_model(grid: Grid, config, file: Path) -> ArrayRecord:
    """Return the model after all rounds of FedAvg, or the one in the file if there is one."""
    if file.exists():
        with np.load(file) as kept:
            return ArrayRecord([kept[name] for name in kept.files])
    sites = connected(grid, config["sites"])
    # Without min_train_nodes the first round may train on the few sites that happen to be there.
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=sites, min_available_nodes=sites)
    start = ArrayRecord(task.initial_model())
    result = strategy.start(grid, start, num_rounds=config["rounds"], timeout=config["timeout"])
    np.savez(file, *result.arrays.to_numpy_ndarrays())
    return result.arrays


def new_plan(grid: Grid, config, arrays: ArrayRecord) -> fc.Plan:
    """Plan for the sites that are connected, and for this model alone."""
    sites = connected(grid, config["sites"])
    level = config["confidence-level"]
    terms = {"model": arrays}
    return fc.plan(n_sites=sites, confidence_level=level, terms=terms)


def connected(grid: Grid, wanted: int, seconds: float = 60.0) -> int:
    """Wait for this many sites, or until no more of them come; Flower itself would wait for ever."""
    there, end = -1, time.monotonic() + seconds
    while time.monotonic() < end:
        before, there = there, len(list(grid.get_node_ids()))
        if there >= wanted > 0 or (wanted == 0 and there == before > 1):
            return there
        time.sleep(1)
    raise SystemExit(f"sites connected after {seconds:g} s: {there}, wanted: {wanted or 'two or more'}")
