"""What several numbers per site buy: limits, plans and the figure."""

import math
import subprocess
import sys

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.experiments import numbers
from support import FALSE_ALARM


def test_one_number_costs_the_root_of_half_of_pi():
    assert numbers.asymptotic_spread(1) == pytest.approx(math.sqrt(math.pi / 2), abs=1e-12)


def test_many_numbers_cost_nothing():
    limits = [numbers.asymptotic_spread(r) for r in (1, 2, 3, 5, 9, 20)]
    assert limits == sorted(limits, reverse=True)
    assert 1 < limits[-1] < 1.005


@pytest.mark.parametrize("r", [1, 2, 3])
def test_the_limit_is_reached_by_large_sites(r):
    """200 sites of 10,000 points: the plan is within 2 % of the limit."""
    assert numbers.spread([10_000] * 200, r) == pytest.approx(numbers.asymptotic_spread(r), rel=0.02)


def test_the_spread_is_that_of_simulated_thresholds():
    """20,000 federations: E[(C - 0.9)^2] within Hoeffding's limit for values in [0, 0.81]."""
    sizes, runs = (30, 60, 200), 20_000
    plan = fc.plan(n_points=sizes, numbers=2)
    rng = np.random.default_rng(2)
    values, votes = [], []
    for n, ranks, weight in zip(sizes, plan.local_ranks, plan.weights, strict=True):
        uniforms = np.sort(rng.random((runs, n)), axis=1)
        values += [uniforms[:, rank - 1] for rank in ranks]
        votes += [weight] * len(ranks)
    order = np.argsort(values, axis=0)
    enough = np.cumsum(np.array(votes)[order], axis=0) >= plan.server_rank
    coverage = np.sort(values, axis=0)[enough.argmax(axis=0), np.arange(runs)]
    pooled = fc.plan(1, sum(sizes), criterion="marginal").law.std()
    limit = 0.81 * math.sqrt(math.log(2 / FALSE_ALARM) / (2 * runs))
    assert abs(np.mean((coverage - 0.9) ** 2) - (numbers.spread(sizes, 2) * pooled) ** 2) < limit


def test_every_federation_has_a_line():
    many = {f"{m} sites": (20,) * m for m in range(2, 9)}
    (axis,) = numbers.figure(many, (1, 2)).axes
    labels = [text.get_text() for text in axis.get_legend().get_texts()]
    assert labels == [*many, "many large sites"]
    for line, sizes in zip(axis.lines, many.values(), strict=False):
        assert line.get_ydata() == pytest.approx([numbers.spread(sizes, r) for r in (1, 2)])


def test_the_figure_is_saved(monkeypatch, tmp_path):
    monkeypatch.setattr(numbers.figure, "__defaults__", ({"3 x 20": (20,) * 3}, (1, 2)))
    numbers.main(tmp_path / "figures")
    assert (tmp_path / "figures" / "numbers.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_it_can_be_run_as_a_module():
    command = [sys.executable, "-m", "fedconformal.experiments.numbers", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "where numbers.png goes" in done.stdout
