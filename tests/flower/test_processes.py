"""Flower as users run it: real processes, in simulation and in a deployment with TLS
and authentication.
"""

import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

import numpy as np
import pytest
from benchmarks._flower_processes import (
    end_processes,
    load_deploy,
    run_to_the_end,
    simulate,
)

import fedconformal as fc

pytest.importorskip("flwr", reason="the extra [flower] is not installed")

from flwr.app import Array, ArrayRecord

from fedconformal.protocol import model_digest
from fedconformal.rounds import Folder

ROOT = Path(__file__).parents[2]
APP = Path(__file__).parent / "app"
GUIDE = ROOT / "docs" / "flower.md"
SECRET = "patient 4711 has a rare disease"


deploy = load_deploy()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder for Flower's files; whatever still runs with it in the end is killed."""
    folder = tmp_path_factory.mktemp("flower")
    (folder / "flwr").mkdir()
    yield folder
    end_processes(folder)


@pytest.fixture
def home(place, tmp_path):
    """A new folder of one test; all simulations have their SuperLink in common, which
    `flwr run` leaves.
    """
    yield tmp_path
    end_processes(tmp_path)


def documented(marker):
    """The command of the guide that contains these words."""
    blocks = re.findall(
        r"^```bash\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL
    )
    commands = [
        line for block in blocks for line in block.splitlines() if marker in line
    ]
    assert len(commands) == 1, commands
    return commands[0]


def run_documented(marker, home, *options, cwd=ROOT):
    """Run a command of the guide in a folder in which the example's path is the
    same.
    """
    # The timeout is a guard against hanging.
    command = ["bash", "-c", " ".join([documented(marker), *options])]
    return run_to_the_end(command, home, timeout=900, cwd=cwd)


def proxy():
    """Debian's nginx, installed if that can be done."""
    where = f"{os.environ['PATH']}:/usr/sbin"
    if (
        shutil.which("nginx", path=where) is None
        and os.geteuid() == 0
        and shutil.which("apt-get")
    ):
        subprocess.run(
            ["apt-get", "install", "-y", "-q", "nginx-light"],
            capture_output=True,
            check=False,
        )
    found = shutil.which("nginx", path=where)
    if found is None:
        pytest.skip("nginx is not installed, and cannot be")
    return found


def scores(seed):
    return np.random.default_rng(seed).random(200)


def as_in_files(plan, seeds, **options):
    return fc.calibrate(
        plan, [fc.report(plan, scores(seeds[s]), site=s) for s in seeds], **options
    )


@pytest.mark.nightly
def test_the_guide_in_simulation(place, home):
    """Twice, as users run it: what is not given goes to the folder of the app."""
    (home / "examples").symlink_to(ROOT / "examples")
    shown = (
        GUIDE.read_text()
        .split("(the test runs it and compares):\n")[1]
        .split("\n**5. ")[0]
    )
    lines = [
        line.strip() for line in shown.splitlines() if line.strip() not in {"", "..."}
    ]
    assert len(lines) == 7
    for _ in range(2):
        printed = run_documented("--federation-config", place, cwd=home)
        assert [line for line in lines if line not in printed.splitlines()] == [], (
            printed
        )
        covered = re.findall(
            r"^site-\d: [01]\.\d+ of 36 new images covered", printed, re.MULTILINE
        )
        assert len(set(covered)) == 10
    (app,) = (place / "flwr" / "apps").glob("fedconformal.digits.*")
    assert f"calibration saved as {app}/calibration.json" in printed
    published = fc.Calibration.read(app / "calibration.json")
    folders = list((app / "reports").iterdir())
    assert len(folders) == 2
    (last,) = (
        folder for folder in folders if f"reports are kept in {folder}" in printed
    )
    reports = [fc.Report.read(path) for path in last.glob("report-*.json")]
    assert all(finding.holds for finding in fc.audit.verify(published, reports))
    model = {name: Array(values) for name, values in Folder.read_model(last).items()}
    assert published.plan.terms.model == model_digest(ArrayRecord(model))


