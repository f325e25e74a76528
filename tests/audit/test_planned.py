"""The ranks of open plans by the auditor's own rule: those that sites find by the plan's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal.audit._planned import planned_ranks


@given(
    st.integers(1, 2**40) | st.integers(1, 60),
    st.sampled_from([0.5, 0.8, 0.9, 0.995]),
    st.integers(1, 20),
    st.sampled_from(["marginal", "stable"]),
)
def test_both_rules_agree(n, level, numbers, criterion):
    plan = fc.plan(confidence_level=level, numbers=numbers, criterion=criterion)
    assert planned_ranks(plan, n, "A") == plan.ranks_for(n, site="A")


def test_sites_that_are_not_expected():
    plan = fc.plan(sites=["A", "B"])
    assert planned_ranks(plan, 9, "A") == plan.ranks_for(9, site="A")
    with pytest.raises(ValueError, match="Z is no site of the plan"):
        planned_ranks(plan, 9, "Z")
    closed = fc.plan(n_points={"A": 40, "B": 60})
    assert planned_ranks(closed, 40, "A") == closed.ranks_for(40, site="A")
