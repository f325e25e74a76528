"""docs/formats.md says what the documents say: every code of an assumption, in its own words."""

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.documents import kinds

PAGE = (Path(__file__).parent.parent / "docs" / "formats.md").read_text()
SENTENCES = dict(re.findall(r"^\| `([a-z-]+)` \| ([A-Z…].*\.) \|$", PAGE, re.MULTILINE))
SIZES = {"A": 60, "B": 60, "C": 60}


def calibrated(n_answers=2, keys=None, groups=False, **wishes):
    """A calibration of the first of the sites A, B and C, while the others are silent."""
    sizes = {"groups": {"old": SIZES, "young": SIZES}} if groups else {"n_points": SIZES}
    signed = keys and {name: key.public_key for name, key in keys.items()}
    plan = fc.plan(**sizes, keys=signed, on_infeasible="ignore", **wishes)
    scores = np.random.default_rng(0).random(120 if groups else 60)
    labels = np.repeat(["old", "young"], 60) if groups else None
    return fc.calibrate(
        plan,
        [
            fc.report(plan, scores, site=name, groups=labels, key=keys and keys[name])
            for name in list(SIZES)[:n_answers]
        ],
    )


def private(tmp_path):
    privacy = fc.Privacy(epsilon=10.0, bins=fc.Bins.uniform(0, 1, 20))
    plan = fc.plan(n_points=SIZES, confidence_level=0.5, privacy=privacy)
    ledger = fc.Ledger.create(tmp_path / "ledger.db")
    ledger.set_budget("scores", 30)
    reports = [
        fc.report(plan, np.linspace(0, 1, n), site=name, ledger=ledger, dataset="scores")
        for name, n in SIZES.items()
    ]
    return fc.calibrate(plan, reports)


@pytest.fixture
def calibrations(tmp_path):
    keys = {name: fc.SigningKey.new() for name in SIZES}
    return [
        calibrated(),
        calibrated(promise="each-site"),
        calibrated(promise="mixture"),
        calibrated(promise="new-site"),
        calibrated(n_answers=3, max_faulty=1),
        calibrated(confidence_level=(0.8, 0.9)),
        calibrated(keys=keys, groups=True),
        private(tmp_path),
    ]


def test_the_table_has_every_code_and_no_other(calibrations):
    assert {code for found in calibrations for code in found.assumptions} == SENTENCES.keys()


def test_the_table_has_the_sentences(calibrations):
    """An ellipsis stands for what depends on the calibration; sentences of groups may be worded otherwise."""
    for found in calibrations:
        sentences = fc.protocol.assumption_sentences(found)
        for code, sentence in zip(found.assumptions, sentences, strict=True):
            pattern = ".+".join(map(re.escape, SENTENCES[code].split("…")))
            assert re.fullmatch(pattern, sentence) or (found.plan.is_grouped and code in {"alike", "silence"})


def test_every_kind_of_document_has_its_section_and_schema():
    headings = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    for kind in kinds():
        assert kind.capitalize() in headings
        assert f"(schemas/{kind}.schema.json)" in PAGE


@pytest.mark.parametrize("kind", kinds())
def test_the_tables_name_every_field(kind):
    """Every field of a document and of its parts stands in the section of its kind; a report is shown."""
    schema = fc.documents.schema(kind)
    sections = [match.start() for match in re.finditer(r"^## ", PAGE, re.MULTILINE)] + [len(PAGE)]
    (section,) = [
        PAGE[start:end]
        for start, end in pairwise(sections)
        if PAGE[start:].startswith(f"## {kind.capitalize()}\n")
    ]
    parts = [
        schema,
        *(schema["$defs"][name] for name in schema.get("$defs", {}) if name == f"{kind.capitalize()}Part"),
    ]
    for field in {name for part in parts for name in part["properties"]} - {"format", "version", "digest"}:
        assert re.search(rf'[`"]{field}["`]', section), field
