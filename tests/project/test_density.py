"""Statements hold one thought each: figures in ``density.json`` may only fall."""

import ast
import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("density", ROOT / "tools" / "density.py")
density = importlib.util.module_from_spec(spec)
spec.loader.exec_module(density)

RECORD = json.loads(density.RECORD.read_text())
MEASURED = density.measure()


@pytest.mark.parametrize("kind", ["comprehensions", "conditional", "parallel"])
def test_statements_do_not_get_denser(kind):
    """After a change that makes them simpler: ``python tools/density.py --write``."""
    allowed = RECORD["per 1,000 statements"][kind]
    assert MEASURED["per 1,000 statements"][kind] <= allowed


def test_long_functions_are_those_on_the_list():
    """A function has at most 400 tokens and 20 branches; the list may only shrink."""
    assert set(MEASURED["long functions"]) <= set(RECORD["long functions"])


def test_what_makes_a_statement_dense_is_counted():
    source = "a, b = 1, 2\nc = [x if x else 0 for x in a]\n'''doc'''\n"
    assert density.count_kinds(ast.parse(source)) == {
        "statements": 2,
        "comprehensions": 1,
        "conditional": 1,
        "parallel": 1,
    }


def test_a_long_function_is_found():
    branches = "".join(f"    if a == {i}:\n        pass\n" for i in range(21))
    source = f"def f(a):\n    '''doc'''\n{branches}def g():\n    '''doc'''\n"
    assert list(density.long_functions(source, ast.parse(source))) == ["f"]
