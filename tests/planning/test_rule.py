"""The rule that sites of unknown size apply: exact arithmetic, so every site finds the
same ranks.
"""

import math
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedconformal.documents import MOST_NUMBERS, RankRule
from fedconformal.planning import ranks_of_rule, usual_spacing
from fedconformal.planning.promises import _step

NINE = Fraction(9, 10)
fractions = st.fractions(
    min_value=Fraction(1, 1000), max_value=Fraction(999, 1000), max_denominator=1000
)


def usual(numbers):
    return RankRule(share=NINE, numbers=numbers, spacing=usual_spacing(numbers))


@given(st.integers(1, 10**6), fractions)
def test_one_number_is_split_conformal_prediction(n, share):
    assert ranks_of_rule(RankRule(share=share), NINE, n) == (
        math.ceil(share * (n + 1)),
    )


@given(
    st.integers(1, 10**12),
    fractions,
    fractions,
    st.integers(2, MOST_NUMBERS),
    fractions,
)
def test_several_ranks_rise_between_one_and_n_in_equal_steps(
    n, share, level, numbers, spacing
):
    ranks = ranks_of_rule(
        RankRule(share=share, numbers=numbers, spacing=spacing), level, n
    )
    assert len(ranks) == min(numbers, n)
    assert ranks[0] >= 1
    assert ranks[-1] <= n
    assert len({b - a for a, b in pairwise(ranks)}) <= 1
    assert all(a < b for a, b in pairwise(ranks))
    assert all(isinstance(rank, int) for rank in ranks)


@pytest.mark.parametrize("numbers", [2, 5, 20])
def test_a_site_with_too_few_scores_sends_all_it_has(numbers):
    rule = usual(numbers)
    for n in range(1, numbers + 1):
        assert ranks_of_rule(rule, NINE, n) == tuple(range(1, n + 1))


@given(st.integers(1, 10**9), fractions, st.integers(1, 200))
def test_the_step_is_rounded_up_from_four_tenths_on(n, level, tenths):
    """spacing * sqrt(n level (1 - level)), rounded in whole numbers, however large n
    is.
    """
    spacing = Fraction(tenths, 10)
    step = _step(spacing, level, n)
    square = spacing**2 * n * level * (1 - level)
    assert step >= 1
    assert step == 1 or (Fraction(5 * step - 3, 5) ** 2 <= square)
    assert square < Fraction(5 * step + 2, 5) ** 2


def test_ranks_are_the_same_everywhere():
    """These numbers are part of the format: documents hold the rule, every site applies
    it.
    """
    for numbers, n, expected in [
        (2, 100, (89, 93)),
        (3, 100, (88, 91, 94)),
        (5, 79, (68, 70, 72, 74, 76)),
        (5, 10**6, (899673, 899837, 900001, 900165, 900329)),
        (
            5,
            10**12,
            (899999671699, 899999835850, 900000000001, 900000164152, 900000328303),
        ),
    ]:
        assert ranks_of_rule(usual(numbers), NINE, n) == expected, (numbers, n)


def test_the_usual_spacing_shrinks_with_the_numbers():
    spacings = [usual_spacing(numbers) for numbers in range(2, MOST_NUMBERS + 1)]
    assert spacings == sorted(spacings, reverse=True)
    assert usual_spacing(1) is None
    assert all(isinstance(spacing, Fraction) for spacing in spacings)
