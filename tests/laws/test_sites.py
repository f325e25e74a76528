"""Distributions of what sites send, and the arguments of a coverage law read as blocks
of sites.
"""

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.laws import OrderStatistics, Shifted
from fedconformal.laws._coverage import group_sites


def square(c):
    return np.asarray(c) ** 2


@pytest.fixture
def one_number():
    return OrderStatistics(np.array([5, 8, 3]), np.array([5, 7, 4]))


@pytest.fixture
def two_numbers():
    return OrderStatistics(np.array([5, 8, 3]), np.array([[2, 5], [7, 9], [4, 4]]))


def test_a_shifted_site_is_seen_through_its_distortion(one_number, two_numbers):
    c = np.array([0.3, 0.8])
    for base in (one_number, two_numbers):
        shifted = Shifted(base, [square, square, square])
        assert shifted.below(c) == pytest.approx(base.below(c**2))
        assert (shifted.sends_infinity == base.sends_infinity).all()


@pytest.mark.parametrize("wrong", [lambda c: 2 * c, lambda c: c * np.nan])
def test_a_distortion_must_be_a_probability(one_number, wrong):
    with pytest.raises(ValueError, match=r"a distortion must map \[0, 1\] to \[0, 1\]"):
        Shifted(one_number, [square, wrong, square]).below(np.array([0.3, 0.9]))


SITES = {"n_sites": 2, "n_points": 5, "local_rank": 1, "server_rank": 1}


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({**SITES, "n_sites": 0}, ValueError, "n_sites must be >= 1"),
        ({**SITES, "local_rank": 1.5}, TypeError, "local_rank must be a whole number"),
        ({**SITES, "server_rank": 0}, ValueError, "server_rank must be >= 1"),
        ({**SITES, "max_faulty": 2}, ValueError, "max_faulty must be between 0 and 1"),
        (
            {"n_points": [5, "6"], "local_rank": 1, "server_rank": 1},
            TypeError,
            "n_points must hold whole",
        ),
        (
            {"n_points": [5, 6], "local_rank": [1, 2, 3], "server_rank": 1},
            ValueError,
            "local_rank must agree",
        ),
        (
            {"n_points": [100] * 10, "local_rank": (88, 92), "server_rank": 12},
            ValueError,
            (
                r"sites, 10, got 2 ranks \(several ranks at each site are nested:"
                r" \[\(88, 92\)\] \* 10\)"
            ),
        ),
        (
            {"n_points": [100, 100], "local_rank": (88, 92), "server_rank": 2},
            ValueError,
            (
                r"one rank for each site, or nested, \[\(88, 92\)\] \* 2; got the tuple"
                r" \(88, 92\)"
            ),
        ),
        (
            {**SITES, "local_rank": [(1, 2)] * 3},
            ValueError,
            "must agree on the sites, got local_rank 3, n_sites 2",
        ),
        (
            {**SITES, "local_rank": [(1, 2), (3, 2)]},
            ValueError,
            r"local_rank\[1\] must be strictly increasing",
        ),
        (
            {**SITES, "local_rank": [(1, 2), (3, 2.5)]},
            TypeError,
            r"local_rank\[1\] must hold whole numbers",
        ),
        (
            {**SITES, "local_rank": [(1, 2), ()]},
            ValueError,
            r"local_rank\[1\] must be a non-empty",
        ),
        ({**SITES, "weights": [1, 0]}, ValueError, r"weights\[1\] must be >= 1, got 0"),
        (
            {**SITES, "weights": 0.5},
            TypeError,
            "weights must be a whole number >= 1, got 0.5",
        ),
        (
            {**SITES, "weights": [(1, 2), 1]},
            ValueError,
            r"weights\[0\] must be one number or one for each of the",
        ),
        (
            {**SITES, "local_rank": [(1, 2)] * 2, "weights": [(1, 2), (1, 2, 3)]},
            ValueError,
            (
                r"weights\[1\] must be one number or one for each of the site's 2"
                r" ranks, got \(1, 2, 3\)"
            ),
        ),
        (
            {**SITES, "weights": [2**53, 1]},
            ValueError,
            "weights must add up to at most",
        ),
    ],
)
def test_a_refusal_names_the_argument_in_one_line(arguments, error, words):
    with pytest.raises(error, match=words) as refusal:
        fc.CoverageLaw(**arguments)
    assert "\n" not in str(refusal.value)


def test_equal_sites_form_a_block():
    sites, counts, weights = group_sites(
        None, [5, 7, 5], [(4, 5), (7,), (4, 5)], [2, 3, 2], None
    )
    assert sites.n_points.tolist() == [5, 7]
    assert sites.local_ranks.tolist() == [[4, 5], [7, 8]]
    assert counts.tolist() == [2, 1]
    assert weights.tolist() == [[2, 2], [3, 0]]


def test_ranks_above_the_size_are_all_the_same():
    sites, counts, _ = group_sites(2, 5, [6, 99], 1, None)
    assert sites.local_ranks.tolist() == [6]
    assert counts.tolist() == [2]


@pytest.mark.parametrize(
    "ranks",
    [
        [(4, 5)] * 3,
        np.array([[4, 5]] * 3),
        [[4, 5], (4, 5), np.array([4, 5])],
        [(4, 5)],
    ],
)
def test_several_ranks_per_site_may_be_written_as_one_likes(ranks):
    sites, counts, weights = group_sites(3, 5, ranks, 1, None)
    assert sites.local_ranks.tolist() == [[4, 5]]
    assert counts.tolist() == [3]
    assert weights.tolist() == [[1, 1]]


def test_sites_that_differ_otherwise_are_told_apart():
    def h(c):
        return c**2

    sites, counts, _ = group_sites(3, 5, 4, 1, [h, None, h])
    assert counts.tolist() == [1, 1, 1]
    assert sites.below(np.array([0.5])).shape == (1, 3)
