"""docs/formats.md says what the documents say: every field, and every code of an
assumption.
"""

import json
import re
from functools import reduce
from itertools import pairwise
from operator import getitem
from pathlib import Path

import numpy as np
import pytest

import fedconformal as fc
from documents.samples import forged, with_digest
from fedconformal.documents import kinds
from torture.documents import originals

PAGE = (Path(__file__).parent.parent / "docs" / "formats.md").read_text()
CODES = PAGE.partition("| code | assumption |\n")[2].partition("\n\n")[0]
SIZES = {"A": 60, "B": 60, "C": 60}


def calibrated(n_answers=2, keys=None, groups=False, **options):
    """A calibration of the first of the sites A, B and C, while the others are
    missing.
    """
    sizes = (
        {"groups": {"old": SIZES, "young": SIZES}} if groups else {"n_points": SIZES}
    )
    signed = keys and {name: key.public_key for name, key in keys.items()}
    plan = fc.plan(**sizes, keys=signed, **options)
    scores = np.random.default_rng(0).random(120 if groups else 60)
    labels = np.repeat(["old", "young"], 60) if groups else None
    names = list(SIZES)[:n_answers]
    reports = [
        fc.report(plan, scores, site=n, groups=labels, key=keys and keys[n])
        for n in names
    ]
    return fc.calibrate(plan, reports)


def private():
    privacy = fc.Privacy(10.0, fc.Bins.uniform(0, 1, 20, bounded=True))
    plan = fc.plan(n_points=SIZES, confidence_level=0.5, privacy=privacy)
    scores = {name: np.linspace(0, 1, n) for name, n in SIZES.items()}
    return fc.privacy.simulate(plan, scores, np.random.default_rng(0))


def masked(keys, folder):
    public = {name: key.public_key for name, key in keys.items()}
    privacy = fc.Privacy(10.0, fc.Bins.uniform(0, 1, 20), bearers=2)
    options = {"keys": public, "masked": True, "terms": {"model": f"sha256:{64 * 'a'}"}}
    plan = fc.plan(n_points=SIZES, confidence_level=0.5, privacy=privacy, **options)
    reports = []
    for name, key in keys.items():
        ledger = fc.Ledger.create(folder / f"{name}.ledger")
        ledger.set_budget("cases", 10)
        policy = fc.SitePolicy(
            sum_with=public.values(), min_sum_with=2, sum_record=folder / f"{name}.sums"
        )
        account = {"ledger": ledger, "dataset": "cases", "model": plan.terms.model}
        reports.append(
            fc.report(
                plan,
                np.linspace(0, 1, 60),
                site=name,
                key=key,
                policy=policy,
                **account,
            )
        )
    return fc.calibrate(plan, reports)


@pytest.fixture(scope="module")
def calibrations(tmp_path_factory):
    keys = {name: fc.SigningKey.new() for name in SIZES}
    return [
        calibrated(),
        calibrated(promise="each-site"),
        calibrated(promise="mixture"),
        calibrated(promise="new-site", confidence_level=0.5),
        calibrated(n_answers=3, max_faulty=1),
        calibrated(confidence_level=(0.8, 0.9)),
        calibrated(keys=keys, groups=True),
        calibrated(groups=True, group_by=("site", "class")),
        private(),
        masked(keys, tmp_path_factory.mktemp("sums")),
    ]


def test_the_table_has_every_code_and_no_other(calibrations):
    first_cells = [line.split(" | ")[0] for line in CODES.splitlines()[1:]]
    codes = {code for cell in first_cells for code in re.findall(r"`([a-z-]+)`", cell)}
    assert {code for found in calibrations for code in found.assumptions} == codes


def test_every_code_has_a_sentence(calibrations):
    for found in calibrations:
        sentences = fc.protocol.assumption_sentences(found)
        assert len(sentences) == len(found.assumptions)
        assert not any("does not know" in sentence for sentence in sentences)


