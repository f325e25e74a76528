"""Who casts how many votes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedconformal.laws._votes import Votes


def votes(counts, weights):
    return Votes(np.array(counts), np.array(weights))


def test_equal_votes_are_one_kind_and_empty_blocks_none():
    kinds = votes([1, 2, 1, 0], [[3], [3], [3], [5]]).kinds
    assert [(count, cast.tolist(), blocks.tolist()) for count, cast, blocks in kinds] == [
        (1, [3], [0, 2]),
        (2, [3], [1]),
    ]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), min_size=1, max_size=5), st.data())
def test_the_largest_sites_and_how_few_are_enough(blocks, data):
    some = votes([count for count, _ in blocks], [[weight] for _, weight in blocks])
    every = sorted((weight for count, weight in blocks for _ in range(count)), reverse=True)
    n = data.draw(st.integers(0, len(every)))
    assert some.largest(n) == sum(every[:n])
    needed = data.draw(st.integers(1, sum(every) + 1))
    few = next((i for i in range(1, len(every) + 1) if sum(every[:i]) >= needed), len(every) + 1)
    assert some.fewest_sites(needed) == few


def test_sums_that_can_occur():
    assert [sums.tolist() for sums in votes([1, 2], [[2, 5], [10, 0]]).sums] == [
        [0],
        [0, 2, 7],
        [0, 2, 7, 10, 12, 17],
        [0, 2, 7, 10, 12, 17, 20, 22, 27],
    ]
    few = votes([1, 2], [[2, 5], [10, 0]])
    far = votes([1, 2, 1], [[2, 5], [10, 0], [10**6, 0]])  # too many votes to mark each
    assert [sums.tolist() for sums in far.sums[:4]] == [sums.tolist() for sums in few.sums]
    assert far.sums[4].tolist() == [*few.sums[3].tolist(), *(10**6 + few.sums[3]).tolist()]
    assert few.n_sums == 1 + 3 + 6 + 9
    assert votes([65], [[1]]).sums is None
    assert votes([1] * 20, [[2**i] for i in range(20)]).sums is None
