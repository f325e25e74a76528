import math
from bisect import bisect_left

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedconformal.privacy import Bins

edge_lists = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=12, unique=True).map(
    sorted
)
any_float = st.floats(allow_nan=True, allow_infinity=True)


def place_one_by_one(edges, scores):
    """The first right edge that is >= the score; the last bin if there is none."""
    counts = [0] * len(edges)
    for score in scores:
        place = (
            len(edges) - 1
            if math.isnan(score)
            else min(bisect_left(edges, score), len(edges) - 1)
        )
        counts[place] += 1
    return counts


def test_what_is_shown_of_many_edges():
    assert (
        repr(Bins([0.25, 0.5, 1.0], bounded=True))
        == "<Bins: 4 with edges 0.25, 0.5, 1.0, bounded>"
    )
    assert (
        repr(Bins.uniform(0, 5, 1000))
        == "<Bins: 1000 with edges 0.005, 0.01, ..., 5.0>"
    )


class TestEdges:
    def test_uniform_bins_end_where_they_were_told_to(self):
        assert Bins.uniform(0, 5, 100).edges == tuple(
            i * 5 / 100 for i in range(1, 101)
        )
        assert Bins.uniform(-1, 2, 3).edges == (0.0, 1.0, 2.0)
        assert Bins.uniform(0.1, 0.7, 7).edges[-1] == 0.7

    def test_log_bins_grow_by_a_constant_factor(self):
        edges = np.array(Bins.log(0.01, 100, 5).edges)
        assert (edges[0], edges[-1]) == (0.01, 100.0)
        assert edges[1:] / edges[:-1] == pytest.approx([10.0] * 4)

    def test_bins_from_a_reference_hold_equal_shares_of_it(self):
        reference = np.random.default_rng(0).exponential(size=10_000)
        bins = Bins.from_reference(reference, 20)
        assert len(bins.edges) == 20
        assert bins.edges[-1] == reference.max()
        assert bins.place(reference).tolist() == pytest.approx([500] * 20, abs=1)

    def test_ties_in_a_reference_give_fewer_bins(self):
        assert Bins.from_reference([1, 1, 1, 1, 1, 2, 3], 3).edges == (1.0, 3.0)

    def test_bins_are_values(self):
        assert Bins([0, 1]) == Bins((0.0, 1.0)) == Bins(np.array([0.0, 1.0]))
        assert hash(Bins([0, 1])) == hash(Bins([-0.0, 1]))
        assert str(Bins([-0.0, 1]).edges[0]) == "0.0"
        assert Bins([0, 1]) != Bins([0, 1], bounded=True)
        with pytest.raises(AttributeError):
            Bins([0, 1]).edges = (0.0, 2.0)

    def test_edges_are_exact_float64(self):
        assert Bins([0.1, np.float32(0.3)]).edges == (0.1, 0.30000001192092896)

    @pytest.mark.parametrize(
        ("make", "error", "words"),
        [
            (lambda: Bins([1.0]), ValueError, "edges must be at least 2, got 1"),
            (
                lambda: Bins([0, 1, 1]),
                ValueError,
                r"strictly increasing, got 1.0 then 1.0 at edges\[2\]",
            ),
            (
                lambda: Bins([0, float("nan")]),
                ValueError,
                r"edges\[1\] must be a finite number, got nan",
            ),
            (
                lambda: Bins([0, 10**400]),
                ValueError,
                r"edges\[1\] must be a finite number",
            ),
            (
                lambda: Bins([False, True]),
                TypeError,
                r"edges\[0\] must be a finite number, got False",
            ),
            (
                lambda: Bins("01"),
                TypeError,
                "edges must be a list of numbers, got '01'",
            ),
            (
                lambda: Bins([0, 1], bounded="no"),
                TypeError,
                "bounded must be True or False, got 'no'",
            ),
            (lambda: Bins.uniform(0, 1, 1), ValueError, "count must be >= 2, got 1"),
            (
                lambda: Bins.uniform(1, 1, 5),
                ValueError,
                "low must be below high, got low=1.0 and high=1.0",
            ),
            (
                lambda: Bins.uniform(-1e308, 1e308, 5),
                ValueError,
                r"\(high - low\) \* count must be a finite",
            ),
            (lambda: Bins.uniform(1, 1 + 1e-15, 50), ValueError, "strictly increasing"),
            (
                lambda: Bins.log(0, 1, 5),
                ValueError,
                "low must be above 0 for logarithmic bins, got 0.0",
            ),
            (
                lambda: Bins.from_reference([1.0, np.nan], 5),
                ValueError,
                "got 2 of which 1 are finite",
            ),
            (
                lambda: Bins.from_reference([1.0, 1.0], 5),
                ValueError,
                "distinct quantiles, all are 1.0",
            ),
            (
                lambda: Bins.from_reference(["a", "b"], 5),
                TypeError,
                "public_scores must be an array of numbers",
            ),
        ],
    )
    def test_what_is_not_a_grid_is_refused(self, make, error, words):
        with pytest.raises(error, match=words):
            make()


