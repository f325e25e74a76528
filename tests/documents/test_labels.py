"""Names of sites and labels of points: one form for each, and what is refused."""

import importlib.util
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal.documents import label_text, unique_labels
from fedconformal.documents._fields import check_looks, look, proper_form
from fedconformal.documents._lookalikes import LOOKALIKES


@pytest.mark.parametrize(
    "label",
    ["", " a", "a\n", "\x1b[31m", "a\u202eb", "\ud800", "x" * 201],
)
def test_hostile_labels_are_refused(label):
    with pytest.raises(ValueError, match=r"label must be|group: "):
        fc.plan(groups={label: [30, 30]}, confidence_level=0.8)


@pytest.mark.parametrize("label", ["女", "x" * 200, "'\"\\"])
def test_other_labels_survive(label):
    plan = fc.plan(groups={label: [30, 30]}, confidence_level=0.8)
    again = fc.Plan.from_json(plan.to_json())
    assert again == plan
    sent = fc.report(again, np.arange(30.0), site="A", groups=[label] * 30)
    assert fc.Report.from_json(sent.to_json()) == sent


def test_whole_numbers_stand_for_their_digits():
    assert [label_text(label) for label in (3, np.int8(-3), "3", np.str_("a"))] == [
        "3",
        "-3",
        "3",
        "a",
    ]
    for labels in (
        [2, 10, 2],
        np.array([2, 10, 2]),
        np.array([2, 10, 2], dtype=np.uint8),
        ["2", "10", "2"],
    ):
        names, which = unique_labels(labels)
        assert [names[i] for i in which] == ["2", "10", "2"]


@pytest.mark.parametrize("label", [3.0, True, None, b"3"])
def test_nothing_else_is_a_label(label):
    with pytest.raises(TypeError, match="text or a whole number"):
        label_text(label)


@given(st.text())
def test_the_proper_form_is_proper(name):
    form = proper_form(name)
    assert form.isprintable()
    assert form == form.strip() == unicodedata.normalize("NFC", form)
    assert proper_form(form) == form


def test_what_is_left_of_a_name_is_composed():
    assert proper_form("e\u200d\u0301") == "é"


@pytest.mark.parametrize(
    "name", ["north", "St. Mary's", "Žďár nad Sázavou", "東京", "القاهرة", "A-1 (new)"]
)
def test_what_people_write_is_proper(name):
    assert proper_form(name) == name


@given(st.text(alphabet=st.characters(codec="ascii", categories=["Lu", "Ll", "Nd"])))
def test_plain_letters_differ_by_case_alone(name):
    assert look(name) == name
    check_looks({name, name[::-1]}, with_case=True)


def test_the_two_that_do_are_named():
    with pytest.raises(ValueError, match="the sites 'north' and 'NORTH' look alike"):
        check_looks(["south", "north", "NORTH"])


def test_the_table_of_lookalikes_is_that_of_its_script():
    """A later Unicode may have more of them."""
    path = Path(__file__).parents[2] / "tools" / "lookalikes.py"
    spec = importlib.util.spec_from_file_location("lookalikes", path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    pairs = set()
    for target, characters in LOOKALIKES.items():
        pairs |= {(character, target) for character in characters}
    collected = set(script.collect().items())
    assert pairs <= collected
    assert pairs == collected or unicodedata.unidata_version != "14.0.0"
    assert not any(character.isascii() for character, _ in pairs)


def test_every_target_is_its_own_look():
    """Else names would have to be looked up again and again."""
    for target in LOOKALIKES:
        assert look(target) == unicodedata.normalize("NFC", target)
