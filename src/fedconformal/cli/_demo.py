"""``fedconformal demo``."""

import os
import shlex
import sys
import tempfile
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from fedconformal.cli._show import table, width

if TYPE_CHECKING:
    from fedconformal._typing import Floats
    from fedconformal.documents import Calibration

_LEVEL = 0.9
_MISSING = "site-07"


class _Hospitals(NamedTuple):
    """Scores by site, and the truth and predictions of test patients."""

    scores: "dict[str, Floats]"
    truth: "Floats"
    prediction: "Floats"


def demo(
    directory: Annotated[
        Path | None, typer.Option(help="Where to put the files.", show_default="a new temporary folder")
    ] = None,
) -> None:
    """Run every step on embedded data: twelve sites, one of them missing."""
    if directory is None:
        directory = Path(tempfile.mkdtemp(prefix="fedconformal-demo-"))
    directory.mkdir(parents=True, exist_ok=True)
    if sys.stdout.isatty():
        os.environ["COLUMNS"] = str(width() - 5)  # what the commands print is indented
    directory = directory.resolve()
    print(
        "Diabetes progression (442 patients, embedded in scikit-learn), ridge regression, twelve hospitals.\n"
    )
    hospitals = _prepare(directory)
    names = list(hospitals.scores)
    answering = [name for name in names if name != _MISSING]
    print("The files stay, and every command below can be copied and run again there:")
    print(f"   $ cd {shlex.quote(str(directory))}\n")
    print("1. The coordinator makes a plan.")
    options = ["--points", "sizes.csv", "--confidence-level", str(_LEVEL), "--score", "absolute"]
    _run(directory, "plan", *options, "-o", "plan.json", "--force", show=True)
    print("2. Each hospital answers with one number.")
    (directory / "reports").mkdir(exist_ok=True)
    for name in names:
        files = ["plan.json", f"{name}/scores.csv", "--site", name, "-o", f"reports/{name}.json", "--force"]
        _run(directory, "report", *files, "--yes", show=name == names[0])
    (directory / "reports" / f"{_MISSING}.json").unlink()
    print(f"   ... and so do the others. One report is lost on the way: {_MISSING} is missing.\n")
    print("3. The coordinator calibrates, everybody predicts, anybody verifies.")
    _run(directory, "calibrate", "plan.json", "reports", "-o", "calibration.json", "--force", show=True)
    tables = ["predictions.csv", "-o", "intervals.csv", "--column", "prediction"]
    _run(directory, "predict", "calibration.json", *tables, "--force", show=True)
    _run(directory, "verify", "calibration.json", "--reports", "reports", show=True)
    page = ["certificate", "calibration.json", "-o", "certificate.html", "--force"]
    _run(directory, *page, show=True)
    _compare(directory, hospitals, answering)
    print("\nWhat to open next:")
    print(f"   {(directory / 'certificate.html').as_uri()}")
    print("       the certificate of this calibration, in a browser")
    print("   $ fedconformal planner")
    print("       a page to plan your own sites with sliders")
    print("   $ fedconformal plan --help")
    print("       the same on the command line")


def _prepare(directory: Path) -> _Hospitals:
    """Write the scores of twelve sites, and predictions for test patients."""
    import numpy as np

    from fedconformal._extras import need

    data = need("sklearn.datasets", extra="sklearn").load_diabetes()
    model_type = need("sklearn.linear_model", extra="sklearn").RidgeCV
    rng = np.random.default_rng(2023)
    order = rng.permutation(len(data.target))
    train, calibration, test = np.split(order, [140, 370])
    model = model_type(np.logspace(-3, 3, 13)).fit(data.data[train], data.target[train])
    residuals = np.abs(data.target - model.predict(data.data))
    shares = rng.dirichlet(np.full(12, 4.0))
    cuts = np.cumsum(6 + np.floor(shares * (calibration.size - 12 * 6)).astype(int))[:-1]
    parts = np.split(calibration, cuts)
    scores = {f"site-{i:02}": residuals[rows] for i, rows in enumerate(parts, start=1)}
    for name, values in scores.items():
        (directory / name).mkdir(exist_ok=True)
        np.savetxt(directory / name / "scores.csv", values, header="score", comments="")
    sizes = [f"{name},{values.size}" for name, values in scores.items()]
    (directory / "sizes.csv").write_text("\n".join(["site,n", *sizes, ""]))
    predictions = model.predict(data.data[test])
    np.savetxt(directory / "predictions.csv", predictions, header="prediction", comments="")
    return _Hospitals(scores, data.target[test], predictions)


