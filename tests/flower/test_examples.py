"""The examples' apps, whole but without Flower's processes: train, calibrate, save, go
on, check.
"""

import importlib
import re
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

import fedconformal as fc

pytest.importorskip("flwr", reason="the extra [flower] is not installed")
pytest.importorskip("sklearn", reason="the extra [sklearn] is not installed")

from flower_grid import LocalGrid
from flwr.app import Context, RecordDict

EXAMPLES = Path(__file__).parents[2] / "examples"
PACKAGES = {"digits", "digits_torch", "findings"}


class App:
    """An example's two parts, and a run of them."""

    def __init__(self, folder, package):
        self.client, self.server = (
            importlib.import_module(f"{package}.{part}_app")
            for part in ("client", "server")
        )
        settings = tomllib.loads((EXAMPLES / folder / "pyproject.toml").read_text())
        self.defaults = settings["tool"]["flwr"]["app"]["config"]

    def run(self, sites, own=None, **changes):
        """Run with so many simulated sites; the messages that were sent."""
        config = self.defaults | changes
        own = {"num-partitions": sites, **(own or {})}
        nodes = [(self.client.app, {"partition-id": i, **own}) for i in range(sites)]
        return self.on(LocalGrid(nodes, config=config))

    def on(self, grid):
        self.server.app(grid, Context(7, 1, {}, RecordDict(), grid.config))
        return Counter(message.metadata.message_type for message in grid.sent)


@pytest.fixture
def example(monkeypatch):
    def load(folder, package):
        monkeypatch.syspath_prepend(str(EXAMPLES / folder))
        return App(folder, package)

    yield load
    for name in [name for name in sys.modules if name.split(".")[0] in PACKAGES]:
        del sys.modules[name]


def test_the_example(example, tmp_path, capsys):
    digits, output = example("flower", "digits"), tmp_path / "calibration.json"
    asked = digits.run(2, output=str(output), reports=str(tmp_path / "reports"))
    assert asked == {
        "train": 6,
        "query.conformal": 2,
        "query.conformal_check": 2,
        "query.sets": 2,
    }
    printed = capsys.readouterr().out
    assert "from 2 of 2 sites" in printed
    assert "prediction sets at 2 sites hold" in printed
    assert fc.Calibration.read(output).plan.score.name == "lac"


def test_a_site_reads_its_own_file_where_it_has_one(example, tmp_path):
    import numpy as np

    digits = example("flower", "digits")
    task = importlib.import_module("digits.task")
    nodes = []
    for i in range(2):
        X, y = task.share(i, 2)
        np.savez(tmp_path / f"{i}.npz", X=X, y=y)
        nodes.append(
            (
                digits.client.app,
                {"site": f"hospital-{i}", "data": str(tmp_path / f"{i}.npz")},
            )
        )
    files = {"output": str(tmp_path / "calibration.json"), "reports": ""}
    digits.on(
        LocalGrid(
            nodes,
            config=digits.defaults | files | {"num-server-rounds": 1, "score": "raps"},
        )
    )
    published = fc.Calibration.read(tmp_path / "calibration.json")
    assert published.answered == ("hospital-0", "hospital-1")


def test_the_example_of_a_risk(example, tmp_path, capsys):
    """The promise to each site holds at four unlike ones, that to alike sites does not;
    all is seeded.
    """
    (tmp_path / "site.toml").write_text('secret = "the draws of one run"\n')
    app, output = example("flower-risk", "findings"), tmp_path / "calibration.json"
    risks = {}
    for promise in ("each-site", "population"):
        own = {"policy": str(tmp_path / "site.toml")}
        asked = app.run(4, own, output=str(output), promise=promise)
        assert asked == {"train": 12, "query.conformal": 4, "query.risk": 4}
        assert fc.Calibration.read(output).plan.score.name == "missed-labels"
        printed = capsys.readouterr().out
        assert "from 4 of 4 sites" in printed
        risks[promise] = [
            float(text)
            for text in re.findall(r": ([0-9.]+) of the findings missed", printed)
        ]
    assert len(risks["each-site"]) == 4
    assert (
        max(risks["each-site"]) < 0.13
    )  # at most 0.1 in the mean over calibrations, of which this is one
    assert max(risks["population"]) > 0.15


@pytest.mark.nightly
@pytest.mark.parametrize("per_class", [False, True], ids=["one-threshold", "per-class"])
def test_the_torch_example(example, tmp_path, capsys, per_class):
    pytest.importorskip("torch", reason="torch is not installed")
    app, output = example("flower-torch", "digits_torch"), tmp_path / "calibration.json"
    settings = {
        "num-server-rounds": 1,
        "per-class": per_class,
        "reports": str(tmp_path / "reports"),
    }
    asked = app.run(2, output=str(output), **settings)
    assert asked == {"train": 2, "query.conformal": 2}
    published = fc.Calibration.read(output)
    assert len(published.reports) == 2
    assert published.plan.groups == (tuple(map(str, range(10))) if per_class else ())
    assert capsys.readouterr().out.count("a prediction set:") == 5
    (kept,) = (tmp_path / "reports").iterdir()
    assert app.run(2, output=str(output), **settings | {"reports": str(kept)}) == {}
