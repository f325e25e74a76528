"""The published JSON Schemas."""

import json
from pathlib import Path

import pytest

from fedconformal.documents import kinds, schema

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
    with_default = {name for name, field in found["properties"].items() if "default" in field}
    assert with_default & required == {"format", "version"}  # which say what a document is
