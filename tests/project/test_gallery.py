"""The examples of the gallery run as they are, and each makes a picture."""

import re
import runpy
from pathlib import Path

import pytest

matplotlib = pytest.importorskip(
    "matplotlib", reason="the extra [plots] is not installed"
)
for extra in ("opendp", "sklearn"):
    pytest.importorskip(extra, reason="an extra is not installed")

FIRST, *OTHERS = sorted(
    (Path(__file__).parents[2] / "examples" / "gallery").glob("plot_*.py")
)
EXAMPLES = [FIRST, *(pytest.param(path, marks=pytest.mark.nightly) for path in OTHERS)]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path, tmp_path, monkeypatch, recwarn):
    """Each begins with a title and draws something: axes, labels and at least one
    mark.
    """
    title, line = re.match(r'"""\n(.+)\n(=+)\n', path.read_text()).groups()
    assert len(title) == len(line)
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
