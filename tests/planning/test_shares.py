"""Shares as pairs of whole numbers: fractions where they are asked for."""

from fractions import Fraction

import numpy as np
import pytest

from fedconformal.planning._shares import Shares


def test_are_fractions_or_none_for_each_vector():
    shares = Shares(np.array([9, 0, 1]), np.array([10, 0, 2]))
    assert len(shares) == 3
    assert list(shares) == [Fraction(9, 10), None, Fraction(1, 2)]
    assert shares.known == [0, 2]
    assert list(Shares.none(2)) == [None, None]


@pytest.mark.parametrize("kept", [[2, 0], np.array([True, False, True])])
def test_some_of_them(kept):
    shares = Shares(np.array([9, 0, 1]), np.array([10, 0, 2]))
    assert list(shares.chosen(kept)) == [shares[i] for i in np.arange(3)[kept]]


def test_one_after_the_other_whatever_their_size():
    large = Fraction(10**30 - 1, 10**30)
    both = Shares.joined([Shares.one(Fraction(3, 4)), Shares.one(large), Shares.one(None)])
    assert list(both) == [Fraction(3, 4), large, None]
    assert both.known == [0, 1]
