"""Rules for the whole package that no linter can express, read off its source."""

import ast
from functools import cache
from pathlib import Path

import fedconformal
from fedconformal.messages import MESSAGES
from fedconformal.planning import CRITERIA, PROMISES
from fedconformal.scores import SCORES

PACKAGE = Path(fedconformal.__file__).parent
CHOICES = {
    name for registry in (CRITERIA, PROMISES, MESSAGES, SCORES) for name in registry
}
OWN_FILES = (
    "documents/_messages.py",
    "messages/",
    "scores/",
)
"""Folders in which each choice has its class, and may know its own name."""
TABLES = "audit/"
"""The auditor has its own tables by name: it must not ask the classes that it checks.
"""
ALLOWED: dict = {
    "estimators/_base.py": {"mixture"},
    "privacy/_bins.py": {"curve"},
    "pages/_promises.py": {"curve"},
}
"""Words that mean something else where they are."""


def constants(node):
    """Yield the strings of a constant, or of constants in a literal collection."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.Tuple | ast.List | ast.Set):
        for element in node.elts:
            yield from constants(element)


@cache
def nodes(source):
    return tuple(ast.walk(ast.parse(source)))


def branches(source):
    """Yield every string that is compared with, is a key of a literal dictionary, or a
    pattern.
    """
    for node in nodes(source):
        if isinstance(node, ast.Compare):
            if all(
                isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn)
                for op in node.ops
            ):
                for side in (node.left, *node.comparators):
                    yield from constants(side)
        elif isinstance(node, ast.Dict):
            for key in node.keys:
                yield from constants(key)
        elif isinstance(node, ast.MatchValue):
            yield from constants(node.value)


def test_nothing_branches_on_the_name_of_a_choice():
    """Behaviour belongs to the class of a choice; what is allowed must still be
    there.
    """
    found = {}
    for path in PACKAGE.glob("**/*.py"):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith((*OWN_FILES, TABLES)) and (
            names := CHOICES & set(branches(path.read_text()))
        ):
            found[name] = names
    assert found == ALLOWED


def test_branches_on_names_are_found():
    source = (
        'if kind == "lac": pass\n'
        'if kind in ("stable", "x"): pass\n'
        'table = {"each-site": 1}\n'
        'match kind:\n    case "curve": pass\n'
        'if "ranks" != kind: pass\n'
    )
    assert CHOICES & set(branches(source)) == {
        "lac",
        "stable",
        "each-site",
        "curve",
        "ranks",
    }


def arguments(source):
    """Yield public functions and classes with their arguments; fields of a class are
    arguments too.
    """
    for node in nodes(source):
        if isinstance(node, ast.FunctionDef) and (
            node.name == "__init__" or not node.name.startswith("_")
        ):
            yield (
                node.name,
                {argument.arg for argument in [*node.args.args, *node.args.kwonlyargs]},
            )
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield (
                node.name,
                {
                    ast.unparse(f.target)
                    for f in node.body
                    if isinstance(f, ast.AnnAssign)
                },
            )


def test_random_numbers_come_with_the_argument_rng():
    """The convention of scientific Python (SPEC 7)."""
    seeded = [
        (path.name, owner)
        for path in PACKAGE.glob("**/*.py")
        for owner, names in arguments(path.read_text())
        if names & {"seed", "random_state"}
    ]
    assert seeded == []