def run_simulation(place, home, plan, **configuration):
    """One round with ten sites, of which the last two have one name."""
    (home / "plan.json").write_text(plan.to_json())
    files = {"plan": f"{home}/plan.json", "output": f"{home}/calibration.json"}
    printed = simulate(APP, place, 10, timeout=900, **files, **configuration)
    assert (home / "calibration.json").exists(), printed
    return fc.Calibration.read(home / "calibration.json"), printed


@pytest.mark.nightly
def test_the_example_of_a_risk_in_simulation(place, home):
    (home / "examples").symlink_to(ROOT / "examples")
    text = (ROOT / "examples" / "flower-risk" / "README.md").read_text()
    command = next(line for line in text.splitlines() if line.startswith("flwr run"))
    printed = run_to_the_end(["bash", "-c", command], place, timeout=900, cwd=home)
    assert "from 4 of 4 sites" in printed
    missed = re.findall(
        r"^site \d: [01]\.\d+ of the findings missed", printed, re.MULTILINE
    )
    assert len(set(missed)) == 4


@pytest.mark.nightly
def test_simulation_is_the_same_as_files_and_refuses_a_site_that_is_there_twice(
    place, home
):
    plan = fc.plan(n_sites=10, confidence_level=[0.8, 0.9])
    (home / "open.json").write_text(fc.plan(confidence_level=0.8).to_json())
    calibration, printed = run_simulation(
        place, home, plan, more=True, reports=f"{home}/reports"
    )
    reports = [fc.report(plan, scores(i), site=f"site-{min(i, 8)}") for i in range(10)]
    expected = fc.calibrate(plan, reports, on_refused="skip")
    assert calibration.to_json() == expected.to_json()
    assert calibration.n_answers == 8
    assert calibration.n_missing == 2
    assert [(r.source, r.reason) for r in calibration.refused] == [
        ("site-8", "2 different reports from this site: none of them counts")
    ]
    # Ten are asked for reports; nobody for those that are there; three chosen ones; ten
    # for checks.
    assert "questions: [10, 3, 10]" in printed, printed
    assert f"checked: {[f'site-{i}' for i in range(8)]} {{30}}" in printed


@pytest.mark.nightly
def test_a_private_round_and_private_checks_in_simulation_keep_their_ledgers(
    place, home
):
    (home / "ledgers").mkdir()
    privacy = fc.Privacy(epsilon=1.0, bins=fc.Bins.uniform(0, 1, 50))
    plan = fc.plan(n_sites=10, n_points=200, confidence_level=0.8, privacy=privacy)
    for _ in range(
        2
    ):  # the second run finds the answers of the first, and pays nothing
        calibration, printed = run_simulation(
            place, home, plan, ledgers=f"{home}/ledgers"
        )
        assert calibration.n_answers == 10
        assert "private checks: 10 {1.0}" in printed
        for i in range(10):
            ledger = fc.Ledger(home / "ledgers" / f"site-{i}")
            assert [ledger.spent(name) for name in ("cases", "new cases")] == [1, 1]


@pytest.mark.slow
def test_a_deployed_site_gives_the_same_calibration_as_files(home):
    """The one test of Flower's processes that is not nightly: TLS, an authenticated
    site, one message.
    """
    plan = fc.plan(n_points={"north": 200}, confidence_level=0.8)
    (home / "plan.json").write_text(plan.to_json())
    with deploy.Deployment(home / "federation") as federation:
        federation.start_server()
        federation.add_site("north", seed=1)
        files = {"plan": home / "plan.json", "output": home / "calibration.json"}
        federation.run(APP, timeout=900, **files)
    assert fc.Calibration.read(home / "calibration.json") == as_in_files(
        plan, {"north": 1}
    )


