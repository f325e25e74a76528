"""What a guarantee rests on: codes in the document, sentences for people."""

import json

import pytest

import fedconformal as fc
from documents.samples import with_digest
from fedconformal.planning.promises import Population
from fedconformal.protocol import _calibrate, assumption_codes, assumption_sentences
from protocol.sending import SIZES, federation

PRIVATE = fc.Privacy(epsilon=2.0, bins=fc.Bins.uniform(0, 1, 100))
UNSIGNED = {"ties", "as-planned", "not-authenticated"}
KEYS = {"A": "ed25519:" + "2" * 64, "B": "ed25519:" + "1" * 64}


@pytest.fixture(scope="module")
def found():
    plan = fc.plan(n_points=SIZES, confidence_level=0.9)
    return fc.calibrate(plan, federation(plan, SIZES)[1:])


class TestCodes:
    def test_are_in_the_document(self, found):
        assert found.assumptions == (
            "alike",
            "ties",
            "silence",
            "as-planned",
            "not-authenticated",
        )
        assert json.loads(found.to_json())["assumptions"] == list(found.assumptions)

    @pytest.mark.parametrize(
        ("options", "n_missing", "codes"),
        [
            ({"n_sites": 3}, 0, UNSIGNED | {"alike"}),
            (
                {"n_sites": 3, "max_faulty": 1},
                0,
                {"alike", "ties", "faulty", "not-authenticated"},
            ),
            ({"promise": "each-site"}, 0, UNSIGNED | {"each-site-alike"}),
            (
                {"n_points": {"A": 60, "B": 60}, "promise": "mixture"},
                0,
                UNSIGNED | {"known-mixture"},
            ),
            ({"promise": "new-site"}, 1, UNSIGNED | {"sites-exchangeable", "silence"}),
            ({"n_sites": ["A", "B"], "keys": KEYS}, 0, {"alike", "ties", "as-planned"}),
            (
                {"confidence_level": [0.8, 0.9]},
                0,
                UNSIGNED | {"alike", "several-levels"},
            ),
            (
                {"n_sites": 5, "n_points": 500, "privacy": PRIVATE},
                0,
                UNSIGNED | {"alike", "private"},
            ),
            ({"curve": PRIVATE.bins}, 0, UNSIGNED | {"alike"}),
            (
                {"groups": {"a": None}, "n_sites": ["A", "B"], "keys": KEYS},
                0,
                {
                    "alike",
                    "labels-first",
                    "ties",
                    "silence",
                    "as-planned",
                    "signed-whole",
                },
            ),
        ],
    )
    def test_say_what_applies(self, options, n_missing, codes):
        found = assumption_codes(fc.plan(**options), n_missing)
        assert set(found) == codes
        assert len(found) == len(codes)


class TestSentences:
    def test_rewording_one_changes_no_digest(self, found, monkeypatch):
        before, digest = assumption_sentences(found), found.digest
        monkeypatch.setitem(_calibrate._SENTENCES, "ties", "Ties do no harm.")
        monkeypatch.setattr(Population, "assumed", lambda self: "All cases are alike.")
        plan = fc.plan(n_points=SIZES, confidence_level=0.9)
        again = fc.calibrate(plan, federation(plan, SIZES)[1:])
        assert again.digest == digest
        assert plan.digest == found.plan.digest
        assert fc.Calibration.from_json(found.to_json()).digest == digest
        after = assumption_sentences(again)
        assert after[:2] == ("All cases are alike.", "Ties do no harm.")
        assert after[2:] == before[2:]

    def test_every_code_of_this_version_has_one(self, found):
        for code in (*_calibrate._SENTENCES, "alike", "each-site-alike"):
            (sentence,) = assumption_sentences(
                found.model_copy(update={"assumptions": (code,)})
            )
            assert sentence.endswith(".")
            assert "does not know" not in sentence

    def test_a_code_of_another_version_is_said_to_be_unknown(self, found):
        content = with_digest(
            {**json.loads(found.to_json()), "assumptions": ["new-thing"]}
        )
        other = fc.Calibration.from_json(json.dumps(content))
        assert assumption_sentences(other) == (
            "An assumption that this version does not know: new-thing.",
        )

    def test_numbers_are_those_of_the_calibration(self, found):
        assert any(
            "1 site did not answer; whether a site answers" in words
            for words in assumption_sentences(found)
        )
        plan = fc.plan(n_sites=9, n_points=50, max_faulty=2)
        faulty = fc.calibrate(plan, federation(plan, dict.fromkeys("ABCDEFG", 50)))
        words = " ".join(assumption_sentences(faulty))
        assert "At most 2 of the reports are wrong" in words
        assert "2 sites did not answer" in words
