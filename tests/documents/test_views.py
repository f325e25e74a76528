"""One value per site, kept as runs of equal values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal.documents import PerSite


def test_it_behaves_like_a_sequence():
    ranks = fc.plan(n_points=[120, 40, 40, 377], confidence_level=0.9).local_ranks
    assert ranks != ["x", None, 1.5, 2]
    assert ranks == [np.int64(rank) for rank in ranks]
    assert ranks != [rank + 1 for rank in ranks]
    assert ranks == list(ranks)
    assert ranks[1:3] == [ranks[1], ranks[2]]
    assert np.asarray(ranks).tolist() == list(ranks)
    assert ranks != [1]
    assert ranks != 7
    assert "2 x" in repr(ranks)
    with pytest.raises(IndexError, match="4 sites"):
        ranks[4]


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3)), min_size=1, max_size=8))
def test_it_is_the_sequence_it_stands_for(runs):
    counts, values = zip(*runs, strict=True)
    view, plain = PerSite(counts, values), np.repeat(values, counts).tolist()
    assert list(view) == plain
    assert [view[i] for i in range(len(view))] == plain
    assert [view[-i - 1] for i in range(len(view))] == plain[::-1]
    assert view[::2] == plain[::2]
    assert np.asarray(view).tolist() == plain
