"""What travels in a round: the plan one way, the report the other, both read with
suspicion.
"""

import zlib

import pytest

import fedconformal as fc
from fedconformal import rounds

PLAN = fc.plan(n_sites=3, n_points=20, confidence_level=0.8)
REPORT = fc.report(PLAN, range(20), site="A")


def test_a_plan_and_a_report_come_back_as_they_were():
    assert rounds.unpack_plan(rounds.pack_plan(PLAN)) == PLAN
    assert rounds.unpack_report(REPORT.to_json(indent=None)) == REPORT


@pytest.mark.parametrize(
    ("packed", "reason"),
    [
        (None, "carries no plan"),
        ("text", "carries no plan"),
        (zlib.compress(b"{}")[:-1], "cut short"),
        (zlib.compress(b"{}") + b"more", "not alone"),
        (zlib.compress(b" " * (fc.Plan.limit.largest + 1)), "too large"),
        (zlib.compress(b"{}"), "not a plan"),
    ],
)
def test_what_is_no_plan_is_refused(packed, reason):
    with pytest.raises(fc.DocumentError, match=reason):
        rounds.unpack_plan(packed)


@pytest.mark.parametrize(
    ("packed", "reason"),
    [
        (None, "carries no report"),
        (b"{}", "carries no report"),
        ("x" * (rounds.longest_report(PLAN) + 1), "more than 65536"),
        ("{}", "not a report"),
    ],
)
def test_what_is_no_report_is_refused(packed, reason):
    with pytest.raises(fc.DocumentError, match=reason):
        rounds.unpack_report(packed)


def test_a_report_on_many_groups_may_be_as_long_as_it_takes():
    labels = [f"{'a class with a long name ' * 7}{i}" for i in range(300)]
    plan = fc.plan(groups=dict.fromkeys(labels), confidence_level=0.5)
    packed = fc.report(
        plan, range(300), groups=labels, site="A", policy=fc.SitePolicy.unlimited()
    ).to_json(indent=None)
    assert len(packed) > rounds.longest_report(PLAN)
    with pytest.raises(fc.DocumentError, match="more than 65536"):
        rounds.unpack_report(packed)
    assert rounds.unpack_report(packed, longest=rounds.longest_report(plan)).site == "A"
