"""Rounds whose results, and everything that came, are written down, so that they can be
searched.
"""

from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedconformal import Plan
from fedconformal.flower import calibrate, check

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    output, asked = Path(config["output"]), []
    pull, push = grid.pull_messages, grid.push_messages

    def recording(message_ids):
        replies = list(pull(message_ids))
        with output.with_suffix(".messages").open("a") as file:
            file.writelines(f"{reply!r}\n" for reply in replies)
        return replies

    def counting(messages):
        asked.append(len(messages))
        return push(messages)

    grid.pull_messages, grid.push_messages = recording, counting
    plan, options = Plan.read(config["plan"]), {"timeout": config["timeout"]}
    calibration = calibrate(
        grid, plan, reports=config["reports"] or None, wait=300, **options
    )
    output.write_text(calibration.to_json())
    if config["more"]:
        more(grid, calibration, config["reports"], options)
        print("questions:", asked)
    if config["ledgers"]:
        rows = check(grid, calibration, **options).rows
        print("private checks:", len(rows), {row.epsilon for row in rows})


def more(grid, calibration, reports, options):
    """The same round again, from its folder; some of the sites; and what they see of
    it.
    """
    (kept,) = Path(reports).iterdir()
    assert calibrate(grid, calibration.plan, reports=kept, **options) == calibration
    few = sorted(grid.get_node_ids())[:3]
    open_plan = Plan.read(Path(reports).parent / "open.json")
    assert 2 <= calibrate(grid, open_plan, nodes=few, wait=0, **options).n_answers <= 3
    rows = check(grid, calibration, **options).rows
    print("checked:", sorted({row.site for row in rows}), {row.check.n for row in rows})