@pytest.mark.nightly
def test_a_masked_round_in_deployment_is_the_same_as_through_files(home):
    """Three sites with TLS; masks follow from keys and plan, so that even the reports
    are the same.
    """
    seeds = {"north": 1, "south": 2, "west": 3}
    keys = {site: fc.SigningKey.new() for site in seeds}
    public = {site: key.public_key for site, key in keys.items()}
    bins = fc.Bins.uniform(0, 1, 50)
    model = "sha256:" + 64 * "5"
    plan = fc.plan(
        n_points=dict.fromkeys(seeds, 200),
        keys=public,
        curve=bins,
        masked=True,
        terms={"model": model},
    )
    (home / "plan.json").write_text(plan.to_json())
    with deploy.Deployment(home / "federation") as federation:
        federation.start_server()
        for site, seed in seeds.items():
            (home / f"{site}.pem").touch(mode=0o600)
            (home / f"{site}.pem").write_bytes(keys[site].to_pem())
            record = (home / f"{site}.sums").as_posix()
            policy = (
                f"sum_with = {[*public.values()]}\nmin_sum_with = 2\nsum_record ="
                f' "{record}"\nmodel = "{model}"\n'
            )
            (home / f"{site}.toml").write_text(policy)
            own = {
                "signing-key": str(home / f"{site}.pem"),
                "policy": str(home / f"{site}.toml"),
            }
            federation.add_site(site, seed=seed, **own)
        files = {"plan": home / "plan.json", "output": home / "calibration.json"}
        federation.run(APP, timeout=900, **files)
    reports = []
    for site, seed in seeds.items():
        policy = fc.SitePolicy(
            sum_with=public.values(),
            min_sum_with=2,
            sum_record=home / f"{site}-files.sums",
            model=model,
        )
        own = {"key": keys[site], "policy": policy}
        reports.append(fc.report(plan, scores(seed), site=site, **own))
    assert fc.Calibration.read(home / "calibration.json") == fc.calibrate(plan, reports)


@pytest.mark.nightly
def test_the_guide_in_deployment(home):
    """Two sites instead of four, for Flower starts a process for every message."""
    proxy()
    output = home / "calibration.json"
    options = (
        "--sites",
        "2",
        "--home",
        str(home / "federation"),
        "--output",
        str(output),
    )
    printed = run_documented("deploy.py", home, *options)
    assert "from 2 of 2 sites" in printed
    assert (
        len(
            re.findall(
                r"^site-\d: [01]\.\d+ of 180 new images covered", printed, re.MULTILINE
            )
        )
        == 2
    )
    assert "prediction sets at 2 sites hold" in printed
    assert fc.Calibration.read(output).n_answers == 2
    assert list(home.rglob("deploy.py")) == []  # no part of the app


