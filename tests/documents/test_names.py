"""Names of sites: one form for each, and what makes two of them look alike."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedconformal.documents._names import check_looks, look, proper_form


@given(st.text())
def test_the_proper_form_is_proper(name):
    form = proper_form(name)
    assert form.isprintable()
    assert form == form.strip() == unicodedata.normalize("NFC", form)
    assert proper_form(form) == form


def test_what_is_left_of_a_name_is_composed():
    assert proper_form("e\u200d\u0301") == "é"


@pytest.mark.parametrize("name", ["north", "St. Mary's", "Žďár nad Sázavou", "東京", "القاهرة", "A-1 (new)"])
def test_what_people_write_is_proper(name):
    assert proper_form(name) == name


@given(st.text(alphabet=st.characters(codec="ascii", categories=["Lu", "Ll", "Nd"])))
def test_plain_letters_differ_by_case_alone(name):
    assert look(name) == name.lower()


def test_the_two_that_do_are_named():
    with pytest.raises(ValueError, match="the sites 'north' and 'NORTH' look alike"):
        check_looks(["south", "north", "NORTH"])
