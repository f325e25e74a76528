"""A real Flower federation on this machine: TLS, authenticated sites, and a proxy that
lets only sites in.

    python examples/flower/deploy.py

starts a SuperLink (the server), a reverse proxy in front of it and four SuperNodes (the
sites), each with a file of its own data, runs the app beside this file, and ends every
process again, also after Ctrl-C. On real machines the same commands run on different
hosts.
"""

import argparse
import contextlib
import datetime
import functools
import ipaddress
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

HERE = Path(__file__).resolve().parent
HOST = "127.0.0.1"

# Flower asks hosts outside for updates, reports usage and installs packages at run
# time; this stays at home.
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}

# Everything the sites need is under /v1/fleet/. The Control API on the same port asks
# nobody for a password: it must not be reachable from outside.
PROXY = """
daemon off;
pid "{home}/proxy.pid";
error_log "{home}/proxy.log";
events {{}}
http {{
  access_log "{home}/proxy-access.log";
  client_body_temp_path "{home}/proxy-temp";
  proxy_temp_path "{home}/proxy-temp";
  fastcgi_temp_path "{home}/proxy-temp";
  uwsgi_temp_path "{home}/proxy-temp";
  scgi_temp_path "{home}/proxy-temp";
  client_max_body_size 1g;
  server {{
    listen {host}:{port} ssl;
    ssl_certificate "{home}/server.crt";
    ssl_certificate_key "{home}/server.key";
    location /v1/fleet/ {{
      proxy_pass https://{host}:{inner}/v1/fleet/;
      proxy_ssl_verify on;
      proxy_ssl_trusted_certificate "{home}/ca.crt";
      proxy_ssl_name localhost;
      proxy_http_version 1.1;
      proxy_request_buffering off;
      proxy_buffering off;
      proxy_read_timeout 1h;
    }}
    location / {{ return 403; }}
  }}
}}
"""


STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Deployment:
    """A SuperLink, its proxy and its SuperNodes; leaving the ``with`` block ends all of
    them.
    """

    def __init__(self, home):
        """Keep everything in the new folder ``home``: the server's in ``server``, a
        site's in its own.
        """
        self.home = Path(home)
        if self.home.exists() and any(self.home.iterdir()):
            raise FileExistsError(
                f"{home} is not empty: a federation starts with new keys and"
                " certificates"
            )
        self.addresses = {}
        self.server = self.home / "server"
        self.processes = {}
        self.port = self.door = None
        for folder in ("flwr", "proxy-temp"):
            (self.server / folder).mkdir(parents=True, exist_ok=True)

    def __enter__(self):
        """Nothing is started yet. Whoever stops this program stops everything."""
        self.before = {number: signal.signal(number, _stop) for number in STOPPING}
        return self

    def __exit__(self, *_):
        """End every process that was started, by its number, all at once, and be not
        disturbed.
        """
        for number in STOPPING:
            signal.signal(number, signal.SIG_IGN)
        self.end(*self.processes)
        for number, handler in self.before.items():
            signal.signal(number, handler)

    # -- processes ---------------------------------------------------------------------

    def start(self, name, folder, *command):
        """Start a process that keeps its log and Flower's files in a folder of its
        own.
        """
        with (folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                env=environment(folder),
                start_new_session=True,
            )
        return self.processes[name]

    def end(self, *names, how=signal.SIGTERM, seconds=3.0):
        """End these processes and whatever they started; who does not go is killed."""
        ending = [self.processes.pop(name) for name in names]
        family = with_descendants(process.pid for process in ending)
        send(how, family)
        end = time.monotonic() + seconds
        while time.monotonic() < end and any(
            process.poll() is None for process in ending
        ):
            time.sleep(0.05)
        send(signal.SIGKILL, family)
        for process in ending:
            process.wait()

    def flwr(self, *arguments, timeout=300, check=True):
        """Run Flower's command line; return what it printed."""
        done = subprocess.run(
            ["flwr", *arguments],
            env=environment(self.server),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check and done.returncode:
            raise RuntimeError(
                f"flwr {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}"
            )
        return done.stdout + done.stderr

    # -- the server --------------------------------------------------------------------

    def start_server(self, proxy=None):
        """Start the SuperLink, reachable from this machine only, and the proxy that the
        sites connect to.
        """
        files = self.server
        make_certificates(files)
        self.port = self.door = free_port()
        self.start(
            "superlink",
            files,
            "flower-superlink",
            *("--host", HOST, "--port", str(self.port)),
            *("--ssl-ca-certfile", f"{files}/ca.crt"),
            *(
                "--ssl-certfile",
                f"{files}/server.crt",
                "--ssl-keyfile",
                f"{files}/server.key",
            ),
            *("--database", f"{files}/state.db"),
            "--enable-supernode-auth",
            "--disable-runtime-dependency-installation",
        )
        wait_for(self.port, self.processes["superlink"], files / "superlink.log")
        if proxy:
            self.door = free_port()
            text = PROXY.format(home=files, host=HOST, port=self.door, inner=self.port)
            (files / "proxy.conf").write_text(text)
            self.start(
                "proxy", files, proxy, "-p", str(files), "-c", f"{files}/proxy.conf"
            )
            wait_for(self.door, self.processes["proxy"], files / "proxy.log")
        self.connect("deployment", self.port)

    def connect(self, name, port):
        """Tell ``flwr`` of an address, under a name."""
        self.addresses[name] = port
        entries = [
            f'[superlink.{name}]\naddress = "{HOST}:{port}"\nroot-certificates ='
            f' "{self.server}/ca.crt"\n'
            for name, port in self.addresses.items()
        ]
        (self.server / "flwr" / "config.toml").write_text("\n".join(entries))

    # -- the sites ---------------------------------------------------------------------

    def add_site(self, name, *, register=True, key=None, **configuration):
        """Make a site's key, register it under the site's name, and start its
        SuperNode.
        """
        folder = self.home / name
        (folder / "flwr").mkdir(parents=True, exist_ok=True)
        key = key or make_key(folder / "key")
        if register:
            self.flwr(
                "supernode", "register", f"{key}.pub", "deployment", "--name", name
            )
        values = {"site": name, **configuration}
        self.start(
            name,
            folder,
            "flower-supernode",
            *(
                "--superlink",
                f"{HOST}:{self.door}",
                "--root-certificates",
                f"{self.server}/ca.crt",
            ),
            *("--auth-supernode-private-key", str(key)),
            *("--host", HOST, "--port", str(free_port())),
            *(
                "--node-config",
                " ".join(f"{field}={_toml(value)}" for field, value in values.items()),
            ),
        )

    def run(self, app=HERE, timeout=600, show=None, **configuration):
        """Run an app on the federation and return the server's log; raise unless the
        app ran to its end.
        """
        settings = " ".join(
            f"{field}={_toml(value)}" for field, value in configuration.items()
        )
        options = ["--run-config", settings] if settings else []
        log = self.server / "run.log"
        log.unlink(missing_ok=True)
        run = self.start(
            "run",
            self.server,
            "flwr",
            "run",
            str(app),
            "deployment",
            "--stream",
            *options,
        )
        with log.open() as printed:
            end = time.monotonic() + timeout
            while True:
                done = run.poll() is not None
                for line in printed:
                    if show is not None:
                        show(line)
                if done or time.monotonic() > end:
                    break
                time.sleep(0.2)
        self.end("run")
        text = log.read_text()
        status = self.status(text)
        if (
            status != "finished:completed"
        ):  # flwr run itself ends with 0, whatever became of the app
            raise RuntimeError(
                f"the run did not end well: {status}; see {log} and"
                f" {self.server}/superlink.log"
            )
        return text

    def status(self, printed):
        """Return the status of the run that `flwr run` printed this about."""
        started = re.search(r"started run (\d+)", printed)
        if started is None:
            return f"it did not start:\n{printed[-2000:]}"
        listed = self.flwr(
            "list", "deployment", "--run-id", started[1], "--format", "json"
        )
        return json.loads(listed)["runs"][0]["status"]


def with_descendants(numbers):
    """The numbers of these processes and of all that they started, and those
    started.
    """
    listed = subprocess.run(
        ["ps", "-Ao", "pid=,ppid="], capture_output=True, text=True, check=True
    ).stdout
    parents = [tuple(map(int, line.split())) for line in listed.splitlines()]
    family = list(numbers)
    for number in family:
        family += [child for child, parent in parents if parent == number]
    return family


def send(how, numbers):
    """Send a signal to each of these processes that is still there."""
    for number in numbers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, how)


