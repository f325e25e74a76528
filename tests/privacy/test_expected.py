"""What to expect of private reports, against every histogram and against simulation."""

from fractions import Fraction
from itertools import product
from math import factorial, prod

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.privacy import (
    Balanced,
    PrivateRelease,
    Releases,
    Slopes,
    draws_for,
    even,
    expected_coverage,
    ranks_seen,
    simulate_releases,
)
from fedconformal.privacy._shapes import spread_of
from fedconformal.privacy.analyses import Tight
from fedconformal.privacy.mechanisms import Exponential, PermuteAndFlip
from privacy.histograms import all_counts

AIMS = [Slopes(Fraction(3, 4), Fraction(2, 3)), Balanced(Fraction(3, 4))]
MASSES = np.array([0.5, 0.0, 0.3, 0.2])


def release_of(n_bins, mechanism=None, aim=AIMS[0]):
    return PrivateRelease(Fraction(2), n_bins, mechanism or PermuteAndFlip(), Tight(), aim)


def by_hand(release, sizes, masses, k):
    """The law of the k-th smallest release, over every histogram of every site."""
    laws = []
    for n in sizes:
        table = all_counts(n, len(masses))
        chance = [
            factorial(n) * prod(p**c / factorial(c) for p, c in zip(masses, row.tolist(), strict=True))
            for row in table
        ]
        laws.append(np.array(chance) @ release.pmf(table))
    law = np.zeros(len(masses))
    for bins in product(range(len(masses)), repeat=len(sizes)):
        law[sorted(bins)[k - 1]] += prod(each[b] for each, b in zip(laws, bins, strict=True))
    return law


@pytest.mark.parametrize("mechanism", [PermuteAndFlip(), Exponential()], ids=repr)
@pytest.mark.parametrize("aim", AIMS, ids=str)
def test_small_federations_are_exact(mechanism, aim):
    release = release_of(4, mechanism, aim)
    for k in (1, 2, 3):
        releases = [Releases(n, MASSES, release) for n in (4, 6)]
        found = expected_coverage(releases, release, np.array([2, 1]), k)
        law = by_hand(release, (4, 4, 6), MASSES, k)
        assert found.chance == pytest.approx(law, abs=1e-13)
        assert found.coverage.tolist() == pytest.approx([0.5, 0.5, 0.8, 1.0])
        assert found.mean() == pytest.approx(float(law @ found.coverage), abs=1e-13)
        assert found.error == 0.0


def test_where_histograms_are_many_they_are_drawn_and_the_error_is_stated(monkeypatch):
    """The draws' mean is off by 6 standard errors with probability 2e-9."""
    release = release_of(4)
    exact = expected_coverage([Releases(12, MASSES, release)], release, np.array([5]), 4)
    monkeypatch.setattr("fedconformal.privacy._expected._MOST_CELLS", 0)
    drawn = expected_coverage([Releases(12, MASSES, release)], release, np.array([5]), 4)
    assert exact.error == 0.0 < drawn.error < 0.003
    assert drawn.mean() != exact.mean()
    assert abs(drawn.mean() - exact.mean()) < 6 * drawn.error
    assert drawn.std() == pytest.approx(exact.std(), rel=0.05)


@pytest.mark.nightly
def test_the_stated_error_is_that_of_the_draws():
    """The spread over 60 seeds is within a factor of 1.6 of the stated one: by chi-square, but for 1e-6."""
    release, means, errors = release_of(20, aim=Slopes(Fraction(9, 10), Fraction(7, 10))), [], []
    for seed in range(60):
        found = expected_coverage([Releases(100, even(20), release, seed)], release, np.array([7]), 5)
        means.append(found.mean())
        errors.append(found.error)
    assert np.mean(errors) / 1.6 < np.std(means) < 1.6 * np.mean(errors)


def test_the_same_question_has_the_same_answer():
    release = release_of(100)
    first, second = (
        expected_coverage([Releases(300, even(100), release)], release, np.array([5]), 4) for _ in range(2)
    )
    assert np.array_equal(first.chance, second.chance)


def test_more_votes_than_sites_cover_everything():
    release = release_of(4)
    found = expected_coverage([Releases(9, MASSES, release)], release, np.array([3]), 4)
    assert (found.mean(), found.std(), found.error) == (1.0, 0.0, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scores", "n", "epsilon", "n_bins"),
    [
        (None, 10, 5.26, 100),
        ("half-normal", 200, 10, 10),
        pytest.param("gamma", 50, 1, 100, marks=pytest.mark.nightly),
        pytest.param("half-normal", 500, 0.5, 100, marks=pytest.mark.nightly),
        pytest.param("gamma", 10_000, 1, 10, marks=pytest.mark.nightly),
    ],
)
def test_is_within_half_a_percent_of_simulation(scores, n, epsilon, n_bins):
    """10 sites, 600 runs, whose mean is off by 5 of its standard errors with probability 6e-7."""
    bins = fc.Bins.uniform(0, 10, n_bins)
    plan = fc.plan(10, n, criterion="marginal", privacy=fc.Privacy(epsilon=epsilon, bins=bins))
    (cost,) = fc.privacy.expected_cost(plan, scores)
    assert cost.error < 0.0017
    masses = even(n_bins) if scores is None else spread_of(scores, 10.0).masses(bins.edges, bins.n_bins)
    rng, runs = np.random.default_rng(8), 600
    counts = rng.multinomial(n, masses, size=(runs, 10))
    kept = np.sort(simulate_releases(counts, plan.releases[0], rng=rng), axis=1)[:, plan.server_rank - 1]
    coverage = np.minimum(np.cumsum(masses), 1.0)[kept]
    error = coverage.std() / np.sqrt(runs)
    assert abs(cost.expected - coverage.mean()) < 0.005 + 5 * error


@pytest.mark.parametrize(("draws", "m"), [(512, 1), (512, 100), (4000, 100), (600, 10_000), (17, 3)])
def test_ranks_that_are_seen_are_those_for_which_the_draws_are_enough(draws, m):
    assert [k for k in range(1, m + 1) if draws_for(k, m) <= draws] == [*ranks_seen(draws, m)]


@pytest.mark.slow
def test_the_largest_of_very_many_releases_is_not_judged():
    """A few thousand draws say nothing of the largest of 10,000 releases, which must not seem the best."""
    plan = fc.plan(10_000, 1000, privacy=fc.Privacy(epsilon=1.0, bins=fc.Bins.uniform(0, 1, 100)))
    assert 20 < plan.server_rank < 9_980
