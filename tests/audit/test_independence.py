"""The auditor shares nothing with what it checks."""

import ast
from pathlib import Path

from fedconformal import audit

ROOM = Path(audit.__file__).parent


def imported(path):
    """Every module that a file imports, names imported from a package included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: a relative import"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_nothing_is_called_that_a_document_computes_with_them():
    """A plan has laws and designs of its own; an auditor that asks for them would believe, not check."""
    computed = {"law", "laws", "design", "designs", "releases", "criterion_object", "promise_object"}
    for path in ROOM.glob("**/*.py"):
        nodes = ast.walk(ast.parse(path.read_text()))
        asked = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        assert asked & computed == set(), path.name


def test_the_recount_uses_numpy_alone():
    modules = set(imported(ROOM / "_recount.py"))
    ours = {module for module in modules if module.startswith("fedconformal")}
    assert all(module.startswith(("fedconformal._typing", "fedconformal.audit")) for module in ours)
    assert not any(module.startswith("scipy") for module in modules)
