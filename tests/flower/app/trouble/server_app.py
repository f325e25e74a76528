"""One round; everything that came is written down, so that it can be searched."""

from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedconformal import Plan
from fedconformal.flower import calibrate

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    output = Path(config["output"])
    receive = grid.send_and_receive

    def recording(messages, *, timeout=None):
        replies = list(receive(messages, timeout=timeout))
        output.with_suffix(".messages").write_text("\n".join(map(repr, replies)))
        return replies

    grid.send_and_receive = recording
    calibration = calibrate(grid, Plan.read(config["plan"]), timeout=config["timeout"])
    output.write_text(calibration.to_json())
