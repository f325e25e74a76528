import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import fedconformal as fc
from fedconformal.documents import MAX_BYTES, schema

SCHEMAS = Path(__file__).parent.parent / "docs" / "schemas"


def plan():
    return fc.plan(n_points={"A": 30, "B": 30, "C": 50}, confidence_level=[0.8, 0.9])


def report(value=1.5, **changes):
    fields = {"plan": plan().digest, "site": "A", "n": 30, "ranks": (25,), "values": (value,)}
    return fc.Report(**{**fields, **changes})


def edited(document, **changes):
    return json.dumps({**json.loads(document.to_json()), **changes})


class TestRoundTrip:
    @pytest.mark.parametrize(
        "document",
        [
            plan(),
            fc.plan(confidence_level=0.9),
            fc.plan(n_sites=3, n_points=2, on_infeasible="ignore"),
            fc.plan(n_sites=9, n_points=40, criterion="conditional", delta=0.07, max_faulty=2, score="lac"),
            report(),
        ],
        ids=lambda document: document.kind,
    )
    def test_content_survives(self, document):
        again = type(document).from_json(document.to_json())
        assert again == document
        assert again.digest == document.digest
        assert type(document).from_json(document.to_json().encode()) == document

    @given(st.floats(allow_nan=False, allow_infinity=False))
    def test_every_finite_float_survives(self, value):
        again = fc.Report.from_json(report(value).to_json())
        assert math.copysign(1, again.value) == math.copysign(1, value)
        assert again.value == value

    def test_infinity_is_spelled_out(self):
        endless = report(math.inf, ranks=(31,))
        assert json.loads(endless.to_json())["values"] == ["Infinity"]
        assert fc.Report.from_json(endless.to_json()) == endless

    @pytest.mark.parametrize("value", [math.nan, -math.inf, "inf", True, None])
    def test_nothing_else_passes_for_a_number(self, value):
        with pytest.raises(ValidationError):
            report(value)

    def test_documents_cannot_be_changed(self):
        with pytest.raises(ValidationError, match="frozen"):
            plan().max_faulty = 1

    def test_a_changed_copy_has_a_digest_of_its_own(self):
        original = report()
        assert original.digest == report().digest
        changed = original.model_copy(update={"values": (2.0,)})
        assert changed.digest != original.digest
        assert fc.Report.from_json(changed.to_json()) == changed

    def test_equal_content_is_equal(self):
        assert plan() == plan()
        assert hash(report()) == hash(report())


class TestReader:
    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("", "Expecting value"),
            ("[1]", "object was expected, got list"),
            ("{", "Expecting"),
            ("\x00" * 10, "Expecting value"),
            (b"\xff\xfe", "utf-8"),
            ('{"a": 1, "a": 2}', "twice"),
            ('{"a": NaN}', "NaN is not allowed"),
            ('{"a": -Infinity}', "-Infinity is not allowed"),
            ('{"a": 1e999}', "too large"),
            ('{"a": ' + "9" * 5000 + "}", "not a report"),
            ("[" * 100_000, "nested too deeply"),
            ('{"a": "\\ud800"}', "not a report"),
        ],
    )
    def test_junk_gets_one_line(self, text, words):
        with pytest.raises(fc.DocumentError, match=words) as error:
            fc.Report.from_json(text)
        assert "\n" not in str(error.value)
        assert len(str(error.value)) < 300

    @pytest.mark.parametrize(
        "changes",
        [
            {"n": 31},
            {"values": [1.6]},
            {"site": "B"},
            {"digest": "sha256:" + "0" * 64},
            {"digest": None},
        ],
    )
    def test_a_change_breaks_the_digest(self, changes):
        with pytest.raises(fc.DocumentError, match="digest"):
            fc.Report.from_json(edited(report(), **changes))

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"extra": 1}, "extra: Extra inputs"),
            ({"version": 2}, "version"),
            ({"format": "fedconformal/plan"}, "format"),
            ({"n": "30"}, "n: "),
            ({"n": 30.0}, "n: "),
            ({"n": 0}, "n: "),
            ({"values": ["NaN"]}, "finite number or the word"),
            ({"values": [1.0, 2.0]}, "same length"),
            ({"ranks": [40]}, "between 1 and n"),
            ({"ranks": [31]}, "value Infinity"),
            ({"site": ""}, "site"),
            ({"site": "A\nB"}, "site"),
            ({"signature": "x"}, "signature"),
        ],
    )
    def test_wrong_content_is_named(self, changes, words):
        with pytest.raises(fc.DocumentError, match=words):
            fc.Report.from_json(edited(report(), **changes))

    @pytest.mark.parametrize(
        ("path", "value", "words"),
        [
            (("levels", 0, "server_rank"), 9, "server_rank must lie"),
            (("levels", 0, "server_rank"), None, "server_rank must lie"),
            (("levels", 1, "confidence_level"), 0.8, "twice"),
            (("groups", 0, "ranks"), [5], "one rank for each level"),
            (("groups", 0, "count"), 3, "number of names differ"),
            (("groups", 0, "names"), None, "all sites have names or none"),
            (("groups", 0, "names"), ["A", "C"], "stands there twice"),
            (("groups",), [], "closed plan has groups"),
            (("groups",), None, "an open plan"),
            (("max_faulty",), 2, "below half"),
            (("delta",), 0.1, "delta goes with"),
            (("names",), ["A"], "closed plan"),
            (("keys",), [], "exactly the sites"),
        ],
    )
    def test_an_inconsistent_plan_is_refused(self, path, value, words):
        content = json.loads(plan().to_json())
        place = content
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value
        with pytest.raises(fc.DocumentError, match=words):
            fc.Plan.from_json(json.dumps(content))

    def test_unnamed_sites_of_one_size_share_their_ranks(self):
        content = json.loads(fc.plan(n_points=[30, 40, 30], confidence_level=0.9).to_json())
        content["groups"][2]["ranks"] = [1]
        with pytest.raises(fc.DocumentError, match="same ranks"):
            fc.Plan.from_json(json.dumps(content))

    def test_open_plans_are_checked_too(self):
        content = json.loads(fc.plan(sites=["A"], confidence_level=0.9).to_json())
        content["expected"] = 3
        with pytest.raises(fc.DocumentError, match="not both"):
            fc.Plan.from_json(json.dumps(content))

    def test_files(self, tmp_path):
        path = tmp_path / "report.json"
        path.write_text(report().to_json())
        assert fc.Report.read(path) == report()
        with pytest.raises(fc.DocumentError, match=r"nowhere.json: No such file"):
            fc.Report.read(tmp_path / "nowhere.json")
        with pytest.raises(fc.DocumentError, match="directory"):
            fc.Report.read(tmp_path)
        path.write_bytes(b"x" * (MAX_BYTES + 1))
        with pytest.raises(fc.DocumentError, match="larger than 64 MB"):
            fc.Report.read(path)


@pytest.mark.parametrize(
    "kind", ["plan", "report", "calibration", "check", "group-plan", "group-report", "group-calibration"]
)
def test_published_schemas_are_those_of_the_code(kind):
    """``make schemas`` writes them."""
    assert json.loads((SCHEMAS / f"{kind}.schema.json").read_text()) == schema(kind)


def test_there_is_no_schema_of_anything_else():
    with pytest.raises(ValueError, match="kind must be one of"):
        schema("letter")


def test_mutated_documents_are_refused_or_equal_to_themselves():
    """A small share of ``make fuzz``."""
    from fuzz_documents import READERS, fuzz

    outcomes = fuzz(2000, seed=7)
    assert outcomes.total() == len(READERS) * 2000
    assert outcomes["read"] > 0
