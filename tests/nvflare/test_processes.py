"""FLARE as users run it: the simulator, and a provisioned federation with mutual TLS."""

import contextlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import fedconformal as fc

pytest.importorskip("nvflare", reason="the extra [nvflare] is not installed")

from flare_deployment import MARK, Federation, end_processes
from site_functions import LOUD, SECRET, scores_of

from fedconformal.nvflare import ConformalRecipe, read_calibration

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "nvflare.md"
EXAMPLE = ROOT / "examples" / "nvflare"


@pytest.fixture
def home(tmp_path):
    """A folder for FLARE's files; whatever still runs for it in the end is killed."""
    yield tmp_path
    end_processes(tmp_path)


def run_example(home, *, sites, rounds):
    """Run the guide's command, compare the calibration with files, and return what was printed."""
    (command,) = re.findall(r"^python examples/nvflare/job\.py$", GUIDE.read_text(), re.MULTILINE)
    options = ["--workspace", str(home / "simulation"), "--sites", str(sites), "--rounds", str(rounds)]
    done = subprocess.run(
        [sys.executable, *command.split()[1:], *options],
        cwd=ROOT,
        env={**os.environ, MARK: str(home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,  # a guard against hanging
        check=False,
    )
    assert done.returncode == 0, done.stdout
    server = home / "simulation" / "digits" / "server"
    plan = fc.Plan.read(next(server.rglob("reports/plan.json")))
    scores = scores_under(next(server.rglob("model_param.joblib")), sites=sites)
    expected = fc.calibrate(plan, [fc.report(plan, scores[site], site=site) for site in scores])
    assert read_calibration(server).to_json() == expected.to_json()
    assert expected.n_answers == sites
    return done.stdout.splitlines()


@pytest.mark.slow
def test_a_job_in_the_simulator_gives_the_same_calibration_as_files(home):
    """The one test of FLARE's processes that is not nightly."""
    run_example(home, sites=2, rounds=1)


@pytest.mark.nightly
def test_the_guide_in_the_simulator(home):
    """Four sites, three rounds, and the lines that the guide shows."""
    printed = run_example(home, sites=4, rounds=3)
    shown = GUIDE.read_text().split("(the test runs it and compares):\n\n")[1].split("\n\n")[0]
    lines = [line.strip() for line in shown.splitlines()]
    assert len(lines) == 7
    assert [line for line in lines if line not in printed] == []


def scores_under(model, sites):
    """What the example's sites compute, from the model that the server saved."""
    import joblib

    spec = importlib.util.spec_from_file_location("digits_task", EXAMPLE / "task.py")
    task = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(task)
    params = joblib.load(model)
    found = {}
    for site in (f"site-{i + 1}" for i in range(sites)):
        _, (X, y), _ = task.load(site, sites)
        found[site] = fc.scores.LAC().score(y, task.probabilities(params, X))
    return found


@pytest.mark.nightly
def test_a_provisioned_federation_with_sites_that_fail_hang_die_and_lie(home):
    """A job without any code, at sites that let none in; the functions are the sites' own."""
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
    ConformalRecipe(plan, timeout=60).export(str(home / "jobs"))
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
        federation.wait_until((results / "calibration.json").exists, "the calibration is there")

        calibration = read_calibration(results)
        reports = [fc.report(plan, scores_of(site), site=site) for site in ("north", "south")]
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
            assert f"{site} did not answer within 60 s" in log
        # FLARE streams its own log to the server, and a function's words with it: but no word of ours.
        resources = json.loads((federation.folder("raises") / "local" / "resources.json").read_text())
        assert resources["allow_log_streaming"] is True
        federation.wait_until(lambda: holding(federation.server, LOUD), "the stream has arrived")
        assert holding(federation.server, SECRET) == []
        assert SECRET in (federation.folder("raises") / "fedconformal-log").read_text()
        assert SECRET not in log


def holding(folder, text):
    """The files in which a text is found; FLARE packs and removes the folder of a job that is over."""
    return [file for file in folder.rglob("*") if any(text.encode() in part for part in contents(file))]


def contents(file):
    with contextlib.suppress(OSError):
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as packed:
                yield from map(packed.read, packed.namelist())
        elif file.is_file():
            yield file.read_bytes()
