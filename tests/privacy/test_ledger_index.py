"""The sealed map: a dict that cannot be changed behind one's back."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedconformal.privacy._ledger_index import BrokenIndexError, Index

KEYS = st.text("01ab", min_size=5, max_size=5)


def filled(items):
    nodes = {}
    index = Index(nodes)
    for key, value in items:
        index[key] = value
    return index, nodes


@given(st.lists(st.tuples(KEYS, st.text(max_size=3))), KEYS)
def test_it_is_a_map(items, other):
    index, _ = filled(items)
    expected = dict(items)
    assert {key: index.get(key) for key in expected} == expected
    assert index.get(other) == expected.get(other)


@given(st.dictionaries(KEYS, st.text(max_size=3)), st.randoms())
def test_its_nodes_do_not_depend_on_the_order(items, shuffler):
    mixed = list(items.items())
    shuffler.shuffle(mixed)
    stale = [(key, "an older value") for key, _ in mixed[::2]]
    (one, first), (two, second) = filled(items.items()), filled(stale + mixed)
    assert first == second
    assert one.root == two.root


@given(st.dictionaries(KEYS, st.text(max_size=3), min_size=1), KEYS, st.data())
def test_a_node_that_was_changed_lost_or_moved_is_noticed_or_not_needed(items, other, data):
    index, nodes = filled(items.items())
    place = data.draw(st.sampled_from(sorted(nodes)))
    kept = dict(nodes)
    change = data.draw(st.sampled_from(["lose", "empty", "swap"]))
    if change == "lose":
        del nodes[place]
    else:
        nodes[place] = "{}" if change == "empty" else nodes[data.draw(st.sampled_from(sorted(nodes)))]
    for key in {*items, other}:
        try:
            assert index.get(key) == items.get(key)
        except BrokenIndexError:
            assert nodes != kept
            assert key.startswith(place)
    if nodes != kept:
        needed = next(key for key in items if key.startswith(place))
        with pytest.raises(BrokenIndexError):
            index.get(needed)
        with pytest.raises(BrokenIndexError):
            index[needed] = "new"


def test_its_depth_is_the_logarithm_of_its_size():
    keys = [hashlib.sha256(str(i).encode()).hexdigest() for i in range(5000)]
    _, nodes = filled((key, "") for key in keys)
    assert max(map(len, nodes)) <= 7  # log16(5000) is 3.07; for these keys, which are always the same
    assert len(nodes) < 2 * len(keys)