@pytest.mark.nightly
def test_deployment_with_sites_that_fail_hang_die_and_lie(home):
    names = ("north", "south", "raises", "hangs", "dies")
    plan = fc.plan(n_points=dict.fromkeys(names, 200), confidence_level=0.8)
    (home / "plan.json").write_text(plan.to_json())
    (home / "secret.txt").write_text(SECRET)
    with deploy.Deployment(home / "federation") as federation:
        federation.start_server(proxy=proxy())
        the_proxy_lets_only_sites_in(federation)
        federation.add_site("north", seed=1)
        federation.add_site("south", seed=2)
        federation.add_site(
            "raises", behaviour="raises", secret=str(home / "secret.txt")
        )
        federation.add_site("hangs", behaviour="hangs", mark=str(home / "hangs"))
        federation.add_site("dies", behaviour="hangs", mark=str(home / "dies"))
        federation.add_site("mallory", seed=3, **{"poses-as": "north"})
        federation.add_site("stranger", register=False, seed=4)
        federation.add_site(
            "twin", register=False, key=federation.home / "south" / "key", seed=5
        )
        wait_until(
            lambda: online(federation) == 6,
            "six registered sites are online",
            federation,
            every=3,
        )
        killed = start_run(federation, home, "killed", timeout=600)
        reports, arrived = home / "reports", (home / "dies", home / "hangs")
        kept = ["report-*.json"] * 2 + ["refused.jsonl"]
        wait_until(
            lambda: (
                all(
                    len(list(reports.glob(f"*/{name}"))) == kept.count(name)
                    for name in kept
                )
                and all(file.exists() for file in arrived)
            ),
            "two reports and a refusal are kept",
            federation,
        )
        kill_server_app(federation)
        federation.end("dies", how=signal.SIGKILL)
        (interrupted,) = reports.iterdir()
        log = start_run(federation, home, "run", timeout=120, reports=interrupted)
        run = federation.processes["run"]
        wait_until(lambda: run.poll() is not None, "the run has ended", federation)
        server_log = Path(log.name).read_text()
        assert federation.status(server_log) == "finished:completed"
        # Its `flwr run` may say what it likes: a server app that was killed did not
        # complete.
        assert federation.status(Path(killed.name).read_text()) != "finished:completed"
        for name in ("north", "south"):  # they were asked once
            assert (
                site_log(federation, name).count("everything that leaves the site") == 1
            )

        calibration = fc.Calibration.read(home / "calibration.json")
        expected = as_in_files(
            plan,
            {"north": 1, "south": 2},
            on_refused="skip",
            unreadable=calibration.refused,
        )
        assert calibration.to_json() == expected.to_json()
        assert calibration.missing == ("dies", "hangs", "raises")
        assert [(r.source, r.reason) for r in calibration.refused] == [
            ("mallory", "registered as 'mallory', but reports as 'north'")
        ]
        assert (
            "raises sent no report: the site could not compute its scores" in server_log
        )
        assert "hangs did not answer within 120 s" in server_log
        assert "reports kept from before: 2; sites to ask:" in server_log
        # Flower notices a dead SuperNode after some fifty seconds; until then it is
        # only silent.
        assert re.search(
            "dies (sent no report: it is not connected|did not answer within)",
            server_log,
        )
        assert "stranger" not in server_log
        # A second SuperNode with a key that is in use is turned away by the SuperLink.
        assert federation.processes["twin"].poll() is not None or "rror" in site_log(
            federation, "twin"
        )
        assert "everything that leaves the site" not in site_log(federation, "twin")

        assert SECRET in site_log(federation, "raises")
        for file in [
            *federation.server.rglob("*"),
            Path(log.name),
            *home.glob("calibration.*"),
        ]:
            if file.is_file():
                assert SECRET.encode() not in file.read_bytes(), file


def site_log(federation, name):
    return (federation.home / name / f"{name}.log").read_text()


def the_proxy_lets_only_sites_in(federation):
    """The Control API answers to whoever reaches the SuperLink, and to nobody through
    the proxy.
    """
    federation.connect("outside", federation.door)
    assert "Error" not in federation.flwr("supernode", "list", "deployment")
    key = federation.home / "intruder"
    deploy.make_key(key)
    refused = federation.flwr(
        "supernode", "register", f"{key}.pub", "outside", check=False
    )
    assert "403" in refused or "Forbidden" in refused, refused
    trust = ssl.create_default_context(cafile=federation.server / "ca.crt")
    for path in (
        "/v1/control/list-nodes",
        "/v1/runtime/get-nodes",
        "/v1/fleet/../control/list-nodes",
        "/v1/fleet/%2e%2e/control/list-nodes",
        "/v1/fleet/..%2fcontrol/list-nodes",
        "//v1/control/list-nodes",
        "/openapi.json",
    ):
        with pytest.raises(urllib.error.HTTPError) as outcome:
            urllib.request.urlopen(
                f"https://localhost:{federation.door}{path}", data=b"", context=trust
            )
        assert outcome.value.code in {400, 403}, path
    for port in (
        federation.port,
        federation.door,
    ):  # a large message gets through, to be refused inside
        body, address = (
            b"x" * 2_000_000,
            f"https://localhost:{port}/v1/fleet/push-object",
        )
        with pytest.raises(urllib.error.HTTPError) as outcome:
            urllib.request.urlopen(address, data=body, context=trust)
        assert outcome.value.code not in {413, 500, 502}, outcome.value


def online(federation):
    listed = json.loads(
        federation.flwr("supernode", "list", "deployment", "--format", "json")
    )
    return sum(node["status"] == "online" for node in listed["nodes"])


def start_run(federation, home, name, *, timeout, reports=None):
    values = {
        "plan": str(home / "plan.json"),
        "output": str(home / "calibration.json"),
        "reports": str(reports or home / "reports"),
        "timeout": timeout,
    }
    settings = " ".join(
        f"{field}={json.dumps(value)}" for field, value in values.items()
    )
    command = [
        "flwr",
        "run",
        str(APP),
        "deployment",
        "--stream",
        "--run-config",
        settings,
    ]
    log = (home / f"{name}.log").open("w")
    federation.processes[name] = subprocess.Popen(
        command,
        stdout=log,
        stderr=log,
        env=deploy.environment(federation.server),
        start_new_session=True,
    )
    return log


