"""Plots are drawn without a screen and closed after each test."""

import matplotlib

matplotlib.use("Agg")

import pytest
from matplotlib import pyplot


@pytest.fixture(autouse=True)
def close_figures():
    yield
    pyplot.close("all")


@pytest.fixture
def lines():
    """The lines of some axes, by label."""
    return lambda ax: {line.get_label(): line for line in ax.get_lines()}
