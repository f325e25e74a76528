"""Coverage and width as MAPIE has them, infinite and empty sets, and exact intervals
per site.
"""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mapie.metrics import classification as mapie_classification
from mapie.metrics import regression as mapie_regression
from scipy import stats

from fedconformal import metrics
from fedconformal.metrics import clopper_pearson, coverage_by_site
from fedconformal.scores import CQR, EmptySetWarning

inf = np.inf
EMPTY, LINE = [inf, -inf], [-inf, inf]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def y(rng):
    return rng.normal(size=101)


@pytest.fixture
def intervals(rng):
    center, width = rng.normal(size=(101, 1)), rng.random((101, 3))
    return np.stack([center - width, center + width], axis=1)


@pytest.fixture
def labels(rng):
    return rng.integers(4, size=101)


@pytest.fixture
def sets(rng):
    return rng.random((101, 4, 3)) < 0.6


# --- MAPIE as oracle ------------------------------------------------------------------


def test_coverage_and_width_of_intervals_are_mapies(rng, y, intervals):
    """Several levels, one level, and outcomes that differ by level."""
    for outcomes, some in (
        (y, intervals),
        (y, intervals[:, :, 0]),
        (rng.normal(size=(101, 3)), intervals),
    ):
        ours = metrics.regression_coverage_score(outcomes, some)
        np.testing.assert_array_equal(
            ours, mapie_regression.regression_coverage_score(outcomes, some)
        )
    widths = mapie_regression.regression_mean_width_score(intervals)
    np.testing.assert_allclose(
        metrics.regression_mean_width_score(intervals), widths, rtol=1e-14
    )


def test_coverage_and_width_of_label_sets_are_mapies(rng, labels, sets):
    by_level = rng.integers(4, size=(101, 3))
    for outcomes, some in ((labels, sets), (labels, sets[:, :, 0]), (by_level, sets)):
        ours = metrics.classification_coverage_score(outcomes, some)
        np.testing.assert_array_equal(
            ours, mapie_classification.classification_coverage_score(outcomes, some)
        )
    for some in (sets, sets[:, :, :1]):
        widths = mapie_classification.classification_mean_width_score(some)
        np.testing.assert_array_equal(
            metrics.classification_mean_width_score(some), widths
        )
    assert (
        metrics.classification_mean_width_score(sets[:, :, 0]).tolist()
        == widths.tolist()
    )


# --- infinite and empty sets ----------------------------------------------------------


def test_the_whole_line_covers_everything_and_the_empty_interval_nothing():
    y = [0.0, inf, 0.0, inf, -inf]
    covered = metrics.covered_by_intervals(y, [LINE, LINE, EMPTY, EMPTY, EMPTY])
    assert covered.tolist() == [True, True, False, False, False]


def test_ends_belong_to_the_interval():
    assert metrics.covered_by_intervals([1.0, 2.0, 2.5], [[1.0, 2.0]] * 3).tolist() == [
        True,
        True,
        False,
    ]


def test_mean_width_counts_infinite_intervals_and_empty_ones_as_zero():
    assert metrics.regression_mean_width_score([LINE, [0.0, 1.0], EMPTY]).tolist() == [
        inf
    ]
    assert metrics.regression_mean_width_score([[0.0, 1.0], [0.0, inf]]).tolist() == [
        inf
    ]
    assert metrics.regression_mean_width_score([EMPTY, [0.0, 3.0], EMPTY]).tolist() == [
        1.0
    ]
    assert metrics.regression_mean_width_score([EMPTY]).tolist() == [0.0]
    assert metrics.regression_mean_width_score([[inf, inf], [-inf, -inf]]).tolist() == [
        0.0
    ]


def test_empty_label_sets_cover_nothing_and_have_width_zero():
    sets = [[False, False], [True, True]]
    assert metrics.covered_by_sets([0, 1], sets).tolist() == [False, True]
    assert metrics.classification_mean_width_score(sets).tolist() == [1.0]


# --- with the scores ------------------------------------------------------------------


def test_covered_by_intervals_is_score_at_most_threshold(y, rng):
    prediction = np.stack([rng.normal(size=101), rng.normal(size=101)], axis=1)
    scores = CQR().score(y, prediction)
    thresholds = [-inf, np.sort(scores)[10], np.sort(scores)[90], inf]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmptySetWarning)
        intervals = CQR().set(prediction, thresholds)
    covered = metrics.covered_by_intervals(y, intervals)
    np.testing.assert_array_equal(covered, scores[:, np.newaxis] <= thresholds)
    assert metrics.regression_coverage_score(y, intervals).tolist() == [
        0,
        11 / 101,
        91 / 101,
        1,
    ]


# --- coverage by site -----------------------------------------------------------------


def test_coverage_by_site_counts_each_site():
    covered = [True, False, True, True, True, False]
    sites = ["B", "A", "B", "A", "B", "C"]
    table = coverage_by_site(covered, sites)
    counts = [(row.site, row.n, row.covered, row.coverage) for row in table]
    assert counts == [("A", 2, 1, 0.5), ("B", 3, 3, 1.0), ("C", 1, 0, 0.0)]
    for row in table:
        exact = stats.binomtest(row.covered, row.n).proportion_ci(0.95, method="exact")
        assert (row.low, row.high) == pytest.approx((exact.low, exact.high), rel=1e-12)


@given(data=st.data(), n=st.integers(1, 2000), confidence=st.floats(0.5, 0.999))
def test_clopper_pearson_ends_where_the_tails_are_half_the_error(data, n, confidence):
    k = data.draw(st.integers(0, n))
    low, high = clopper_pearson(k, n, confidence=confidence)
    tail = (1 - confidence) / 2
    if k > 0:
        assert stats.binom.sf(k - 1, n, low) == pytest.approx(tail, rel=1e-8)
    if k < n:
        assert stats.binom.cdf(k, n, high) == pytest.approx(tail, rel=1e-8)


