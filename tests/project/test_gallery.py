"""The examples of the gallery run as they are, and each makes a picture."""

import re
import runpy
from pathlib import Path

import pytest

matplotlib = pytest.importorskip("matplotlib", reason="the extra [plots] is not installed")
for extra in ("opendp", "sklearn"):
    pytest.importorskip(extra, reason="an extra is not installed")

GALLERY = Path(__file__).parents[2] / "examples" / "gallery"
EXAMPLES = sorted(GALLERY.glob("plot_*.py"))


def test_there_are_seven():
    assert len(EXAMPLES) >= 7


@pytest.mark.nightly
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path, tmp_path, monkeypatch, recwarn):
    """Drawn with something to see on it: axes, labels and at least one mark."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

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


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_begins_with_a_title(path):
    title, line, _ = re.match(r'"""\n(.+)\n(=+)\n()', path.read_text()).groups()
    assert len(title) == len(line)
