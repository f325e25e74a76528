"""Scores of a user's own family of sets: the same as a score's own, rounded up to the
settings.
"""

from itertools import product

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.scores import LAC, Absolute, Nested

inf = np.inf


def around(x, t):
    return np.stack([x - t, x + t], axis=1)


def between(sets, y):
    return (sets[:, 0] <= y) & (y <= sets[:, 1])


def round_up(values, settings):
    """Round to the next setting, +inf above all."""
    return np.append(settings, inf)[np.searchsorted(settings, values)]


def test_intervals_around_a_prediction_are_the_absolute_residual_rounded_up():
    """All numbers are multiples of 1/8, so that no float is rounded."""
    rng = np.random.default_rng(0)
    settings = np.array([0.0, 0.125, 0.5, 1.0, 2.5, 4.0])
    x, y = rng.integers(-40, 40, size=(2, 2_000)) / 8
    expected = round_up(Absolute().score(y, x), settings)
    nested = Nested(around, between, settings)
    np.testing.assert_array_equal(nested.score(y, x), expected)
    assert set(expected) == {*settings, inf}


def test_label_sets_are_the_score_of_labels_rounded_up():
    rng = np.random.default_rng(1)
    p = rng.dirichlet([1, 1, 1, 1], size=500)
    y, settings = rng.integers(4, size=500), np.linspace(0.1, 0.9, 9)
    nested = Nested(LAC().set, lambda sets, y: sets[np.arange(len(y)), y], settings)
    np.testing.assert_array_equal(
        nested.score(y, p), round_up(LAC().score(y, p), settings)
    )


def test_a_set_holds_an_outcome_exactly_if_its_score_is_at_most_the_threshold():
    """Also in floats that are rounded, and for thresholds between settings."""
    rng = np.random.default_rng(2)
    settings = np.sort(rng.exponential(size=30))
    x, y = rng.normal(size=(2, 1_000))
    y[:30] = x[:30] + settings
    nested = Nested(around, between, settings)
    scores = nested.score(y, x)
    for threshold in [*settings, *(settings + 1e-3), settings[0] * 1.5, inf]:
        np.testing.assert_array_equal(
            between(nested.set(x, threshold), y), scores <= threshold
        )


def test_sets_may_have_any_form():
    """Sets of words, in lists."""
    order = {"a": ["x", "y", "z"], "b": ["z", "x", "y"]}

    def first(rows, t):
        return [set(order[row][: 3 if t == inf else int(t)]) for row in rows]

    nested = Nested(
        first,
        lambda sets, y: [word in s for s, word in zip(sets, y, strict=True)],
        [1, 2],
    )
    assert nested.score(["x", "x", "y"], ["a", "b", "b"]).tolist() == [1, 2, inf]
    assert nested.set(["b"], 2.9) == [{"z", "x"}]


def test_coverage_is_at_least_the_exact_mean():
    """Enumerate: uniform scores on 12 cells, exact; a grid that merges cells only
    raises the coverage.
    """
    cells, nested = np.arange(12) / 4, Nested(around, between, [0.5, 1.5, 2.0, 2.75])
    fine = Nested(around, between, cells)
    m, n, rank, votes = 2, 2, 2, 1
    exact = float(fc.laws.exact_mean([n] * m, [rank] * m, votes))
    means = []
    for score in (fine, nested):
        values = score.score(cells, np.zeros(12))
        covered = []
        for draw in product(range(12), repeat=m * n):
            sent = np.sort(values[list(draw)].reshape(m, n), axis=1)[:, rank - 1]
            covered.append(np.mean(values <= np.sort(sent)[votes - 1]))
        means.append(np.mean(covered))
    assert exact < means[0] < means[1]


def test_sets_that_are_not_nested_are_refused():
    moving = Nested(lambda x, t: around(x, t) + (10 if t == 2 else 0), between, [1, 2])
    with pytest.raises(
        ValueError,
        match=r"^sets must be nested, each within the next; violated in 1 of 2 rows",
    ):
        moving.score(np.array([0.0, 10.0]), np.zeros(2))
    bounded = Nested(lambda x, t: around(x, min(t, 5)), between, [1, 2])
    with pytest.raises(
        ValueError,
        match=r"^sets must hold every outcome at t = inf; violated in 1 of 2 rows",
    ):
        bounded.score(np.array([0.0, 10.0]), np.zeros(2))
    with pytest.raises(ValueError, match="t = inf; violated in 1 of 2 rows"):
        Nested(around, between, [1]).score(np.array([0.0, np.nan]), np.zeros(2))


@pytest.mark.parametrize(
    "settings", [[], [1, 1], [2, 1], [1, inf], [np.nan], [-inf, 0]]
)
def test_settings_must_be_finite_and_rise(settings):
    with pytest.raises(
        ValueError, match=r"^settings must be finite and rise, got \[.*\]$"
    ):
        Nested(around, between, settings)


def test_other_mistakes_are_told_in_one_line():
    nested = Nested(around, between, [1, 2])
    for threshold in (0.5, np.nan):
        with pytest.raises(
            ValueError,
            match=(
                rf"^threshold must be at least the first setting, 1, got {threshold}$"
            ),
        ):
            nested.set(np.zeros(2), threshold)
    for wrong in (
        lambda sets, y: sets,
        lambda sets, y: np.ones(len(y)),
        lambda sets, y: True,
    ):
        with pytest.raises(
            ValueError,
            match=(
                r"^contains must return 2 booleans, one for each outcome, got .* t = 1$"
            ),
        ):
            Nested(around, wrong, [1, 2]).score(np.zeros(2), np.zeros(2))


def test_a_federation_calibrates_a_family():
    rng = np.random.default_rng(3)
    nested = Nested(around, between, np.linspace(0.05, 4, 80))
    cases = {site: rng.normal(size=(2, 100)) for site in "ABCDE"}
    calibration = fc.conformalize(
        {site: nested.score(y, x) for site, (y, x) in cases.items()}
    )
    exact = fc.conformalize(
        {site: Absolute().score(y, x) for site, (y, x) in cases.items()}
    )
    assert calibration.threshold == round_up(exact.threshold, nested.settings[:-1])
    assert nested.set(np.zeros(1), calibration.threshold)[0, 1] == calibration.threshold
