"""The Report, everything that leaves a site, and the Check of new cases inside the
published sets.
"""

import json
from fractions import Fraction

import numpy as np
import pytest

import fedconformal as fc
from documents.samples import changed, report, with_digest
from fedconformal.documents import Check, RanksPayload, ReportPart, Sent


@pytest.fixture(scope="module")
def grouped():
    plan = fc.plan(
        groups={"old": [30, 40], "young": [20, 20]}, confidence_level=[0.7, 0.8]
    )
    labels = ["old"] * 30 + ["young"] * 20
    return fc.report(plan, np.arange(50.0), site="A", groups=labels)


def test_with_groups_it_is_read_by_label(grouped):
    assert grouped.n == 50
    assert set(grouped.by_group) == {"old", "young"}
    assert grouped.by_group["old"].n == 30
    assert len(grouped.by_group["old"].payload.levels) == 2
    with pytest.raises(ValueError, match="this report has groups: see by_group"):
        _ = grouped.payload
    assert fc.Report.from_json(grouped.to_json()) == grouped


def test_a_level_may_be_empty_where_nothing_was_asked_for():
    payload = RanksPayload(
        levels=(Sent(ranks=(), values=()), Sent(ranks=(25,), values=(2.0,)))
    )
    sent = changed(report(), parts=(ReportPart(n=30, payload=payload),))
    assert fc.Report.from_json(sent.to_json()) == sent


@pytest.mark.parametrize(
    "forge",
    [
        lambda c: c["parts"].reverse(),
        lambda c: c["parts"][0].pop("group"),
        lambda c: c["parts"][0].update(group="zebra"),
    ],
)
def test_parts_have_different_labels_in_order(grouped, forge):
    content = json.loads(grouped.to_json())
    forge(content)
    with pytest.raises(
        fc.DocumentError, match="labels must be different, in alphabetical order"
    ):
        fc.Report.from_json(json.dumps(with_digest(content)))


DIGEST = "sha256:" + "0" * 64


def check(**changes):
    fields = {
        "calibration": DIGEST,
        "site": "A",
        "n": 25,
        "epsilon": None,
        "covered": (20, 25),
    }
    return Check(**{**fields, **changes})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"covered": (26,)}, "between 0 and n = 25"),
        ({"covered": ()}, "covered"),
        ({"n": 0}, "n"),
        ({"epsilon": Fraction(10**9)}, "epsilon"),
        ({"calibration": "x"}, "calibration"),
    ],
)
def test_what_makes_no_sense_is_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        check(**changes).check()
