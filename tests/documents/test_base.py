"""What all documents share: content that survives, a reader that trusts nothing,
digests.
"""

import json
import math
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import fedconformal as fc
from documents.samples import edited, forged, plan, report, with_digest
from fedconformal.documents import Design, PerSite, kinds, schema

PRIVATE = fc.plan(
    5, 300, confidence_level=0.8, privacy=fc.Privacy(2.0, fc.Bins.uniform(0, 5, 20))
)
GROUPED = fc.plan(
    groups={"old": {"A": 30, "B": 20}, "young": {"A": 25, "B": 0}}, confidence_level=0.8
)


class TestRoundTrip:
    @pytest.mark.parametrize(
        "document",
        [
            plan(),
            fc.plan(confidence_level=0.9),
            fc.plan(
                n_sites=9,
                n_points=40,
                criterion="conditional",
                delta=0.07,
                max_faulty=2,
                score="lac",
            ),
            PRIVATE,
            GROUPED,
            report(),
        ],
        ids=lambda document: document.kind,
    )
    def test_content_survives(self, document):
        again = type(document).from_json(document.to_json())
        assert again == document
        assert again.digest == document.digest
        assert type(document).from_json(document.to_json().encode()) == document
        assert type(document).from_json(document.to_json(indent=None)) == document

    @given(st.floats(allow_nan=False, allow_infinity=False))
    def test_every_finite_float_survives(self, value):
        again = fc.Report.from_json(report(value).to_json())
        (again,) = again.payload.levels[0].values
        assert again == value
        zero = math.copysign(1, value) if value else 1.0  # there is one zero
        assert math.copysign(1, again) == zero

    def test_infinity_is_spelled_out(self):
        endless = report(math.inf, ranks=(31,))
        assert json.loads(endless.to_json())["parts"][0]["payload"]["levels"][0][
            "values"
        ] == ["Infinity"]
        assert fc.Report.from_json(endless.to_json()) == endless

    @pytest.mark.parametrize("value", [math.nan, -math.inf, True])
    def test_nothing_else_passes_for_a_number(self, value):
        with pytest.raises(ValidationError):
            report(value)

    def test_documents_cannot_be_changed(self):
        with pytest.raises(ValidationError, match="frozen"):
            plan().keys = ()
        with pytest.raises(ValidationError, match="frozen"):
            plan().designs[0].max_faulty = 1

    def test_equal_content_is_equal(self):
        same = fc.plan(
            n_points={"A": 30, "B": 30, "C": 50}, confidence_level=[0.8, 0.9]
        )
        assert (plan().digest, plan()[0.9].law) != (
            None,
            None,
        )  # what is remembered makes no difference
        assert same == plan()
        assert hash(report()) == hash(report())
        scored = [fc.plan(n_sites=3, n_points=30, score="raps") for _ in range(2)]
        assert len({*scored, plan(), same}) == 2


class TestReader:
    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("", "Expecting value"),
            ("[1]", "object was expected, got list"),
            (b"\xff\xfe", "utf-8"),
            ('{"a": 1, "a": 2}', "twice"),
            ('{"a": NaN}', "NaN is not allowed"),
            ('{"a": 1e999}', "too large"),
            ('{"a": ' + "9" * 5000 + "}", "not a report"),
            ("[" * 50_000, "nested too deeply"),
            ('{"a": "\\ud800"}', "not a report"),
        ],
    )
    def test_junk_gets_one_line(self, text, words):
        with pytest.raises(fc.DocumentError, match=words) as error:
            fc.Report.from_json(text)
        assert "\n" not in str(error.value)
        assert len(str(error.value)) < 300

    @pytest.mark.parametrize(
        ("path", "value"),
        [
            (("parts", 0, "n"), 31),
            (("parts", 0, "payload", "levels", 0, "values"), [1.6]),
            (("site",), "B"),
        ],
    )
    def test_a_change_breaks_the_digest(self, path, value):
        with pytest.raises(fc.DocumentError, match="digest"):
            fc.Report.from_json(edited(report(), *path, value=value))

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"values": [1.0, 2.0]}, "same length"),
            ({"ranks": [40]}, "between 1 and n"),
            ({"ranks": [31]}, "value Infinity"),
        ],
    )
    def test_what_does_not_fit_together_is_named(self, changes, words):
        text = forged(
            report(),
            {f"parts.0.payload.levels.0.{name}": new for name, new in changes.items()},
        )
        with pytest.raises(fc.DocumentError, match=words):
            fc.Report.from_json(text)

    @pytest.mark.parametrize(
        ("path", "value", "words"),
        [
            (("extra",), 1, "extra: Extra inputs"),
            (("parts", 0, "n"), "30", "n: "),
            (("parts", 0, "n"), 0, "n: "),
            (
                ("parts", 0, "payload", "levels", 0, "values"),
                ["NaN"],
                "finite number or the word",
            ),
            (("parts", 0, "payload"), {"kind": "letter"}, "kind must be one of"),
            (
                ("parts", 0, "payload", "kind"),
                "curve",
                "levels: Extra inputs|counts: Field required",
            ),
            (("parts",), [], "parts"),
            (("site",), "A\nB", "site"),
            (("signature",), "x", "signature"),
        ],
    )
    def test_wrong_content_is_named(self, path, value, words):
        with pytest.raises(fc.DocumentError, match=words):
            fc.Report.from_json(edited(report(), *path, value=value))

    def test_files(self, tmp_path):
        path = tmp_path / "report.json"
        path.write_text(report().to_json())
        assert fc.Report.read(path) == report()
        with pytest.raises(fc.DocumentError, match=r"nowhere.json: No such file"):
            fc.Report.read(tmp_path / "nowhere.json")
        with pytest.raises(fc.DocumentError, match="directory"):
            fc.Report.read(tmp_path)
        path.write_bytes(b"x" * (fc.Report.limit.largest + 1))
        with pytest.raises(
            fc.DocumentError, match=r"report.json: not a report: larger than 4 MB"
        ):
            fc.Report.read(path)


