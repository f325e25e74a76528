"""FLARE as users run it: the simulator, and a provisioned federation with mutual
TLS.
"""

import contextlib
import functools
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

import fedconformal as fc

pytest.importorskip("nvflare", reason="the extra [nvflare] is not installed")

from flare_deployment import ADMIN, MARK, Federation, end_processes
from nvflare.recipe import ProdEnv
from nvflare.recipe.run import Run
from site_functions import LOUD, SECRET, scores_of

from fedconformal.nvflare import ConformalRecipe, Failure, read_calibration
from fedconformal.rounds import Folder

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "nvflare.md"
EXAMPLE = ROOT / "examples" / "nvflare"


@pytest.fixture
def home(tmp_path):
    """A folder for FLARE's files; whatever still runs for it in the end is killed."""
    yield tmp_path
    end_processes(tmp_path)


def simulated(test):
    """Repeat a test whose simulator lost a site: FLARE chooses ports that another
    process may take first.
    """

    @functools.wraps(test)
    def run(home):
        for attempt in range(3):
            folder = home / str(attempt)
            folder.mkdir()
            try:
                return test(folder)
            except AssertionError:
                printed = (folder / "printed").read_text()
                if attempt == 2 or "Communication error with client" not in printed:
                    raise
            finally:
                end_processes(folder)

    return run


def run_python(home, *arguments):
    """Start Python with processes that can be found again, and everything that they
    print in one file.
    """
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path[1:]])
    with (home / "printed").open("a") as out:
        return subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            cwd=ROOT,
            env={
                **os.environ,
                MARK: str(home),
                "PYTHONPATH": paths,
                "NVFLARE_POC_WORKSPACE": str(home / "poc"),
                "HOME": str(home),
            },
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )


def wait_for(process, home):
    """Return the lines that a process printed, which must have ended well."""
    code = process.wait(timeout=900)  # a guard against hanging
    printed = (home / "printed").read_text()
    assert code == 0, printed
    return printed.splitlines()


def run_example(home, *options, sites, rounds):
    """Run the guide's command, compare the calibration with files, and return what was
    printed.
    """
    (command,) = re.findall(
        r"^python examples/nvflare/job\.py$", GUIDE.read_text(), re.MULTILINE
    )
    options = [
        "--keep",
        home / "results",
        "--sites",
        sites,
        "--rounds",
        rounds,
        *options,
    ]
    printed = wait_for(run_python(home, *command.split()[1:], *options), home)
    (kept,) = (home / "results").iterdir()
    plan = fc.Plan.read(kept / "reports" / "plan.json")
    scores = scores_under(Folder.read_model(kept / "reports"), sites=sites)
    expected = fc.calibrate(
        plan,
        [fc.report(plan, scores[site], site=site, score=plan.score) for site in scores],
    )
    assert (
        fc.Calibration.read(kept / "calibration.json").to_json() == expected.to_json()
    )
    assert expected.n_answers == sites
    return printed


@pytest.mark.slow
@simulated
def test_a_job_in_the_simulator_gives_the_same_calibration_as_files(home):
    """The one test of FLARE's processes that is not nightly."""
    run_example(home, "--workspace", home / "simulation", sites=2, rounds=1)
    (summary,) = (home / "simulation").rglob("metrics_summary.json")
    assert {"name": "conformal_sites", "value": 2} in json.loads(summary.read_text())[
        "final_aggregated_metrics"
    ]


@pytest.mark.nightly
@simulated
def test_the_guide_in_the_simulator(home):
    """Four sites, three rounds, and the lines that the guide shows."""
    printed = run_example(home, "--workspace", home / "simulation", sites=4, rounds=3)
    shown = (
        GUIDE.read_text()
        .split("(the test runs it and compares):\n\n")[1]
        .split("\n\n")[0]
    )
    lines = [line.strip() for line in shown.splitlines()]
    assert len(lines) == 7
    assert [line for line in lines if line not in printed] == []


@pytest.mark.nightly
@simulated
def test_a_training_script_in_a_process_of_its_own_answers_too(home):
    run_example(
        home, "--external", "--workspace", home / "simulation", sites=2, rounds=1
    )


@pytest.mark.nightly
def test_the_guide_in_poc_mode_keeps_the_calibration_when_flare_deletes_its_workspace(
    home,
):
    """With FLARE's default clean-up; a process for the server and for every site."""
    run_example(home, "--poc", sites=2, rounds=1)
    assert not (home / "poc").exists()


