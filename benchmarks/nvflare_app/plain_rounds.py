"""A round of FLARE's own, for one float or all scores, timed and weighed; sites import
nothing of ours.
"""

import json
from pathlib import Path
from time import perf_counter

import numpy as np
from nvflare.apis.controller_spec import Task
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import ReservedHeaderKey, Shareable, make_reply

TIMEOUT = 60


def scores(fl_ctx, points):
    site = int(fl_ctx.get_identity_name().removeprefix("site-"))
    return np.random.default_rng(site).random(points)


class Plain(Executor):
    """The engine's own: one float, or everything."""

    def __init__(self, points):
        super().__init__()
        self.points = points

    def execute(self, task_name, shareable, fl_ctx, abort_signal):
        reply = make_reply(ReturnCode.OK)
        mine = scores(fl_ctx, self.points)
        reply["value"] = float(mine[0]) if task_name == "floor" else mine.tobytes()
        return reply


class PlainRound(Controller):
    def __init__(self, kind, sites, points, output):
        super().__init__()
        self.kind, self.sites, self.points, self.output = kind, sites, points, output
        self.weight = 0

    start_controller = stop_controller = process_result_of_unknown_task = lambda *_: (
        None
    )

    def control_flow(self, abort_signal, fl_ctx):
        """One round, from the question until the last answer; processes of the sites
        start meanwhile.
        """
        start = perf_counter()
        self.ask(abort_signal, fl_ctx)
        found = {"seconds": perf_counter() - start, "bytes": self.weight}
        Path(self.output).write_text(json.dumps(found))

    def ask(self, abort_signal, fl_ctx):
        values = []

        def receive(client_task, fl_ctx):
            values.append(client_task.result["value"])

        targets = [client.name for client in fl_ctx.get_engine().get_clients()]
        task = Task(
            self.kind,
            Shareable({"level": 0.9}),
            timeout=TIMEOUT,
            result_received_cb=receive,
        )
        self.broadcast_and_wait(
            task, fl_ctx, targets=targets, min_responses=0, abort_signal=abort_signal
        )
        assert len(values) == self.sites
        if self.kind == "everything":
            np.quantile(np.concatenate([np.frombuffer(value) for value in values]), 0.9)

    def broadcast_and_wait(self, task, *arguments, **options):
        """As FLARE does it, with the bytes of the question and of one reply; FLARE's
        own headers left out.
        """
        question, receive = weigh(task.data), task.result_received_cb

        def weighing(client_task, fl_ctx):
            self.weight = question + weigh(client_task.result)
            receive(client_task=client_task, fl_ctx=fl_ctx)

        task.result_received_cb = weighing
        super().broadcast_and_wait(task, *arguments, **options)


def weigh(content):
    bare = {
        key: value for key, value in content.items() if key != ReservedHeaderKey.HEADERS
    }
    return len(Shareable(bare).to_bytes())
