"""Every example in a docstring runs, and everything that users call has one."""

import ast
import doctest
import importlib
import inspect
import re
from enum import Enum
from functools import cache
from pathlib import Path

import pytest
from pydantic import BaseModel

import fedconformal
from fedconformal.documents import Document

HOUSE = Path(fedconformal.__file__).parent
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
ENGINES = {"flower", "nvflare", "cli"}
"""Rooms whose examples are whole programs, in examples/ and on the pages of docs."""
EXTRAS = {
    "estimators": ["sklearn"],
    "experiments": ["sklearn", "polars", "joblib"],
    "plots": ["matplotlib"],
    "privacy": ["opendp"],
    "protocol": ["opendp", "cryptography"],
    "documents": ["cryptography"],
    "web": ["starlette"],
}
"""What has to be installed for the examples of a room."""
NEVER_RETURNS = {"web.serve", "web.background", "rounds.keep_inside"}
"""What waits for a browser, or for an exception."""


def room_of(path):
    return path.relative_to(HOUSE).parts[0].removesuffix(".py")


MODULES = [
    path
    for path in sorted(HOUSE.glob("**/*.py"))
    if room_of(path) not in ENGINES and ">>> " in path.read_text()
]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(HOUSE).as_posix())
def test_examples_run(path, monkeypatch):
    for extra in EXTRAS.get(room_of(path), ()):
        pytest.importorskip(extra, reason="an extra is not installed")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    name = ".".join(path.relative_to(HOUSE).with_suffix("").parts).removesuffix(".__init__")
    found = doctest.testmod(importlib.import_module(f"fedconformal.{name}"), optionflags=FLAGS)
    assert found.attempted
    assert not found.failed


def test_examples_show_one_convention_for_random_numbers():
    """Arguments that bring random numbers are called rng, as scientific Python has agreed (SPEC 7)."""
    for path in HOUSE.glob("**/*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                names = {each.arg for each in [*node.args.args, *node.args.kwonlyargs]}
                assert "random_state" not in names, f"{path}: {node.name}"
                if room_of(path) != "experiments":  # whose fits are known by the number of their split
                    assert "seed" not in names, f"{path}: {node.name}"


def rooms():
    for name in sorted(path.name.removesuffix(".py") for path in HOUSE.iterdir()):
        if not name.startswith("_") and name not in ENGINES | {"experiments", "py.typed"}:
            yield name


def user_facing():
    """What users call or make: no exceptions, no pieces of documents and messages, no protocols."""
    for room in ["", *rooms()]:
        module = importlib.import_module(f"fedconformal.{room}" if room else "fedconformal")
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            ours = getattr(value, "__module__", "").startswith("fedconformal")
            if not ours or not (inspect.isclass(value) or inspect.isfunction(value)):
                continue
            if inspect.isclass(value) and (
                issubclass(value, (BaseException, Enum))
                or (issubclass(value, BaseModel) and (not issubclass(value, Document) or value is Document))
                or getattr(value, "_is_protocol", False)
            ):
                continue
            yield f"{room}.{name}".lstrip("."), value


@cache
def annotations():
    """Everything that functions return and classes hold, by name."""
    found = set()
    for path in HOUSE.glob("**/*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            said = node.returns if isinstance(node, ast.FunctionDef) else None
            said = node.annotation if isinstance(node, ast.AnnAssign) else said
            found |= set(re.findall(r"\w+", ast.unparse(said))) if said is not None else set()
    return found


def is_found(name, value):
    """Whether it is a class of a room that nobody makes by hand: what returns or holds it has an example."""
    return inspect.isclass(value) and "." in name and value.__name__ in annotations()


def test_what_users_call_has_an_example():
    for extra in {extra for extras in EXTRAS.values() for extra in extras}:
        pytest.importorskip(extra, reason="an extra is not installed")
    lacking = {name: value for name, value in user_facing() if ">>> " not in (inspect.getdoc(value) or "")}
    assert not {name for name, value in lacking.items() if not is_found(name, value)} - NEVER_RETURNS
