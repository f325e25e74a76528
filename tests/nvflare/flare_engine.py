"""FLARE's engine without any process: each site is an executor in a workspace of its
own, called here.
"""

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from nvflare.apis.client import Client
from nvflare.apis.controller_spec import ClientTask
from nvflare.apis.fl_constant import ReservedKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal
from nvflare.apis.wf_comm_spec import WFCommSpec
from nvflare.apis.workspace import Workspace
from nvflare.app_common.decomposers import common_decomposers

from fedconformal.nvflare import ConformalController, ConformalExecutor

# as FLARE's processes do when they start: how arrays travel
common_decomposers.register()

JOB = "f0f0f0f0-0000-4000-8000-000000000001"


class Scores(ConformalExecutor):
    """Answers with what it is given, as a job's own code would; an exception is raised
    instead.
    """

    def __init__(self, values):
        super().__init__()
        self.values = values

    def scores(self, plan, model, fl_ctx):
        if isinstance(self.values, BaseException):
            raise self.values
        return (
            self.values(plan, model, fl_ctx) if callable(self.values) else self.values
        )


class LocalFlare(WFCommSpec):
    """The engine and the communicator of a server; the sites answer in reverse
    order.
    """

    def __init__(
        self,
        home,
        sites,
        tamper=lambda name, result: result,
        job=JOB,
        headers=None,
    ):
        self.home, self.tamper, self.job = home, tamper, job
        self.headers = headers or {}
        self.handlers = []
        self.sites = dict(sites)
        self.sent, self.results = [], {}
        self.abort_after = None
        self.fl_ctx = self.context("server")

    def context(self, name):
        root = self.home / name
        for folder in ("startup", "local", self.job):
            (root / folder).mkdir(parents=True, exist_ok=True)
        fl_ctx = FLContext()
        engine = self if name == "server" else Engine()
        engine.workspace = Workspace(str(root), name)
        for key, value in (
            (ReservedKey.ENGINE, engine),
            (ReservedKey.IDENTITY_NAME, name),
            (ReservedKey.RUN_NUM, self.job),
        ):
            fl_ctx.put(key, value, private=True, sticky=False)
        return fl_ctx

    def local(self, name):
        """A site's own configuration folder."""
        self.context(name)
        return self.home / name / "local"

    def get_workspace(self):
        return self.workspace

    def get_clients(self):
        return [Client(name, f"token of {name}") for name in self.sites]

    def fire_event(self, event_type, fl_ctx):
        for handler in self.handlers:
            handler.handle_event(event_type, fl_ctx)

    def broadcast_and_wait(
        self,
        task,
        fl_ctx,
        targets=None,
        min_responses=1,
        wait_time_after_min_received=0,
        abort_signal=None,
    ):
        assert (min_responses, type(task.timeout)) == (0, int)
        for number, name in enumerate(reversed(targets)):
            if self.abort_after == number:
                abort_signal.trigger(True)
                return
            self.sent.append((name, task.data))
            data = Shareable.from_bytes(task.data.to_bytes())
            for header, value in self.headers.get(name, {}).items():
                data.set_header(header, value)
            result = self.sites[name].execute(
                task.name, data, self.context(name), Signal()
            )
            result = self.tamper(name, result)
            if result is None:
                continue
            self.results[name] = result.to_bytes()
            asked = ClientTask(Client(name, f"token of {name}"), task)
            asked.result = Shareable.from_bytes(self.results[name])
            try:
                task.result_received_cb(client_task=asked, fl_ctx=fl_ctx)
            except (
                Exception
            ):  # FLARE logs it, ends the task, and returns as if nothing were wrong
                return
            self.late = lambda asked=asked: task.result_received_cb(
                client_task=asked, fl_ctx=fl_ctx
            )

    def deploy(self, recipe):
        """The controller of a recipe as the server makes it from an exported job, with
        its files in place.
        """
        with TemporaryDirectory() as folder:
            recipe.export(folder)
            (config,) = Path(folder).rglob("config")
            shutil.copytree(config, self.workspace.get_app_config_dir(self.job))
            workflow = json.loads((config / "config_fed_server.json").read_text())[
                "workflows"
            ][-1]
        assert workflow["path"] == "fedconformal.nvflare.ConformalController"
        return ConformalController(**workflow["args"])

    def run(self, controller):
        """A job with one workflow; whether it ended without an error."""
        controller.set_communicator(self)
        panics = []
        controller.system_panic = lambda reason, fl_ctx: panics.append(reason)
        controller.control_flow(Signal(), self.fl_ctx)
        return panics

    def _unused(self, *_, **__):
        raise NotImplementedError


for name in list(WFCommSpec.__dict__):
    if not name.startswith("_") and name not in LocalFlare.__dict__:
        setattr(LocalFlare, name, LocalFlare._unused)


class Engine:
    """What a site's context gives access to."""

    def get_workspace(self):
        return self.workspace

    def fire_event(self, event_type, fl_ctx):
        pass