def test_every_kind_of_document_has_its_section_and_schema():
    headings = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    for kind in kinds():
        assert kind.capitalize() in headings
        assert f"(schemas/{kind}.schema.json)" in PAGE


@pytest.mark.parametrize("kind", kinds())
def test_the_tables_name_every_field(kind):
    """Every field of a document and of its parts stands in the section of its kind; a
    report is shown too.
    """
    schema = fc.documents.schema(kind)
    sections = [match.start() for match in re.finditer(r"^## ", PAGE, re.MULTILINE)] + [
        len(PAGE)
    ]
    (section,) = [
        PAGE[start:end]
        for start, end in pairwise(sections)
        if PAGE[start:].startswith(f"## {kind.capitalize()}\n")
    ]
    inside = (
        ("CalibrationPart", "Received", "Refusal")
        if kind == "calibration"
        else schema["$defs"]
    )
    parts = [schema, *(schema["$defs"][name] for name in inside)]
    for field in {name for part in parts for name in part["properties"]} - {
        "format",
        "version",
        "digest",
    }:
        assert re.search(rf'[`"]{field}["`]', section), field


DOCUMENTS = originals()
SAMPLES = [next(each for each in DOCUMENTS if each.kind == kind) for kind in kinds()]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda each: each.kind)
def test_schemas_accept_every_document_and_name_its_message(document):
    """Whoever reads documents without this package can check them first."""
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(fc.documents.schema(document.kind))
    content = json.loads(document.to_json())
    validator.validate(content)
    for path in [path for path in places(content) if path[-1] == "kind"]:
        wrong = changed(content, path, lambda held, key: _put(held, key, "letter"))
        assert not validator.is_valid(json.loads(wrong))


def places(content, path=()):
    """All places in a document, from the outside in."""
    for key in content if isinstance(content, dict) else range(len(content)):
        yield (*path, key)
        if isinstance(content[key], dict | list):
            yield from places(content[key], (*path, key))


def distinct_places():
    """The first place of each kind in all documents, whatever its index: document,
    content, path.
    """
    seen = set()
    for document in DOCUMENTS:
        content = json.loads(document.to_json())
        for path in places(content):
            kind = (
                document.kind,
                *(step for step in path if isinstance(step, str)),
                isinstance(path[-1], int),
            )
            if kind not in seen:
                seen.add(kind)
                yield document, content, path


def changed(content, path, change):
    """A copy in which the change was made to what holds the last step of the path; with
    its digest.
    """
    copy = json.loads(json.dumps(content))
    holder = copy
    for step in path[:-1]:
        holder = holder[step]
    change(holder, path[-1])
    return json.dumps(with_digest(copy))


def refusal(kind, text):
    with pytest.raises(fc.DocumentError) as caught:
        kind.from_json(text)
    assert "\n" not in str(caught.value)
    return str(caught.value)


