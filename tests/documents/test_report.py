"""The Report: everything that leaves a site."""

import json

import numpy as np
import pytest

import fedconformal as fc
from documents.samples import changed, report, with_digest
from fedconformal.documents import ReportPart, Sent


@pytest.fixture(scope="module")
def grouped():
    plan = fc.plan(groups={"old": [30, 40], "young": [20, 20]}, confidence_level=[0.7, 0.8])
    labels = ["old"] * 30 + ["young"] * 20
    return fc.report(plan, np.arange(50.0), site="A", groups=labels)


def test_with_groups_it_is_read_by_label(grouped):
    assert grouped.n == 50
    assert set(grouped.by_label) == {"old", "young"}
    assert grouped["old"].n == 30
    for name in ("value", "values", "ranks"):
        assert getattr(grouped, name) == {label: getattr(grouped[label], name) for label in ("old", "young")}
    assert grouped.value["old"] == tuple(values[0] for values in grouped["old"].values)
    assert fc.Report.from_json(grouped.to_json()) == grouped


def test_a_level_may_be_empty_where_nothing_was_asked_for():
    part = ReportPart(n=30, levels=(Sent(ranks=(), values=()), Sent(ranks=(25,), values=(2.0,))))
    assert part.values == ((), (2.0,))
    sent = changed(report(), parts=(part,))
    assert fc.Report.from_json(sent.to_json()) == sent


@pytest.mark.parametrize(
    "forge",
    [
        lambda c: c["parts"].reverse(),
        lambda c: c["parts"][0].pop("label"),
        lambda c: c["parts"][0].update(label="zebra"),
    ],
)
def test_parts_have_different_labels_in_order(grouped, forge):
    content = json.loads(grouped.to_json())
    forge(content)
    with pytest.raises(fc.DocumentError, match="labels must be different, in alphabetical order"):
        fc.Report.from_json(json.dumps(with_digest(content)))
