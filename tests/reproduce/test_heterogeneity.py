"""The study of sites that differ: simulation beside the exact law, and the odd sites by name."""

import numpy as np
import pytest
from scipy import stats

import fedconformal as fc
from fedconformal.experiments import _figures as figures
from fedconformal.experiments._heterogeneity import LABELS, ONE_ODD, SCALES, WHO, _Relabelled, heterogeneity
from fedconformal.experiments._methods import EACH, QQ
from fedconformal.experiments._store import distinct
from fedconformal.heterogeneity import scale, what_if
from support import hoeffding_limit


def select(rows, **values):
    """Rows that have these values; not all panels have the same columns."""
    return [row for row in rows if all(row.get(name) == value for name, value in values.items())]


@pytest.fixture(scope="module")
def rows():
    return heterogeneity(0.9, 10, factors=(1.0, 3.0), concentrations=(100.0, 0.1))


def test_with_a_factor_of_one_the_law_is_the_plans(rows):
    promised = fc.plan(20, 100, confidence_level=0.9, criterion="marginal").law.mean()
    for panel in (SCALES, ONE_ODD):
        (exact,) = select(rows, panel=panel, curve="exact law", x=1.0)
        assert exact["coverage"] == pytest.approx(promised, abs=1e-9)


def simulated(rows, panel, method):
    """Mean coverages by factor."""
    return {row["x"]: row["coverage"] for row in select(rows, panel=panel, curve="simulated", method=method)}


def test_simulation_lies_within_the_exact_law(rows):
    """A mean of ten lies between quantiles that each of them leaves once in 1e8: false alarm 4e-7."""
    chosen = fc.plan(n_points={f"site {j}": 100 for j in range(20)}, criterion="marginal")
    found = simulated(rows, ONE_ODD, QQ)
    for factor in (1.0, 3.0):
        law = what_if(chosen, {"site 0": scale(factor)}).law("site 0")
        assert law.ppf(1e-8) < found[factor] < law.ppf(1 - 1e-8)
        (exact,) = select(rows, panel=ONE_ODD, curve="exact law", x=factor)
        assert exact["coverage"] == law.mean()


def test_the_bound_lies_below_the_exact_law(rows):
    for panel in (SCALES, ONE_ODD):
        exact, bounds = (select(rows, panel=panel, curve=curve) for curve in ("exact law", "Proposition 3.4"))
        assert len(exact) == len(bounds) == 2
        for above, below in zip(exact, bounds, strict=True):
            assert below["coverage"] <= above["coverage"] + 1e-9


def test_a_promise_to_each_site_holds_for_the_odd_one(rows):
    """The odd site's own threshold has the law Beta(91, 10); false alarm 1e-7."""
    worst = stats.beta(91, 10).ppf(1e-8)
    assert simulated(rows, ONE_ODD, EACH)[3.0] > worst > simulated(rows, ONE_ODD, QQ)[3.0]


def test_a_site_draws_scores_by_its_shares_of_labels():
    """All scores of label 0 are 0 and those of label 1 are 1: the worst site has the least of label 0."""
    world = _Relabelled([np.zeros(3), np.ones(5)], concentration=1.0)
    sites, coverage = world.draw(np.random.default_rng(0))
    shares = np.random.default_rng(0).dirichlet(np.ones(2), size=len(sites))
    assert coverage(0.5) == pytest.approx(shares[:, 0].min())
    assert coverage(1.0) == pytest.approx(1)
    for scores, share in zip(sites, shares, strict=True):
        assert abs(np.mean(scores == 0) - share[0]) < hoeffding_limit(scores.size)


def test_the_figure_has_a_curve_for_each_method_and_names_the_odd_sites(rows):
    figure = figures.heterogeneity(rows)
    figure.canvas.draw()
    assert len(figure.axes) == 4
    methods = distinct(select(rows, panel=LABELS), "method")
    for axes in figure.axes[:3]:
        assert set(methods) <= {line.get_label() for line in axes.lines}
    assert figure.axes[2].xaxis_inverted()
    named = {row["site"] for row in rows if row["panel"] == WHO and row["stands_out"]}
    assert {text.get_text() for text in figure.axes[3].texts} == {f"site {site}" for site in named}
    assert {"03", "11"} <= named