class TestBoundedReference:
    def test_ends_at_the_bound_and_needs_no_trick(self):
        scores = np.random.default_rng(0).random(200)
        plain, bounded = (
            Bins.from_reference(scores, 10),
            Bins.from_reference(scores, 10, bound=1.0),
        )
        assert bounded.edges == (*plain.edges[:-1], 1.0)
        assert (plain.bounded, bounded.bounded) == (False, True)

    def test_the_sample_obeys_the_bound(self):
        with pytest.raises(
            ValueError, match=r"public_scores must not exceed bound=1.0, got 1.5"
        ):
            Bins.from_reference([0.1, 0.2, 1.5], 3, bound=1.0)
        with pytest.raises(ValueError, match="bound must be a finite number, got inf"):
            Bins.from_reference([0.1, 0.2], 2, bound=np.inf)


class TestPlace:
    @given(edge_lists, st.lists(any_float, max_size=40))
    def test_every_score_goes_up_to_its_right_edge(self, edges, scores):
        scores = scores + edges + [np.nextafter(e, np.inf) for e in edges]
        counts = Bins(edges).place(scores)
        assert counts.dtype == np.int64
        assert counts.tolist() == place_one_by_one(edges, scores)

    def test_numbers_too_large_for_float64_are_clipped(self):
        scores = np.array([np.finfo(np.longdouble).max, np.finfo(np.longdouble).min])
        assert Bins([0.0, 1.0]).place(scores).tolist() == [1, 1]

    @pytest.mark.parametrize("count", [65_536, 200_001])
    def test_blocks_do_not_show(self, count):
        scores = np.random.default_rng(count).normal(size=count)
        bins = Bins(np.linspace(-2, 2, 31))
        expected = np.bincount(
            np.minimum(np.searchsorted(bins.edges, scores), 30), minlength=31
        )
        before = scores.copy()
        assert bins.place(scores).tolist() == expected.tolist()
        assert np.array_equal(scores, before)

    @pytest.mark.parametrize(
        ("scores", "error"),
        [
            (np.array([1.0, None]), TypeError),
            (["1.0"], TypeError),
            ([1j], TypeError),
            (np.array(["2020-01-01"], "datetime64[D]"), TypeError),
            ([[1.0, 2.0]], ValueError),
            (1.0, ValueError),
        ],
    )
    def test_only_type_and_shape_are_refused(self, scores, error):
        with pytest.raises(error, match="scores must be"):
            Bins([0.0, 1.0]).place(scores)

    @pytest.mark.parametrize(
        "edges",
        [
            np.geomspace(1e-300, 1e300, 50),
            [-1e308, 0.0, 1e308],
            [0.0, 5e-324, 1e-323, 1.0],
            [*np.linspace(0.5, 0.5 + 1e-9, 40), 1.0, 1e9],
            [3.0, 4.0],
        ],
        ids=["log", "huge", "tiny", "dense", "two"],
    )
    def test_a_wrong_guess_is_made_good(self, edges):
        rng = np.random.default_rng(0)
        close = [edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf)]
        spread = [rng.normal(size=300), 10.0 ** rng.uniform(-305, 305, 300)]
        scores = np.concatenate([*close, *spread, [np.nan, np.inf, -np.inf, 0.0]])
        assert Bins(edges).place(scores).tolist() == place_one_by_one(
            [*edges], scores.tolist()
        )


class TestBounded:
    def test_of_bounded_bins_the_last_holds_nothing_but_what_was_clipped(self):
        bins = Bins([0.5, 1.0], bounded=True)
        beyond = [np.nan, np.inf, np.nextafter(1.0, 2.0), 7.0]
        assert bins.place([-np.inf, 0.5, 0.6, 1.0, *beyond]).tolist() == [2, 2, 4]
        assert bins.n_bins == 3