def scores_under(model, sites):
    """What the example's sites compute under the model that came with the plan."""
    spec = importlib.util.spec_from_file_location("digits_task", EXAMPLE / "task.py")
    task = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(task)
    found = {}
    for site in (f"site-{i + 1}" for i in range(sites)):
        _, (X, y), _ = task.load(site, sites)
        found[site] = fc.scores.LAC().score(y, task.probabilities(model, X))
    return found


@pytest.mark.nightly
@simulated
def test_a_round_is_resumed_with_its_model_after_the_server_died(
    home,
):
    first = run_python(home, Path(__file__).parent / "resumed_job.py", home)
    wait_until(
        lambda: (
            list(home.glob("kept/report-site-1-*")) and (home / "asked-site-2").exists()
        ),
        home,
    )
    end_processes(home)
    first.wait()
    (home / "go-on").touch()
    printed = wait_for(
        run_python(home, Path(__file__).parent / "resumed_job.py", home), home
    )
    assert "2 sites answered" in printed
    assert any("the round is resumed with the model in" in line for line in printed)
    (once,) = (home / "asked-site-1").read_text().split()
    assert (home / "asked-site-2").read_text().split() == [once, once]


PRIVATE = """
import sys
import fedconformal as fc
from nvflare.recipe import SimEnv
from site_functions import Simulated

home, level = sys.argv[1], float(sys.argv[2])
privacy = fc.Privacy(epsilon=8.0, bins=fc.Bins.uniform(0, 1, 20))
sizes = {"site-1": 200, "site-2": 200}
plan = fc.plan(n_points=sizes, confidence_level=level, privacy=privacy)
recipe = fc.nvflare.ConformalRecipe(plan, Simulated(), name="private", timeout=60)
workspace = f"{home}/simulation"
options = {"workspace_root": workspace, "log_config": "concise"}
run = recipe.execute(SimEnv(num_clients=2, **options))
print(fc.nvflare.read_calibration(run).n_answers, "sites answered")
"""


@pytest.mark.nightly
@simulated
def test_private_rounds_in_the_simulator_are_charged_to_ledgers_that_outlive_it(home):
    books = {site: fc.Ledger.create(home / site) for site in ("site-1", "site-2")}
    local = home / "simulation" / "private" / "local"
    local.mkdir(parents=True)
    (local / "fedconformal.toml").write_text(
        f'ledger = "{home}/{{site}}"\ndataset = "mine"\n'
    )
    for book in books.values():
        book.set_budget("mine", 8.0)
    assert "2 sites answered" in wait_for(
        run_python(home, "-c", PRIVATE, home, 0.8), home
    )
    assert [book.spent("mine") for book in books.values()] == [8, 8]
    again = run_python(
        home, "-c", PRIVATE, home, 0.7
    )  # another plan: the budget is used up
    assert again.wait(timeout=900) != 0
    printed = (home / "printed").read_text()
    for site in books:
        assert f"{site} sent no report: {Failure.BUDGET.meaning}" in printed
    assert [book.spent("mine") for book in books.values()] == [8, 8]


MASKED = """
import sys
import fedconformal as fc
from nvflare.recipe import SimEnv
from site_functions import Simulated

home = sys.argv[1]
plan = fc.Plan.read(f"{home}/plan.json")
recipe = fc.nvflare.ConformalRecipe(plan, Simulated(), name="masked", timeout=60)
workspace = f"{home}/simulation"
options = {"workspace_root": workspace, "log_config": "concise"}
run = recipe.execute(SimEnv(num_clients=3, **options))
open(f"{home}/calibration.json", "w").write(fc.nvflare.read_calibration(run).to_json())
"""


