"""What runs at the server: train, calibrate, look."""

from pathlib import Path

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

import fedconformal as fc
from digits import task
from fedconformal.flower import calibrate

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Rounds of FedAvg, one calibration round, and the coverage that each site sees."""
    config = context.run_config
    # Without min_train_nodes the first round may train on the few sites that happen to be there.
    strategy = FedAvg(
        fraction_evaluate=0.0, min_train_nodes=config["sites"], min_available_nodes=config["sites"]
    )
    trained = strategy.start(grid, ArrayRecord(task.initial_model()), num_rounds=config["rounds"])

    plan = fc.plan(n_sites=config["sites"], confidence_level=config["confidence-level"])
    calibration = calibrate(grid, plan, arrays=trained.arrays, timeout=config["timeout"])

    print(f"threshold {calibration.threshold:.4f} from {calibration.n_answers} of {config['sites']} sites")
    law = calibration.law
    print(f"asked for {config['confidence-level']}: the coverage is {law.mean():.3f} on average")
    print(f"and above {law.ppf(0.05):.3f} in 95 % of calibrations")
    look(grid, trained.arrays, calibration.threshold, timeout=config["timeout"])
    if config["output"]:
        Path(config["output"]).write_text(calibration.to_json() + "\n")


def look(grid: Grid, arrays: ArrayRecord, threshold: float, timeout: float) -> None:
    """Ask each site for the coverage on its held-out images."""
    content = RecordDict({"arrays": arrays, "metrics": MetricRecord({"threshold": threshold})})
    questions = [Message(content, node, "query.coverage", ttl=timeout) for node in grid.get_node_ids()]
    replies = [r for r in grid.send_and_receive(questions, timeout=timeout) if r.has_content()]
    results = sorted(
        ((r.content["names"]["site"], r.content["metrics"]) for r in replies), key=lambda result: result[0]
    )
    for site, seen in results:
        share, size = seen["covered"] / seen["images"], seen["labels"] / seen["images"]
        print(f"{site}: {share:.3f} of {seen['images']} held-out images covered, {size:.2f} digits per set")
    if not results:
        return
    images = sum(seen["images"] for _, seen in results)
    print(f"all {images} held-out images: {sum(seen['covered'] for _, seen in results) / images:.3f} covered")