class LaterDesign(Design):
    """A design as some later version might have it: with one field more."""

    rounds: int = 1


class LaterPlan(fc.Plan):
    """A plan of that version, which has a field more itself."""

    designs: tuple[LaterDesign, ...]
    blinding: Literal["none", "half"] = "none"


PLANS = [plan(), GROUPED, PRIVATE]


class TestDefaults:
    """A field that has its default is not written: later versions may add some, and
    digests stay.
    """

    @pytest.mark.parametrize("document", PLANS, ids=["named", "grouped", "private"])
    def test_a_later_version_reads_files_of_this_one_with_their_digest(self, document):
        later = LaterPlan.from_json(document.to_json())
        assert later.digest == document.digest
        assert json.loads(later.to_json()) == json.loads(document.to_json())
        assert (later.blinding, {design.rounds for design in later.designs}) == (
            "none",
            {1},
        )

    @pytest.mark.parametrize("path", [("blinding",), ("designs", 0, "rounds")])
    def test_what_is_new_changes_the_digest_and_is_refused_here(self, path):
        value = "half" if path == ("blinding",) else 2
        text = edited(plan(), *path, value=value)
        with pytest.raises(fc.DocumentError, match="does not match its digest"):
            LaterPlan.from_json(text)
        text = json.dumps(with_digest(json.loads(text)))
        assert LaterPlan.from_json(text).digest != plan().digest
        with pytest.raises(fc.DocumentError, match=f"{path[-1]}: Extra inputs"):
            fc.Plan.from_json(text)

    @pytest.mark.parametrize(
        ("path", "value"),
        [
            (("designs", 0, "max_faulty"), 0),
            (("terms",), {}),
            (("designs", 0, "sites", 0, "asked"), True),
            (("designs", 0, "message", "levels", 0, "votes"), []),
        ],
    )
    def test_a_default_may_be_spelled_out(self, path, value):
        spelled = fc.Plan.from_json(edited(plan(), *path, value=value))
        assert spelled == plan()
        assert spelled.digest == plan().digest
        assert spelled.to_json() == plan().to_json()

    def test_nothing_that_has_its_default_is_written(self):
        content = json.loads(plan().to_json())
        assert content.keys() == {"format", "version", "designs", "digest"}
        assert content["designs"][0].keys() == {
            "promise",
            "criterion",
            "sites",
            "message",
            "levels",
        }


SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"


@pytest.mark.parametrize("kind", kinds())
def test_published_schemas_are_those_of_the_code(kind):
    """``make schemas`` writes them."""
    assert json.loads((SCHEMAS / f"{kind}.schema.json").read_text()) == schema(kind)


def test_there_are_no_others():
    assert {path.name for path in SCHEMAS.glob("*.schema.json")} == {
        f"{kind}.schema.json" for kind in kinds()
    }
    with pytest.raises(ValueError, match="kind must be one of"):
        schema("letter")


@pytest.mark.parametrize("kind", kinds())
def test_what_has_a_default_is_not_required(kind):
    found = schema(kind)
    required = set(found["required"])
    assert {"format", "version", "digest"} <= required
    with_default = {
        name for name, field in found["properties"].items() if "default" in field
    }
    assert with_default & required == {
        "format",
        "version",
    }  # which say what a document is


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3)), min_size=1, max_size=8)
)
def test_it_is_the_sequence_it_stands_for(runs):
    counts, values = zip(*runs, strict=True)
    view, plain = PerSite(counts, values), np.repeat(values, counts).tolist()
    assert list(view) == plain
    assert [view[i] for i in range(len(view))] == plain
    assert [view[-i - 1] for i in range(len(view))] == plain[::-1]
    assert view[::2] == plain[::2]
    assert np.asarray(view).tolist() == plain
    with pytest.raises(IndexError, match=f"{len(plain)} site"):
        view[len(plain)]


def test_a_view_shows_its_runs():
    assert repr(PerSite((2, 1), (7, 8))) == "PerSite(2 x 7, 1 x 8)"
