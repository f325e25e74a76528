"""Server part of the app: train and calibrate, then ask every site for the risk on new
patients.
"""

from flwr.app import ArrayRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from fedconformal.flower import Conformal, calibration_record
from findings import task

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run FedAvg and one calibration round; then the sites use the calibration on new
    patients.
    """
    config, timeout = context.run_config, context.run_config["timeout"]
    sites = config["n-sites"]
    fedavg = FedAvg(
        fraction_evaluate=0.0, min_train_nodes=sites, min_available_nodes=sites
    )
    strategy = Conformal.from_config(fedavg, config)
    start = ArrayRecord(task.initial_model())
    result = strategy.start(grid, start, config["num-server-rounds"], timeout=timeout)
    calibration = result.calibration
    print(
        f"threshold {calibration.threshold:.4f} from {calibration.n_answers} of {sites}"
        " sites"
    )

    content = RecordDict(
        {"arrays": result.arrays, "conformal": calibration_record(calibration)}
    )
    messages = [Message(content, node, "query.risk") for node in grid.get_node_ids()]
    replies = [
        reply
        for reply in grid.send_and_receive(messages, timeout=timeout)
        if reply.has_content()
    ]
    for row in sorted(
        (reply.content["metrics"] for reply in replies), key=lambda row: row["site"]
    ):
        missed, selected = (
            f"{row['risk']:.3f} of the findings missed",
            f"{row['selected']:.1f} of 6 selected",
        )
        print(f"site {row['site']}: {missed} on average, {selected}", flush=True)