@pytest.mark.nightly
@simulated
def test_a_masked_round_in_the_simulator_is_the_same_as_through_files(home):
    """Masks follow from keys and plan, so that the reports are the same too."""
    sites = ("site-1", "site-2", "site-3")
    keys = {site: fc.SigningKey.new() for site in sites}
    public = {site: key.public_key for site, key in keys.items()}
    bins = fc.Bins.uniform(0, 1, 50)
    model = "sha256:" + 64 * "5"
    plan = fc.plan(
        n_points=dict.fromkeys(sites, 200),
        keys=public,
        curve=bins,
        masked=True,
        terms={"model": model},
    )
    (home / "plan.json").write_text(plan.to_json())
    for site, key in keys.items():
        (home / f"{site}.pem").touch(mode=0o600)
        (home / f"{site}.pem").write_bytes(key.to_pem())
        (home / f"{site}.toml").write_text(
            f"sum_with = {[*public.values()]}\nmin_sum_with = 2\nsum_record ="
            f' "{site}.sums"\nmodel = "{model}"\n'
        )
    local = home / "simulation" / "masked" / "local"
    local.mkdir(parents=True)
    (local / "fedconformal.toml").write_text(
        f'signing_key = "{home}/{{site}}.pem"\npolicy = "{home}/{{site}}.toml"\n'
    )
    wait_for(run_python(home, "-c", MASKED, home), home)
    reports = []
    for site in sites:
        policy = fc.SitePolicy(
            sum_with=public.values(),
            min_sum_with=2,
            sum_record=home / f"{site}-files.sums",
            model=model,
        )
        own = {"key": keys[site], "policy": policy}
        reports.append(fc.report(plan, scores_of(site), site=site, **own))
    assert fc.Calibration.read(home / "calibration.json") == fc.calibrate(plan, reports)


def wait_until(condition, home, seconds=600):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, (home / "printed").read_text()
        time.sleep(0.2)


@pytest.mark.nightly
def test_a_provisioned_federation_with_sites_that_fail_hang_die_and_lie(home):
    """A job without any code, at sites that let none in; the functions are the sites'
    own.

    The time is long, for six sites and a server start their processes before anybody
    answers, beside other tests.
    """
    sites = {
        "north": "answers",
        "south": "answers",
        "raises": "raises",
        "hangs": "hangs",
        "dies": "hangs",
        "mallory": "poses_as_north",
    }
    names = [site for site in sites if site != "mallory"]
    plan = fc.plan(n_points=dict.fromkeys(names, 200), confidence_level=0.8)
    ConformalRecipe(plan, timeout=180).export(str(home / "jobs"))
    with Federation(home, list(sites)) as federation:
        federation.start_server()
        for site, function in sites.items():
            custom = federation.folder(site) / "local" / "custom"
            custom.mkdir()
            shutil.copy(Path(__file__).parent / "site_functions.py", custom)
            federation.start_site(site, scores=f"site_functions:{function}")
        results = federation.submit(home / "jobs" / "conformal")
        began = federation.folder("dies") / "began"
        federation.wait_until(began.exists, "a site is computing its scores")
        federation.kill("dies", int(began.read_text()))
        federation.wait_until(
            (results / "calibration.json").exists, "the calibration is there"
        )

        # FLARE waits for word of the site that died, 15 minutes long, and gives no
        # result away.
        kit = str(federation.folder(ADMIN))
        run = Run(ProdEnv(kit, login_timeout=60.0, username=ADMIN), results.name)
        calibration = read_calibration(run, keep=home / "kept")
        assert run.get_status() == "RUNNING"
        (kept,) = (home / "kept").iterdir()
        assert fc.Calibration.read(kept / "calibration.json") == calibration
        reports = [
            fc.report(plan, scores_of(site), site=site) for site in ("north", "south")
        ]
        refusal = calibration.refused[0]
        expected = fc.calibrate(plan, reports, on_refused="skip", unreadable=[refusal])
        assert calibration.to_json() == expected.to_json()
        assert calibration.missing == ("dies", "hangs", "raises")
        assert (refusal.source, refusal.reason) == (
            "mallory",
            "registered as 'mallory', but reports as 'north'",
        )
        log = (home / "localhost.out").read_text()
        assert "raises sent no report: the site could not compute its scores" in log
        for site in ("hangs", "dies"):
            assert f"{site} did not answer within 180 s" in log
        # FLARE streams its own log to the server, and a function's words with it: but
        # no word of ours.
        resources = json.loads(
            (federation.folder("raises") / "local" / "resources.json").read_text()
        )
        assert resources["allow_log_streaming"] is True
        federation.wait_until(
            lambda: holding(federation.server, LOUD), "the stream has arrived"
        )
        assert holding(federation.server, SECRET) == []
        assert SECRET in (federation.folder("raises") / "fedconformal-log").read_text()
        assert SECRET not in log


def holding(folder, text):
    """The files in which a text is found; FLARE packs and removes the folder of a job
    that is over.
    """
    return [
        file
        for file in folder.rglob("*")
        if any(text.encode() in part for part in contents(file))
    ]


def contents(file):
    with contextlib.suppress(OSError):
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as packed:
                yield from map(packed.read, packed.namelist())
        elif file.is_file():
            yield file.read_bytes()
