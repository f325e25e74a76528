"""The auditor shares nothing with what it checks."""

import ast
from pathlib import Path

import pytest

from fedconformal import audit

ROOM = Path(audit.__file__).parent
CHECKED = ("laws", "planning", "privacy", "protocol")


def imported(path):
    """Every module that a file imports, names imported from a package included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: a relative import"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", sorted(ROOM.glob("**/*.py")), ids=lambda path: path.name)
def test_no_module_imports_what_it_checks(path):
    for module in imported(path):
        _, _, inside = module.partition("fedconformal.")
        assert inside.partition(".")[0] not in CHECKED, f"{path.name} imports {module}"


@pytest.mark.parametrize("path", sorted(ROOM.glob("**/*.py")), ids=lambda path: path.name)
def test_nothing_is_called_that_a_document_computes_with_them(path):
    """A plan has laws and designs of its own; an auditor that asks for them would believe, not check."""
    asked = {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
    computed = {"law", "laws", "design", "designs", "releases", "criterion_object", "promise_object"}
    assert asked & computed == set()


def test_the_recount_uses_numpy_alone():
    modules = set(imported(ROOM / "_recount.py"))
    ours = {module for module in modules if module.startswith("fedconformal")}
    assert all(module.startswith(("fedconformal._typing", "fedconformal.audit")) for module in ours)
    assert not any(module.startswith("scipy") for module in modules)
