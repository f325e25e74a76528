"""A provisioned FLARE federation on this machine: certificates, mutual TLS, a process
for everybody.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

ADMIN = "lead@test.org"
MARK = "FEDCONFORMAL_TEST_FEDERATION"
ALLOWED = {
    "server": "fedconformal.nvflare.ConformalController",
    "site": "fedconformal.nvflare.ConformalExecutor",
}

SUBMIT = """
import sys, time
from nvflare.fuel.flare_api.flare_api import new_secure_session

kit, job, n_sites = sys.argv[1], sys.argv[2], int(sys.argv[3])
session = new_secure_session("{admin}", kit, timeout=300)
while len(session.get_system_info().client_info) < n_sites:
    time.sleep(0.5)
print(session.submit_job(job), flush=True)
session.close()
""".replace("{admin}", ADMIN)


class Federation:
    """Provisioned under a folder; every process that was started is ended with the
    context.
    """

    def __init__(self, home, sites):
        self.home, self.sites = home, sites
        self.processes = {}
        port = free_port()
        people = [
            {
                "name": "localhost",
                "type": "server",
                "org": "test",
                "fed_learn_port": port,
            },
            *({"name": site, "type": "client", "org": "test"} for site in sites),
            {"name": ADMIN, "type": "admin", "org": "test", "role": "lead"},
        ]
        builders = [
            ("workspace.WorkspaceBuilder", {"template_file": ["master_template.yml"]}),
            ("static_file.StaticFileBuilder", {"config_folder": "config"}),
            ("cert.CertBuilder", {}),
            ("signature.SignatureBuilder", {}),
        ]
        project = {
            "api_version": 3,
            "name": "federation",
            "description": "test",
            "participants": people,
            "builders": [
                {"path": f"nvflare.lighter.impl.{path}", "args": arguments}
                for path, arguments in builders
            ],
        }
        file = home / "project.yml"
        file.write_text(json.dumps(project))  # JSON is YAML
        self.run(
            "-m",
            "nvflare.lighter.provision",
            "-p",
            str(file),
            "-w",
            str(home / "provisioned"),
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end_processes(self.home)
        for process in self.processes.values():
            process.wait()

    def folder(self, name):
        return self.home / "provisioned" / "federation" / "prod_00" / name

    @property
    def server(self):
        return self.folder("localhost")

    def run(self, *arguments):
        """Run Python, and return what it printed."""
        done = subprocess.run(
            [sys.executable, *arguments],
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr + self.logs()
        return done.stdout

    def environment(self):
        return {**os.environ, MARK: str(self.home), "PYTHONDONTWRITEBYTECODE": "1"}

    def start_server(self):
        """The server: its jobs below its own folder, and one more class allowed."""
        resources = self.allow("localhost", ALLOWED["server"])
        storage = str(self.server / "storage")
        text = json.dumps(resources).replace("/tmp/nvflare", storage)
        (self.server / "local" / "resources.json").write_text(text)
        self.start(
            "localhost",
            "server.server_train",
            "fed_server.json",
            "secure_train=true",
            "org=test",
        )

    def start_site(self, name, **settings):
        """A site that lets in no code of a job's own, with one more class allowed and a
        file of its own.
        """
        local = self.folder(name) / "local"
        (local / "resources.json").write_text(
            json.dumps(self.allow(name, ALLOWED["site"]))
        )
        rights = json.loads((local / "authorization.json.default").read_text())
        for role in rights["permissions"].values():
            if isinstance(role, dict):
                role["byoc"] = "none"
        (local / "authorization.json").write_text(json.dumps(rights))
        lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
        (local / "fedconformal.toml").write_text("\n".join(lines))
        self.start(
            name,
            "client.client_train",
            "fed_client.json",
            "secure_train=true",
            f"uid={name}",
            "org=test",
        )

    def allow(self, name, path):
        """What a site's or the server's configuration says, with one class more; FLARE
        ships with its own.
        """
        resources = json.loads(
            (self.folder(name) / "local" / "resources.json.default").read_text()
        )
        assert resources["class_list_enforcement_mode"] == "enforce"
        resources["class_allow_list"].append(path)
        return resources

    def start(self, name, module, startup, *settings):
        folder = self.folder(name)
        command = [
            sys.executable,
            "-u",
            "-m",
            f"nvflare.private.fed.app.{module}",
            "-m",
            str(folder),
        ]
        with (self.home / f"{name}.out").open("w") as out:
            self.processes[name] = subprocess.Popen(
                [*command, "-s", startup, "--set", *settings, "config_folder=config"],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=self.environment(),
                cwd=folder,
                start_new_session=True,
            )

    def submit(self, job):
        """Send a job as an administrator does, once everybody is connected; its folder
        at the server.
        """
        printed = self.run(
            "-c", SUBMIT, str(self.folder(ADMIN)), str(job), str(len(self.sites))
        )
        return self.server / printed.split()[-1]

    def kill(self, name, *others):
        for process in (self.processes[name].pid, *others):
            os.kill(process, signal.SIGKILL)

    def wait_until(self, condition, what, seconds=600):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(f"not in time: {what}\n{self.logs()}")
            time.sleep(0.2)

    def logs(self):
        return "\n".join(
            f"{log}:\n{log.read_text()[-3000:]}"
            for log in sorted(self.home.glob("*.out"))
        )


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def end_processes(home):
    """Kill by number whatever was started for this federation: jobs run in sessions of
    their own.
    """
    mark = f"{MARK}={home}".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)
