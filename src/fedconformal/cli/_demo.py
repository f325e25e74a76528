"""``fedconformal demo``."""

import os
import shlex
import sys
import tempfile
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np

from fedconformal import baselines, protocol
from fedconformal._extras import need
from fedconformal._files import write_text
from fedconformal._util import Floats
from fedconformal.cli._show import table, width
from fedconformal.documents import Calibration

_LEVEL = 0.9
_MISSING = "site-07"
_ENDING = """
What to open next:
   {certificate}
       the certificate of this calibration, in a browser
   $ {program} planner
       a page to plan your own sites with sliders
   $ {program} plan --help
       the same on the command line"""


def demo(*, directory: Path | None = None) -> None:
    """Run every step on embedded data."""
    folder = (
        directory or Path(tempfile.mkdtemp(prefix="fedconformal-demo-"))
    ).resolve()
    (folder / "reports").mkdir(parents=True, exist_ok=True)
    if sys.stdout.isatty():
        os.environ["COLUMNS"] = str(width() - 5)  # what the commands print is indented
    print(
        "Diabetes progression (442 patients, embedded in scikit-learn), ridge"
        " regression, 12 hospitals.\n"
    )
    scores, errors = _prepare(folder)
    print("The files stay, and every command below can be copied and run again there:")
    print(f"   $ cd {shlex.quote(str(folder))}\n")
    with chdir(folder):
        print("1. The coordinator makes a plan.")
        _run(
            "plan --points sizes.csv --confidence-level 0.9 --score absolute -o"
            " plan.json --force"
        )
        print("2. Each hospital answers with one number.")
        for i, name in enumerate(scores):
            answer = (
                f"report plan.json {name}/scores.csv --site {name} -o"
                f" reports/{name}.json --force --yes"
            )
            _run(answer, show=i == 0)
        Path("reports", f"{_MISSING}.json").unlink()
        print(
            f"   ... and so do the others. One report is lost on the way: {_MISSING} is"
            " missing.\n"
        )
        print("3. The coordinator calibrates, everybody predicts, anybody verifies.")
        _run("calibrate plan.json reports -o calibration.json --force")
        _run(
            "predict calibration.json predictions.csv -o intervals.csv --column"
            " prediction --force"
        )
        _run("verify calibration.json --reports reports")
        _run("certificate calibration.json -o certificate.html --force")
        _compare(scores, errors)
    program = (
        shlex.quote(sys.argv[0])
        if Path(sys.argv[0]).stem == "fedconformal"
        else "fedconformal"
    )
    print(
        _ENDING.format(
            certificate=(folder / "certificate.html").as_uri(), program=program
        )
    )


def _prepare(directory: Path) -> tuple[dict[str, Floats], Floats]:
    """Write and return the scores of twelve sites; return errors of the predictions for
    test patients.
    """
    data = need("sklearn.datasets", extra="sklearn").load_diabetes()
    model_type = need("sklearn.linear_model", extra="sklearn").RidgeCV
    rng = np.random.default_rng(2023)
    order = rng.permutation(len(data.target))
    train, calibration, test = np.split(order, [140, 370])
    model = model_type(np.logspace(-3, 3, 13)).fit(data.data[train], data.target[train])
    predictions = model.predict(data.data)
    residuals = np.abs(data.target - predictions)
    shares = rng.dirichlet(np.full(12, 4.0))
    cuts = np.cumsum(6 + np.floor(shares * (calibration.size - 12 * 6)).astype(int))[
        :-1
    ]
    parts = np.split(calibration, cuts)
    scores = {f"site-{i:02}": residuals[rows] for i, rows in enumerate(parts, start=1)}
    for name, values in scores.items():
        (directory / name).mkdir(exist_ok=True)
        _write_column(directory / name / "scores.csv", "score", values)
    sizes = [f"{name},{values.size}" for name, values in scores.items()]
    table = "\n".join(["site,n", *sizes, ""])
    write_text(directory / "sizes.csv", table, force=True)
    _write_column(directory / "predictions.csv", "prediction", predictions[test])
    return scores, residuals[test]


def _write_column(path: Path, name: str, values: Floats) -> None:
    text = StringIO()
    np.savetxt(text, values, header=name, comments="")
    write_text(path, text.getvalue(), force=True)


def _run(command: str, *, show: bool = True) -> None:
    """Run a command, and show what it prints."""
    from fedconformal.cli import main

    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(command.split())
    if code != 0:
        raise ValueError(err.getvalue().strip().removeprefix("fedconformal: "))
    if show:
        printed = (
            out.getvalue() or err.getvalue()
        )  # what leaves a site is shown on stderr
        print(f"   $ fedconformal {command}")
        print(
            "\n".join("     " + line for line in printed.strip("\n").splitlines())
            + "\n"
        )


def _compare(scores: dict[str, Floats], errors: Floats) -> None:
    """Compare the threshold with those of other methods."""
    answered = {name: values for name, values in scores.items() if name != _MISSING}
    stable = Calibration.read("calibration.json")
    three = protocol.conformalize(answered, confidence_level=_LEVEL, numbers=3)
    marginal = protocol.conformalize(
        answered, confidence_level=_LEVEL, criterion="marginal"
    )
    held, wanted = list(answered.values()), f"{_LEVEL:.3f}"
    pooled, largest = np.concatenate(held), max(held, key=len)
    methods: list[tuple[str, float, str]] = [
        (
            "FedCP-QQ, stable (the default)",
            stable.threshold,
            f"{stable.law.mean():.3f}",
        ),
        ("FedCP-QQ, stable, three numbers", three.threshold, f"{three.law.mean():.3f}"),
        (
            "FedCP-QQ, marginal (the paper's)",
            marginal.threshold,
            f"{marginal.law.mean():.3f}",
        ),
        (
            "centralised: all scores pooled",
            baselines.centralized(pooled, _LEVEL),
            wanted,
        ),
        (
            f"largest site alone (n = {largest.size})",
            baselines.centralized(largest, _LEVEL),
            wanted,
        ),
        ("FedCP-Avg: mean of the quantiles", baselines.average(held, _LEVEL), "none"),
    ]
    table(
        [
            {
                "method": name,
                "threshold": f"{q:.1f}",
                "guaranteed": promised,
                f"on {errors.size} test\npatients": f"{np.mean(errors <= q):.3f}",
                "width": f"{2 * q:.1f}",
            }
            for name, q, promised in methods
        ],
        title=(
            "The alternatives; guarantees hold if the model errs equally at every site"
        ),
    )
    for which, calibration in {
        "": stable,
        ", with three numbers per site,": three,
    }.items():
        low, high = calibration.law.interval(0.9)
        between = f"the true coverage lies between {low:.3f} and {high:.3f}"
        print(f"If so, in 9 of 10 such calibrations{which} {between}.")
