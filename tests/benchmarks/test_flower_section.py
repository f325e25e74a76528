"""The section of Flower with a grid of its own in place of Flower's processes."""

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="the extra [flower] is not installed")

from flwr.app import Context, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from benchmarks import _flower_processes, flower


class Nodes(Grid):
    """So many nodes of one ClientApp, each in this process."""

    run = property(lambda self: None)

    def __init__(self, app, n_nodes, run_config):
        self.app, self.run_config = app, run_config
        self.nodes = {100 + i: {"partition-id": i, "num-partitions": n_nodes} for i in range(n_nodes)}

    def set_run(self, run):
        raise NotImplementedError

    create_message = set_run

    def get_node_ids(self):
        return list(self.nodes)

    def get_nodes(self):
        return [NodeInfo(node_id=node) for node in self.nodes]

    def push_messages(self, messages):
        self.replies = {}
        for number, message in enumerate(messages):
            message.metadata.__dict__["_message_id"] = f"message {number}"
            node = message.metadata.dst_node_id
            context = Context(1, node, self.nodes[node], RecordDict(), self.run_config)
            self.replies[f"message {number}"] = self.app(message, context)
        return list(self.replies)

    def pull_messages(self, message_ids):
        return [self.replies[message_id] for message_id in message_ids]

    def send_and_receive(self, messages, *, timeout=None):
        return self.pull_messages(self.push_messages(messages))


@pytest.fixture
def in_this_process(monkeypatch):
    """Run an app as `simulate` does, without Flower's processes."""
    monkeypatch.syspath_prepend(str(flower.APP))
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1

    def simulate(app, home, sites, /, *, timeout, **configuration):
        assert (app, Path(configuration["output"]).parent) == (flower.APP, home)
        from rounds import client_app, server_app

        grid = Nodes(client_app.app, sites, configuration)
        server_app.app(grid, Context(1, 1, {}, RecordDict(), configuration))
        return "printed"

    yield simulate
    for name in [name for name in sys.modules if name.partition(".")[0] == "rounds"]:
        del sys.modules[name]


def test_a_tiny_federation_is_timed_and_weighed(in_this_process):
    rows = list(flower.run(sites=[3], points=20, repetitions=2, simulate=in_this_process))
    assert [row.name for row in rows] == [
        "calibration round, beside the floor",
        "calibration round, beside sending all",
        "message per site",
    ]
    assert {row.setting for row in rows} == {"3 simulated sites"}
    assert rows[1].yardstick.words == "all 20 scores"
    assert 0 < rows[2].ours.value <= flower.GOAL_BYTES
    assert rows[2].met


def test_a_simulation_without_a_result_says_what_it_printed():
    with pytest.raises(RuntimeError, match="gave no result:\nout of memory"):
        list(flower.run(sites=[3], simulate=lambda *_, **__: "out of memory"))


def test_the_engine_is_asked_for_the_sites_and_told_the_configuration(monkeypatch, tmp_path):
    """The configuration has a field `sites` of its own, beside the number of nodes."""
    asked = []

    class Done:
        stdout = "done"

    def run(command, **options):
        asked.append(command)
        return Done

    monkeypatch.setattr(_flower_processes.subprocess, "run", run)
    printed = _flower_processes.simulate(flower.APP, tmp_path, 3, timeout=1, sites=3, output="a b")
    assert printed == "done"
    assert asked[0][-3:] == ["num-supernodes=3", "--run-config", f"sites=3 output={json.dumps('a b')}"]