def _run(directory: Path, *arguments: str, show: bool = False) -> None:
    """Run a command in that directory, and show what it prints."""
    from fedconformal.cli import main

    if show:
        print(f"   $ fedconformal {shlex.join(arguments)}")
    out, err = StringIO(), StringIO()
    with chdir(directory), redirect_stdout(out), redirect_stderr(err):
        code = main(arguments)
    if code != 0:
        raise ValueError(err.getvalue().strip().removeprefix("fedconformal: "))
    if show:
        shown = out.getvalue() or err.getvalue()  # what leaves a site is shown on stderr
        print("\n".join("     " + line for line in shown.strip("\n").splitlines()) + "\n")


def _compare(directory: Path, hospitals: _Hospitals, answering: list[str]) -> None:
    """Compare the threshold with those of other methods."""
    import numpy as np

    from fedconformal import baselines
    from fedconformal.documents import Calibration

    stable = Calibration.read(directory / "calibration.json")
    three = _calibrated(hospitals, answering, numbers=3)
    marginal = _calibrated(hospitals, answering, criterion="marginal")
    answered = [hospitals.scores[name] for name in answering]
    largest = max(answered, key=len)
    wanted = f"{_LEVEL:.3f}"
    methods: list[tuple[str, float, str]] = [
        ("FedCP-QQ, stable (the default)", stable.threshold, f"{stable.law.mean():.3f}"),
        ("FedCP-QQ, stable, three numbers", three.threshold, f"{three.law.mean():.3f}"),
        ("FedCP-QQ, marginal (the paper's)", marginal.threshold, f"{marginal.law.mean():.3f}"),
        (
            "centralised: all scores pooled",
            baselines.centralized(np.concatenate(answered), _LEVEL),
            wanted,
        ),
        (f"largest site alone (n = {largest.size})", baselines.single_site(largest, _LEVEL), wanted),
        ("FedCP-Avg: mean of the quantiles", baselines.average(answered, _LEVEL), "none"),
    ]
    errors = np.abs(hospitals.truth - hospitals.prediction)
    table(
        ["method", "threshold", "guaranteed", f"on {errors.size} test\npatients", "width"],
        [
            [name, f"{q:.1f}", promised, f"{np.mean(errors <= q):.3f}", f"{2 * q:.1f}"]
            for name, q, promised in methods
        ],
        title="The alternatives",
    )
    for which, calibration in {"": stable, ", with three numbers per site,": three}.items():
        lower, upper = calibration.law.interval(0.9)
        print(
            f"In 9 of 10 such calibrations{which} the true coverage lies between {lower:.3f} and {upper:.3f}."
        )


def _calibrated(hospitals: _Hospitals, answering: list[str], **options: Any) -> "Calibration":
    """Calibrate the same hospitals with another plan."""
    from fedconformal import protocol

    sizes = {name: scores.size for name, scores in hospitals.scores.items()}
    plan = protocol.plan(n_points=sizes, confidence_level=_LEVEL, **options)
    asked = set(plan.designs[0].asked_names or ())
    reports = [
        protocol.report(plan, hospitals.scores[name], site=name) for name in answering if name in asked
    ]
    return protocol.calibrate(plan, reports)
