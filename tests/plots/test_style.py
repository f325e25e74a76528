"""One look for all plots."""

from matplotlib import pyplot

from fedconformal.plots import style


def luminance(colour):
    """Relative luminance as the web's accessibility guidelines define it."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_grey_can_be_read_on_white():
    assert 1.05 / (luminance(style.GREY) + 0.05) >= 7


def test_colours_differ():
    colours = [getattr(style, name) for name in style.__all__ if isinstance(getattr(style, name), str)]
    assert len(set(colours)) == len(colours) == 8


def test_the_level_runs_across_coverage(lines):
    _, ax = pyplot.subplots()
    style.level_line(ax, 0.9)
    style.level_line(ax, 0.8, vertical=False)
    assert list(lines(ax)["level 0.9"].get_xdata()) == [0.9, 0.9]
    assert list(lines(ax)["level 0.8"].get_ydata()) == [0.8, 0.8]
