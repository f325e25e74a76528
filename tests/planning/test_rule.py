"""The rule that sites of unknown size apply: exact arithmetic, so every site finds the same ranks."""

import math
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedconformal.planning import MOST_NUMBERS, RankRule, usual_spacing

NINE = Fraction(9, 10)
fractions = st.fractions(min_value=Fraction(1, 1000), max_value=Fraction(999, 1000), max_denominator=1000)


@given(st.integers(1, 10**6), fractions)
def test_one_number_is_split_conformal_prediction(n, share):
    assert RankRule(share, NINE).ranks(n) == (math.ceil(share * (n + 1)),)


@given(st.integers(1, 10**12), fractions, fractions, st.integers(2, MOST_NUMBERS), fractions)
def test_several_ranks_rise_between_one_and_n_in_equal_steps(n, share, level, numbers, spacing):
    ranks = RankRule(share, level, numbers, spacing).ranks(n)
    assert len(ranks) == min(numbers, n)
    assert ranks[0] >= 1
    assert ranks[-1] <= n
    assert len({b - a for a, b in pairwise(ranks)}) <= 1
    assert all(a < b for a, b in pairwise(ranks))
    assert all(isinstance(rank, int) for rank in ranks)


@pytest.mark.parametrize("numbers", [2, 5, 20])
def test_a_site_with_too_few_scores_sends_all_it_has(numbers):
    rule = RankRule(NINE, NINE, numbers, usual_spacing(numbers))
    for n in range(1, numbers + 1):
        assert rule.ranks(n) == tuple(range(1, n + 1))


@given(st.integers(1, 10**9), fractions, st.integers(1, 200))
def test_the_step_is_rounded_up_from_four_tenths_on(n, level, tenths):
    """spacing * sqrt(n level (1 - level)), rounded in whole numbers, however large n is."""
    spacing = Fraction(tenths, 10)
    step = RankRule(NINE, level, 2, spacing)._step(n)
    square = spacing**2 * n * level * (1 - level)
    assert step >= 1
    assert step == 1 or (Fraction(5 * step - 3, 5) ** 2 <= square)
    assert square < Fraction(5 * step + 2, 5) ** 2


def test_ranks_are_the_same_everywhere():
    """These numbers are part of the format: documents hold the rule, every site applies it."""
    for numbers, n, expected in [
        (2, 100, (89, 93)),
        (3, 100, (88, 91, 94)),
        (5, 79, (68, 70, 72, 74, 76)),
        (5, 10**6, (899673, 899837, 900001, 900165, 900329)),
        (5, 10**12, (899999671699, 899999835850, 900000000001, 900000164152, 900000328303)),
    ]:
        assert RankRule(NINE, NINE, numbers, usual_spacing(numbers)).ranks(n) == expected, (numbers, n)


def test_the_usual_spacing_shrinks_with_the_numbers():
    spacings = [usual_spacing(numbers) for numbers in range(2, MOST_NUMBERS + 1)]
    assert spacings == sorted(spacings, reverse=True)
    assert usual_spacing(1) is None
    assert all(isinstance(spacing, Fraction) for spacing in spacings)
