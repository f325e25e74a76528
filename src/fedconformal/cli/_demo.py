"""The whole story on embedded data: twelve sites that share nothing but small files."""

import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from fedconformal import baselines
from fedconformal._extras import need
from fedconformal.cli._show import table
from fedconformal.documents import Calibration

LEVEL = 0.9
SILENT = "site-07"


def demo(directory: Path | None) -> None:
    """Train, plan, report from twelve processes, calibrate with one site silent, predict, verify, compare."""
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
        _story(directory)
        return
    with tempfile.TemporaryDirectory(prefix="fedconformal-demo-") as temporary:
        _story(Path(temporary))


def _story(directory: Path) -> None:
    print(
        "Diabetes progression (442 patients, embedded in scikit-learn), ridge regression, twelve hospitals.\n"
    )
    sites, test = _prepare(directory)
    sizes = ",".join(f"{name}={scores.size}" for name, scores in sites.items())
    print("1. The coordinator makes a plan.")
    _run(
        directory,
        "plan",
        "--points",
        sizes,
        "--confidence-level",
        str(LEVEL),
        "--score",
        "absolute",
        "-o",
        "plan.json",
        "--force",
        show=True,
    )
    print("2. Each hospital answers with one number, from a process and a directory of its own.")
    answering = [name for name in sites if name != SILENT]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda name: _report(directory, name, show=name == answering[0]), sites))
    print(
        f"   ... and so do {len(sites) - 1} others. One report is lost on the way: {SILENT} stays silent.\n"
    )
    print("3. The coordinator calibrates, everybody predicts, anybody verifies.")
    files = [f"{name}/report.json" for name in answering]
    _run(directory, "calibrate", "plan.json", *files, "-o", "calibration.json", "--force", show=True)
    _run(
        directory,
        "predict",
        "calibration.json",
        "predictions.csv",
        "-o",
        "intervals.csv",
        "--column",
        "prediction",
        "--force",
    )
    _run(directory, "verify", "calibration.json", show=True)
    _compare(directory, sites, test)


def _prepare(directory: Path) -> tuple[dict[str, Any], Any]:
    """Files of twelve sites with scores, and of predictions; returns scores by site and the test truth."""
    data = need("sklearn.datasets", extra="sklearn").load_diabetes()
    model_type = need("sklearn.linear_model", extra="sklearn").RidgeCV
    rng = np.random.default_rng(2023)
    order = rng.permutation(len(data.target))
    train, calibration, test = np.split(order, [140, 370])
    model = model_type(np.logspace(-3, 3, 13)).fit(data.data[train], data.target[train])
    residuals = np.abs(data.target - model.predict(data.data))
    shares = rng.dirichlet(np.full(12, 4.0))
    cuts = np.cumsum(6 + np.floor(shares * (calibration.size - 12 * 6)).astype(int))[:-1]
    sites = {}
    for i, rows in enumerate(np.split(calibration, cuts), start=1):
        name = f"site-{i:02}"
        sites[name] = residuals[rows]
        (directory / name).mkdir(exist_ok=True)
        np.savetxt(directory / name / "scores.csv", residuals[rows], header="score", comments="")
    predictions = model.predict(data.data[test])
    np.savetxt(directory / "predictions.csv", predictions, header="prediction", comments="")
    return sites, np.stack([data.target[test], predictions], axis=1)


def _report(directory: Path, name: str, *, show: bool) -> None:
    arguments = ["report", "../plan.json", "scores.csv", "--site", name, "-o", "report.json", "--force"]
    _run(directory / name, *arguments, show=show)


def _run(directory: Path, *arguments: str, show: bool = False) -> None:
    """Run a command as a person would, in a process of its own."""
    if show:
        print(f"   $ fedconformal {shlex.join(arguments)[:150]}")
    done = subprocess.run(
        [sys.executable, "-m", "fedconformal", *arguments],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ValueError(done.stderr.strip().removeprefix("fedconformal: "))
    if show:
        said = done.stderr if arguments[0] == "report" else done.stdout
        print("\n".join("     " + line for line in said.strip().splitlines()) + "\n")


def _compare(directory: Path, sites: dict[str, Any], test: Any) -> None:
    """Our threshold beside what one would do instead."""
    calibration = Calibration.from_json((directory / "calibration.json").read_text())
    answered = [sites[answer.site] for answer in calibration.answers]
    largest = max(answered, key=len)
    truth, prediction = test.T
    guaranteed = f"{calibration.law.mean():.3f}"
    rows = []
    for name, threshold, promise in [
        ("FedCP-QQ (this package)", calibration.threshold, guaranteed),
        (
            "centralised: all scores in one place",
            baselines.centralized(np.concatenate(answered), LEVEL),
            f"{LEVEL:.3f}",
        ),
        (f"largest site alone (n = {largest.size})", baselines.single_site(largest, LEVEL), f"{LEVEL:.3f}"),
        ("FedCP-Avg: mean of the sites' quantiles", baselines.average(answered, LEVEL), "none"),
    ]:
        covered = np.mean(np.abs(truth - prediction) <= threshold)
        rows.append([name, f"{threshold:.1f}", promise, f"{covered:.3f}", f"{2 * threshold:.1f}"])
    table(
        ["method", "threshold", "guaranteed", f"on {truth.size} test patients", "width"],
        rows,
        title="And what one would do instead",
    )
    lower, upper = calibration.law.interval(0.9)
    print(f"In 9 of 10 such calibrations the true coverage lies between {lower:.3f} and {upper:.3f}.")
