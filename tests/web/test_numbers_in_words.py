"""Numbers in words never promise more than there is."""

from hypothesis import given
from hypothesis import strategies as st

from fedconformal._text import ceiling_percent, floor_percent, percent

SPACE = "\N{NO-BREAK SPACE}"


def test_lower_bounds_are_rounded_down_and_upper_ones_up():
    assert floor_percent(0.87999) == f"87.9{SPACE}%"
    assert floor_percent(0.29, digits=0) == f"29{SPACE}%"
    assert ceiling_percent(0.9001) == f"90.1{SPACE}%"
    assert percent(0.9) == f"90{SPACE}%"
    assert percent(0.9995) == f"99.95{SPACE}%"


@given(st.floats(0, 1), st.integers(0, 4))
def test_rounding_never_promises_more(value, digits):
    shown = float(floor_percent(value, digits=digits).split(SPACE)[0]) / 100
    assert shown <= value + 1e-15
    assert shown > value - 1.01 * 10.0 ** -(digits + 2)
