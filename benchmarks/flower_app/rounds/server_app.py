"""Time rounds of one kind, or two by turns, and weigh what travelled."""

import json
from pathlib import Path
from time import perf_counter, sleep

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

import fedconformal as fc
from fedconformal import baselines
from fedconformal.flower import calibrate

app = ServerApp()
TIMEOUT = 600.0


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    while len(list(grid.get_node_ids())) < config["sites"]:
        sleep(0.1)
    weigh = Scales(grid)
    plan = fc.plan(n_sites=config["sites"], n_points=config["points"])
    rounds = {
        "ours": lambda: calibrate(grid, plan, timeout=TIMEOUT),
        "floor": lambda: query(grid, "floor"),
        "everything": lambda: pooled(query(grid, "everything")),
    }
    if config["masked"]:
        plans = {
            path.stem: fc.Plan.read(path)
            for path in Path(config["masked"]).glob("*.json")
        }
        counts = plans.pop("counts")
        rounds["counts"] = lambda: calibrate(grid, counts, timeout=TIMEOUT)
        rounds["masked"] = lambda: calibrate(grid, plans.popitem()[1], timeout=TIMEOUT)
    rounds = {name: rounds[name] for name in config["kinds"].split()}
    for run in rounds.values():  # processes start, modules are imported
        run()
    result = {name: {"seconds": [], "bytes": 0} for name in rounds}
    for _ in range(config["repetitions"]):
        for name, run in rounds.items():
            start = perf_counter()
            run()
            result[name]["seconds"].append(perf_counter() - start)
            result[name]["bytes"] = weigh.last
    Path(config["output"]).write_text(json.dumps(result))


def query(grid, action):
    content = RecordDict({"config": ConfigRecord({"level": 0.9})})
    messages = [
        Message(content, node, f"query.{action}", ttl=TIMEOUT)
        for node in grid.get_node_ids()
    ]
    replies = list(grid.send_and_receive(messages, timeout=TIMEOUT))
    assert len(replies) == len(messages)
    return replies


def pooled(replies):
    scores = [reply.content["arrays"].to_numpy_ndarrays()[0] for reply in replies]
    return baselines.centralized(np.concatenate(scores), 0.9)


class Scales:
    """Bytes per site of a question and its reply, metadata and all, as Flower sends
    them.
    """

    def __init__(self, grid):
        self.question, self.reply = 0, 0
        push, pull = grid.push_messages, grid.pull_messages

        # The time that this takes is small beside a round, and the same kind for all
        # three.
        def pushing(messages):
            messages = list(messages)
            sent = push(messages)
            self.question = self.weight(messages[0])
            return sent

        def pulling(message_ids):
            replies = list(pull(message_ids))
            if replies:
                self.reply = self.weight(replies[0])
            return replies

        grid.push_messages, grid.pull_messages = pushing, pulling

    @property
    def last(self):
        return self.question + self.reply

    @staticmethod
    def weight(message):
        return sum(
            len(part.deflate()) for part in get_all_nested_objects(message).values()
        )