def kill_server_app(federation):
    """Kill what runs the app's server part, by its number."""
    family = deploy.with_descendants([federation.processes["superlink"].pid])
    commands = {
        number: Path(f"/proc/{number}/cmdline").read_bytes() for number in family
    }
    apps = [
        number for number, command in commands.items() if b"flwr-serverapp" in command
    ]
    assert len(apps) == 1, commands
    deploy.send(signal.SIGKILL, apps)


def wait_until(condition, what, federation, *, seconds=600, every=0.5):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            logs = sorted(federation.home.rglob("*.log"))
            pytest.fail(
                f"not in time: {what}\n"
                + "\n".join(f"{log}:\n{log.read_text()[-2000:]}" for log in logs)
            )
        time.sleep(every)


STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", sys.argv[1]], start_new_session=True)
time.sleep(600)
"""
WAITING = """
import importlib.util, pathlib, sys, time
spec = importlib.util.spec_from_file_location("deploy", sys.argv[1])
deploy = importlib.util.module_from_spec(spec)
spec.loader.exec_module(deploy)
with deploy.Deployment(sys.argv[2]) as deployment:
    command = [sys.executable, "-c", sys.argv[3], sys.argv[4]]
    deployment.start("one", deployment.server, *command)
    while len(deploy.with_descendants([deployment.processes["one"].pid])) < 2:
        time.sleep(0.1)
    print(*deploy.with_descendants([deployment.processes["one"].pid]), flush=True)
    time.sleep(600)
"""


@pytest.mark.nightly
def test_ctrl_c_ends_everything_whatever_it_is_deaf_to(tmp_path):
    """Also what a process started in a session of its own, as a SuperLink does with
    server apps.
    """
    child = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        " time.sleep(600)"
    )
    arguments = [deploy.__file__, str(tmp_path / "federation"), STUBBORN, child]
    with subprocess.Popen(
        [sys.executable, "-c", WAITING, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as waiting:
        numbers = [int(number) for number in waiting.stdout.readline().split()]
        assert len(numbers) == 2
        waiting.send_signal(signal.SIGINT)
        assert waiting.stdout.readline() == "ending every process that was started\n"
        assert waiting.wait(300) == 128 + signal.SIGINT
    listed = subprocess.run(
        ["ps", "-Ao", "pid=,stat="], capture_output=True, text=True, check=True
    ).stdout
    running = {int(line.split()[0]) for line in listed.splitlines() if " Z" not in line}
    assert not running & set(numbers)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("example", "package"),
    [
        ("flower", "digits"),
        ("flower-torch", "digits_torch"),
        ("flower-risk", "findings"),
    ],
)
def test_the_examples_are_built_in_format_1_and_hold_the_app_alone(
    example, package, home
):
    command = ["flwr", "build", "--app", str(ROOT / "examples" / example)]
    subprocess.run(
        command, cwd=home, env=deploy.environment(home), capture_output=True, check=True
    )
    (built,) = home.glob("*.fab")
    with zipfile.ZipFile(built) as fab:
        names = {name for name in fab.namelist() if not name.startswith(".info/")}
        configuration = tomllib.loads(fab.read("pyproject.toml").decode())
        readme = fab.read("README.md").decode()
    modules = {
        f"{package}/{name}.py"
        for name in ("__init__", "client_app", "server_app", "task")
    }
    assert names == {"LICENSE", "README.md", "pyproject.toml", *modules}
    assert configuration["tool"]["flwr"]["app"]["fab-format-version"] == 1
    front = re.match(
        r"---\n(.*?)\n---\n\n# ", readme, re.DOTALL
    )  # as Flower's own examples have it
    assert [line.partition(": [")[0] for line in front[1].splitlines()] == [
        "tags",
        "dataset",
        "framework",
    ]