class TestStrict:
    """Unknown fields, missing fields, fields that occur twice, NaN, overflow, wrong
    types: refused.
    """

    @pytest.mark.parametrize("document", SAMPLES, ids=kinds())
    @pytest.mark.parametrize("field", ["format", "version"])
    def test_a_file_without_format_or_version_is_no_document(self, document, field):
        content, kind = json.loads(document.to_json()), type(document)
        assert list(content)[:2] == ["format", "version"]
        right = content[field]
        assert (
            refusal(kind, changed(content, (field,), dict.pop))
            == f"not a {kind.kind}: {field}: is missing"
        )
        for wrong in (None, True, 2, 1.0, [right], "fedconformal/other"):
            said = refusal(
                kind,
                changed(
                    content,
                    (field,),
                    lambda holder, key, w=wrong: holder.update({key: w}),
                ),
            )
            shown = (
                "list" if isinstance(wrong, list) else repr(wrong)
            )  # which may be nested too deeply
            assert said == f"not a {kind.kind}: {field}: must be {right!r}, got {shown}"

    def test_nor_is_a_calibration_whose_plan_has_none(self):
        found = next(each for each in DOCUMENTS if each.kind == "calibration")
        content = json.loads(found.to_json())
        for field in ("format", "version"):
            said = refusal(fc.Calibration, changed(content, ("plan", field), dict.pop))
            assert said == f"not a plan: {field}: is missing"

    @pytest.mark.parametrize("document", SAMPLES, ids=kinds())
    def test_a_document_of_one_kind_is_none_of_another(self, document):
        for other in {type(each) for each in SAMPLES} - {type(document)}:
            assert f", not a {other.kind}" in refusal(other, document.to_json())

    @pytest.mark.parametrize("document", SAMPLES, ids=kinds())
    @pytest.mark.parametrize("digest", [1, "sha256:" + "0" * 64])
    def test_the_digest_must_be_right(self, document, digest):
        content = json.loads(document.to_json())
        assert with_digest(content)["digest"] == content["digest"] == document.digest
        assert "digest" in refusal(
            type(document), json.dumps({**content, "digest": digest})
        )
        del content["digest"]
        assert "has no digest" in refusal(type(document), json.dumps(content))

    @pytest.mark.parametrize("document", SAMPLES, ids=kinds())
    @pytest.mark.parametrize(
        ("more", "words"),
        [
            ('"x": NaN', "NaN"),
            ('"x": 1e999', "1e999"),
            ('"version": 1', "a field occurs twice"),
        ],
    )
    def test_no_number_is_nan_or_overflows_and_no_field_occurs_twice(
        self, document, more, words
    ):
        text = document.to_json(indent=None).replace(
            '"version": 1', f'"version": 1, {more}'
        )
        assert words in refusal(type(document), text)

    def test_no_field_is_unknown_anywhere(self):
        for document, content, path in distinct_places():
            if isinstance(path[-1], str) and path[-2:-1] != ("parameters",):
                text = changed(
                    content,
                    (*path[:-1], "colour"),
                    lambda held, key: _put(held, key, "red"),
                )
                assert "Extra inputs are not permitted" in refusal(type(document), text)

    @pytest.mark.slow
    def test_a_missing_field_is_refused_or_has_its_default(self):
        """Nothing is guessed: what is read says what was written, and no more."""
        missed = 0
        for document, content, path in distinct_places():
            text = changed(content, path, lambda holder, key: holder.pop(key))
            try:
                again = type(document).from_json(text)
            except fc.DocumentError as error:
                missed += "Field required" in str(error) or "is missing" in str(error)
            else:
                assert json.loads(again.to_json()) == json.loads(text)
        assert missed > 40

    @pytest.mark.slow
    def test_a_value_of_another_type_is_refused(self):
        """Whole numbers pass for floats in JSON; null is the default of what may be
        left out.
        """
        others = {"bool": True, "number": 1.5, "text": "x", "list": [], "object": {}}
        types = {
            bool: "bool",
            int: "number",
            float: "number",
            str: "text",
            list: "list",
            dict: "object",
        }
        for document, content, path in distinct_places():
            if "parameters" in path or path[-1] == "digest":
                continue
            found = reduce(getitem, path, content)
            for name, other in others.items():
                if found not in (None, "Infinity") and name != types[type(found)]:
                    wrong = changed(
                        content,
                        path,
                        lambda held, key, other=other: _put(held, key, other),
                    )
                    refusal(type(document), wrong)

    @pytest.mark.parametrize(
        ("path", "words"),
        [
            ("levels.0.confidence_level", "must be an exact number"),
            ("message.epsilon", "must be an exact number"),
            ("message.edges.0", "valid number"),
        ],
    )
    def test_infinity_is_for_values_and_thresholds_only(self, path, words):
        found = next(
            each
            for each in DOCUMENTS
            if each.kind == "plan" and each.message.kind == "curve"
        )
        assert words in refusal(
            fc.Plan, forged(found, {f"designs.0.{path}": "Infinity"})
        )


def _put(holder, key, value):
    holder[key] = value