@pytest.mark.parametrize("n", [1, 5, 23])
def test_clopper_pearson_holds_the_probability_often_enough_whatever_it_is(n):
    k = np.arange(n + 1)
    low, high = clopper_pearson(k, n, confidence=0.9)
    for p in np.linspace(0, 1, 201):
        inside = (low <= p) & (p <= high)
        assert stats.binom.pmf(k, n, p)[inside].sum() >= 0.9 - 1e-12


# --- refusals -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y_true", "y_intervals", "message"),
    [
        (
            [1.0],
            [[0.0, 1.0]] * 2,
            r"y_true must have shape \(2,\) or \(2, 1\), got \(1,\)",
        ),
        (
            [[1.0] * 2],
            np.zeros((1, 2, 3)),
            r"y_true must have shape \(1,\) or \(1, 3\), got \(1, 2\)",
        ),
        (
            [np.nan, 1.0],
            [[0.0, 1.0]] * 2,
            r"y_true must not be nan; violated in 1 of 2 rows \(first: row 0",
        ),
        (
            [1.0],
            [[0.0, np.nan]],
            "y_intervals must not hold nan; violated in 1 of 1 rows",
        ),
        (
            [1.0],
            [[0.0, 1.0, 2.0]],
            r"y_intervals must have shape \(n, 2\) or \(n, 2, n_levels\), got \(1, 3\)",
        ),
        ([1.0], [0.0, 1.0], r"y_intervals must have shape .* got \(2,\)"),
        (
            [],
            np.empty((0, 2)),
            r"y_intervals must have at least one row, got shape \(0, 2\)",
        ),
        (["a"], [[0.0, 1.0]], "y_true must be an array of numbers"),
    ],
)
def test_interval_metrics_refuse(y_true, y_intervals, message):
    with pytest.raises(ValueError, match=message):
        metrics.regression_coverage_score(y_true, y_intervals)


@pytest.mark.parametrize(
    ("y_true", "y_pred_set", "message"),
    [
        (
            [0],
            [[True, False]] * 2,
            r"y_true must have shape \(2,\) or \(2, 1\), got \(1,\)",
        ),
        ([2], [[True, False]], "y_true must be class indices from 0 to 1; .* row 0"),
        ([-1], [[True, False]], "y_true must be class indices from 0 to 1"),
        ([0.5], [[True, False]], "y_true must be class indices from 0 to 1"),
        (
            [0],
            [[0.3, 0.7]],
            r"y_pred_set must be True or False; .* row 0, got \[0.3, 0.7\]",
        ),
        (
            [0],
            [True, False],
            r"y_pred_set must have shape \(n, n_classes\) or .* got \(2,\)",
        ),
        ([], np.empty((0, 2), dtype=bool), "y_pred_set must have at least one row"),
    ],
)
def test_set_metrics_refuse(y_true, y_pred_set, message):
    with pytest.raises(ValueError, match=message):
        metrics.classification_coverage_score(y_true, y_pred_set)


@pytest.mark.parametrize(
    ("covered", "sites", "confidence", "message"),
    [
        (
            [True],
            ["A", "B"],
            0.95,
            r"sites must have shape \(1,\) to match covered, got \(2,\)",
        ),
        (
            [[True]],
            ["A"],
            0.95,
            r"covered must have shape \(n,\), one level at a time, got \(1, 1\)",
        ),
        ([0.5], ["A"], 0.95, "covered must be True or False; .* row 0, got 0.5"),
        (5, "A", 0.95, r"covered must have shape \(n,\)"),
        ([True, True], [1.0, np.nan], 0.95, "sites must not be nan; .* row 1"),
        (
            [True, True],
            np.array(["A", None], dtype=object),
            0.95,
            "sites must be labels of one kind",
        ),
        ([True], ["A"], 1.0, "confidence must lie strictly between 0 and 1, got 1.0"),
        ([True], ["A"], 0.0, "confidence must lie strictly between 0 and 1, got 0.0"),
        (
            [True],
            ["A"],
            np.nan,
            "confidence must lie strictly between 0 and 1, got nan",
        ),
    ],
)
def test_coverage_by_site_refuses(covered, sites, confidence, message):
    with pytest.raises(ValueError, match=message):
        coverage_by_site(covered, sites, confidence=confidence)


@pytest.mark.parametrize(("k", "n"), [(-1, 3), (4, 3), (0, 0), (0.5, 3), (1, 2.5)])
def test_clopper_pearson_refuses_impossible_counts(k, n):
    with pytest.raises(
        ValueError, match="integers with 0 <= successes <= n and n >= 1"
    ):
        clopper_pearson(k, n)


def test_labels_are_those_of_the_columns():
    sets, classes = [[True, False], [True, False]], ["sick", "well"]
    assert metrics.covered_by_sets(
        ["well", "sick"], sets, classes=classes
    ).tolist() == [False, True]
    assert metrics.classification_coverage_score(
        ["well", "sick"], sets, classes=classes
    ).tolist() == [0.5]
    assert metrics.covered_by_sets([5, 3], sets, classes=[3, 5]).tolist() == [
        False,
        True,
    ]
    for y, labels, message in [
        (["well", "sick"], None, "for labels, give classes"),
        (
            ["well", "ill"],
            classes,
            r"y_true must hold labels of classes.*row 1, got ill",
        ),
        (["well", "sick"], ["sick"], "classes must be the 2 different labels"),
        (["well", "sick"], ["sick", "sick"], "classes must be the 2 different labels"),
        (["well"], classes, r"y_true must have shape \(2,\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            metrics.covered_by_sets(y, sets, classes=labels)
