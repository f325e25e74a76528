"""The examples of the gallery run as they are, and each makes a picture."""

import json
import re
import runpy
import shutil
import sys
import tomllib
from pathlib import Path

import pytest

import fedconformal as fc

matplotlib = pytest.importorskip("matplotlib", reason="the extra [plots] is not installed")
for extra in ("opendp", "sklearn"):
    pytest.importorskip(extra, reason="an extra is not installed")

GALLERY = Path(__file__).parents[2] / "examples" / "gallery"
EXAMPLES = sorted(GALLERY.glob("plot_*.py"))


def test_there_are_eight():
    assert len(EXAMPLES) >= 8


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path, tmp_path, monkeypatch, recwarn):
    """Drawn with something to see on it: axes, labels and at least one mark."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    for data in GALLERY.glob("*.json"):
        shutil.copy(data, tmp_path)
    monkeypatch.chdir(tmp_path)
    pyplot.close("all")
    try:
        runpy.run_path(str(path), run_name="__main__")
        figures = [pyplot.figure(number) for number in pyplot.get_fignums()]
        assert figures
        for axes in (axes for figure in figures for axes in figure.axes):
            assert axes.has_data() or axes.get_label() == "<colorbar>"
        figures[0].savefig("picture.png")
        assert Path("picture.png").stat().st_size > 5000
    finally:
        pyplot.close("all")
    assert [str(warning.message) for warning in recwarn] == []


@pytest.mark.slow
def test_the_recorded_round_is_what_the_example_does(tmp_path, monkeypatch, capsys):
    """The same app on the same sites, without Flower's processes: what was recorded, but for rounding."""
    pytest.importorskip("flwr", reason="the extra [flower] is not installed")
    import record_flower
    from flower_grid import LocalGrid
    from flwr.app import Context, RecordDict

    example = GALLERY.parent / "flower"
    monkeypatch.syspath_prepend(str(example))
    from digits import client_app, server_app

    settings = tomllib.loads((example / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    config = settings | {"output": str(tmp_path / "results")}
    sites = record_flower.SITES
    grid = LocalGrid(
        [(client_app.app, {"partition-id": i, "num-partitions": sites}) for i in range(sites)], config=config
    )
    try:
        server_app.app(grid, Context(7, 1, {}, RecordDict(), config))
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "digits"]:
            del sys.modules[name]
    made = (tmp_path / "results" / "calibration.json").read_text()
    fresh = json.loads(record_flower.record(made, capsys.readouterr().out))
    kept = json.loads(record_flower.RECORDING.read_text())
    assert kept["command"] == fresh["command"]
    assert kept["checks"] == fresh["checks"]
    old, new = (each["calibration"]["plan"] | {"model": None} for each in (kept, fresh))
    assert old == new
    old, new = (fc.Calibration.from_json(json.dumps(each["calibration"])) for each in (kept, fresh))
    assert old.threshold == pytest.approx(new.threshold, rel=1e-6)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_begins_with_a_title(path):
    title, line, _ = re.match(r'"""\n(.+)\n(=+)\n()', path.read_text()).groups()
    assert len(title) == len(line)
