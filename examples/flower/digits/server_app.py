"""Server part of the app: train and calibrate, check the coverage, make prediction sets
at the sites.
"""

import numpy as np
from flwr.app import ArrayRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from digits import task
from fedconformal.flower import Conformal, calibration_record, check

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run FedAvg and one calibration round; then the sites use the calibration on new
    images.
    """
    config, timeout = context.run_config, context.run_config["timeout"]
    # Without min_train_nodes the first round may train on the few sites that happen to
    # be there.
    sites = config["n-sites"]
    fedavg = FedAvg(
        fraction_evaluate=0.0, min_train_nodes=sites, min_available_nodes=sites
    )
    strategy = Conformal.from_config(fedavg, config)
    start = ArrayRecord(task.initial_model())
    result = strategy.start(grid, start, config["num-server-rounds"], timeout=timeout)

    calibration, law = result.calibration, result.calibration.law
    print(
        f"threshold {calibration.threshold:.4f} from {calibration.n_answers} of {sites}"
        " sites"
    )
    print(
        f"asked for {calibration.plan.confidence_level}: the coverage is"
        f" {law.mean():.3f} on average"
    )
    print(f"and above {law.ppf(0.05):.3f} in 95 % of calibrations", flush=True)

    assessment = check(grid, calibration, result.arrays, timeout)
    for row in assessment.rows:
        print(
            f"{row.site}: {row.check.coverage:.3f} of {row.check.n} new images covered"
        )
    print(assessment.sentence())

    content = RecordDict(
        {"arrays": result.arrays, "conformal": calibration_record(calibration)}
    )
    messages = [Message(content, node, "query.sets") for node in grid.get_node_ids()]
    replies = list(grid.send_and_receive(messages, timeout=timeout))
    sizes = [
        reply.content["metrics"]["set-size"] for reply in replies if reply.has_content()
    ]
    print(
        f"prediction sets at {len(sizes)} sites hold {np.mean(sizes):.2f} digits on"
        " average",
        flush=True,
    )
