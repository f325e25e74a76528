"""What each extra promises, in a few lines: ``python tools/smoke.py EXTRA`` where only that one is installed.

``core`` needs nothing but the wheel. Run in an empty folder, so that the source tree is not in the way.
"""

import subprocess
import sys
from collections.abc import Callable

import numpy as np

import fedconformal as fc


def core() -> None:
    """Plan, report, calibrate, predict and verify."""
    rng = np.random.default_rng(0)
    plan = fc.plan(n_points={"north": 120, "south": 40, "west": 377}, numbers=2)
    asked = [name for name in ("north", "south", "west") if name in plan.part.asked_names]
    sizes = {"north": 120, "south": 40, "west": 377}
    reports = [fc.report(plan, rng.gamma(2.0, size=sizes[name]), site=name) for name in asked]
    calibration = fc.calibrate(plan, reports)
    assert np.isfinite(calibration.threshold)
    assert all(finding.holds is not False for finding in fc.audit.verify(calibration))
    assert calibration.predict_interval(np.zeros(3)).shape[0] == 3


def cli() -> None:
    """A plan from the command line."""
    command = [sys.executable, "-m", "fedconformal", "plan", "--sites", "10", "--points", "79", "--json"]
    assert b'"fedconformal/plan"' in subprocess.run(command, capture_output=True, check=True).stdout


def sklearn() -> None:
    """An estimator with intervals."""
    from sklearn.linear_model import LinearRegression

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = X.sum(axis=1) + rng.normal(size=300)
    conformal = fc.FederatedConformalRegressor(LinearRegression().fit(X[:100], y[:100]))
    conformal.conformalize(X[100:], y[100:], sites=rng.integers(4, size=200))
    assert conformal.predict_interval(X)[1].shape == (300, 2, 1)


def private() -> None:
    """A private report, charged to a ledger."""
    import tempfile
    from pathlib import Path

    plan = fc.plan(n_sites=5, n_points=200, privacy=fc.Privacy(epsilon=2.0, bins=fc.Bins.uniform(0, 5, 50)))
    with tempfile.TemporaryDirectory() as folder:
        ledger = fc.Ledger.create(Path(folder) / "ledger.db")
        ledger.raise_budget("scores", 2.0, reason="a test")
        scores = np.random.default_rng(0).gamma(1.0, size=200)
        fc.report(plan, scores, site="A", ledger=ledger, dataset="scores")
        assert ledger.remaining("scores") == 0


def flower() -> None:
    """The two halves can be imported."""
    assert callable(fc.flower.add_conformal)
    assert callable(fc.flower.calibrate)


def nvflare() -> None:
    """The two halves can be imported."""
    assert fc.nvflare.__all__


def plots() -> None:
    """A picture."""
    import matplotlib

    matplotlib.use("Agg")
    assert fc.plots.CoverageLawDisplay.from_plan(fc.plan(n_sites=5, n_points=50)).ax_.get_lines()


def web() -> None:
    """The planner's page and its API."""
    assert fc.web.create_app()
    assert fc.web.openapi()["paths"]


def experiments() -> None:
    """A figure of the paper that needs no data."""
    from fedconformal.experiments import STUDIES

    assert "upper-bounds" in STUDIES


SMOKE: dict[str, Callable[[], None]] = {
    each.__name__: each for each in (core, cli, sklearn, private, flower, nvflare, plots, web, experiments)
}

if __name__ == "__main__":
    SMOKE[sys.argv[1]]()
    print(f"{sys.argv[1]}: works")