def environment(folder):
    """The variables that a process gets: Flower's files in the folder, and nothing
    asked of hosts outside.
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, **QUIET, "FLWR_HOME": f"{folder}/flwr", "PATH": path}


def free_port():
    """A port of this machine that nobody uses."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


def wait_for(port, process, log, seconds=300):
    """Wait until somebody listens."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        with (
            contextlib.suppress(OSError),
            socket.create_connection((HOST, port), timeout=1),
        ):
            return
        time.sleep(0.2)
    raise RuntimeError(f"nothing listens on port {port}:\n{log.read_text()}")


def make_certificates(home):
    """A certificate authority for this federation, and a certificate of the server."""
    now = datetime.datetime.now(datetime.UTC)

    def certificate(name, key, issuer, issuer_key, *extensions):
        builder = (
            x509.CertificateBuilder()
            .subject_name(_named(name))
            .issuer_name(_named(issuer))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(days=30))
        )
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        return builder.sign(issuer_key, hashes.SHA256())

    authority_key, server_key = (
        ec.generate_private_key(ec.SECP384R1()),
        ec.generate_private_key(ec.SECP384R1()),
    )
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(HOST))]
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    authority = certificate(
        "federation",
        authority_key,
        "federation",
        authority_key,
        (x509.BasicConstraints(ca=True, path_length=0), True),
        (usage, True),
        (x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), False),
    )
    server = certificate(
        "localhost",
        server_key,
        "federation",
        authority_key,
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (x509.SubjectAlternativeName(names), False),
        (
            x509.AuthorityKeyIdentifier.from_issuer_public_key(
                authority_key.public_key()
            ),
            False,
        ),
    )
    (home / "ca.crt").write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    (home / "server.crt").write_bytes(server.public_bytes(serialization.Encoding.PEM))
    _write_secret(home / "server.key", server_key, serialization.PrivateFormat.PKCS8)


def make_key(path):
    """A site's key pair, as ``ssh-keygen -t ecdsa -b 384 -N '' -f path`` makes it."""
    key = ec.generate_private_key(ec.SECP384R1())
    _write_secret(path, key, serialization.PrivateFormat.OpenSSH)
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    path.with_name(path.name + ".pub").write_bytes(public)
    return path


def _stop(number, _):
    print("ending every process that was started", flush=True)
    sys.exit(128 + number)


def _named(name):
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _write_secret(path, key, form):
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, form, serialization.NoEncryption()
        )
    )


def _toml(value):
    return json.dumps(str(value)) if isinstance(value, str | Path) else str(value)


def site_data(app, folder, number, n_sites):
    """A site's own file, as a real site has one: its share of the digits."""
    import numpy as np

    if str(app) not in sys.path:
        sys.path.insert(0, str(app))
    from digits import task

    X, y = task.share(number, n_sites)
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "digits.npz", X=X, y=y)
    return folder / "digits.npz"


def main():
    """Four sites: train, calibrate, look, and end everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sites", type=int, default=4)
    parser.add_argument(
        "--app",
        type=Path,
        default=HERE,
        help="the app to run (default: the one beside this)",
    )
    parser.add_argument(
        "--home",
        type=Path,
        help="a new folder for certificates and logs, kept (default: a temporary one)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        help="a file for the calibration (default: as the app has it)",
    )
    parser.add_argument(
        "--without-proxy",
        action="store_true",
        help="let the sites reach the SuperLink itself",
    )
    chosen = parser.parse_args()
    proxy = (
        None
        if chosen.without_proxy
        else shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    )
    if proxy is None and not chosen.without_proxy:
        sys.exit("nginx is needed (apt install nginx-light), or say --without-proxy")
    with contextlib.ExitStack() as stack:
        home = chosen.home or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        deployment = stack.enter_context(Deployment(home.resolve()))
        print("starting the server", flush=True)
        deployment.start_server(proxy=proxy)
        for number in range(chosen.sites):
            print(f"starting site-{number}", flush=True)
            data = site_data(
                HERE, deployment.home / f"site-{number}", number, chosen.sites
            )
            deployment.add_site(f"site-{number}", data=data)
        print("running the app", flush=True)
        settings = {"n-sites": chosen.sites}
        if chosen.output is not None:
            settings["output"] = chosen.output.resolve()
        try:
            deployment.run(
                chosen.app,
                show=functools.partial(print, end="", flush=True),
                **settings,
            )
        except RuntimeError as error:
            sys.exit(str(error))


if __name__ == "__main__":
    main()
