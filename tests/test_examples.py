"""Every example in a docstring runs, and everything that users call has one."""

import ast
import doctest
import importlib
import inspect
from enum import Enum
from pathlib import Path

import numpy as np
import pytest
from pydantic import BaseModel

import fedconformal
from fedconformal.documents import Document

HOUSE = Path(fedconformal.__file__).parent
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
ELSEWHERE = {"cli"}
"""Packages whose examples are only in docs."""
EXTRAS = {
    "flower": ["flwr"],
    "nvflare": ["nvflare"],
    "estimators": ["sklearn"],
    "plots": ["matplotlib"],
    "privacy": ["opendp"],
    "protocol": ["opendp", "cryptography"],
    "documents": ["cryptography"],
    "web": ["starlette"],
}
"""Libraries that the examples of a package need."""
SITES = ("north", "south", "west")


def package_of(path):
    return path.relative_to(HOUSE).parts[0].removesuffix(".py")


MODULES = [
    path
    for path in sorted(HOUSE.glob("**/*.py"))
    if package_of(path) not in ELSEWHERE and ">>> " in path.read_text()
]


def scores(n):
    return np.random.default_rng(7).gamma(2.0, size=n)


def on_flower(folder):
    """Return the arguments of a ServerApp's main function, with three sites called
    without processes.
    """
    from flower_grid import LocalGrid
    from flwr.app import Context, RecordDict
    from flwr.clientapp import ClientApp

    from fedconformal.flower import add_conformal

    app = ClientApp()
    add_conformal(
        app, lambda context: scores(80), check_scores_fn=lambda context: scores(200)
    )
    grid = LocalGrid([(app, {"site": site}) for site in SITES])
    return {"grid": grid, "context": Context(1, 1, {}, RecordDict(), {})}


def on_flare(folder):
    """Return what a controller has within its ``control_flow``, with three sites called
    the same way.
    """
    from flare_engine import LocalFlare

    from fedconformal.nvflare import ConformalController, ConformalExecutor

    class Scores(ConformalExecutor):
        def scores(self, plan, model, fl_ctx):
            return scores(80)

        def check_scores(self, plan, model, fl_ctx):
            return scores(200)

    engine = LocalFlare(folder, {site: Scores() for site in SITES})
    controller = ConformalController(fedconformal.plan(n_sites=3, n_points=80))
    controller.set_communicator(engine)
    return {"controller": controller, "fl_ctx": engine.fl_ctx}


ENGINES = {"flower": on_flower, "nvflare": on_flare}
"""Arguments that an engine hands to the user's functions, which examples take as given.
"""


@pytest.mark.parametrize(
    "path", MODULES, ids=lambda path: path.relative_to(HOUSE).as_posix()
)
def test_examples_run(path, tmp_path, monkeypatch):
    for extra in EXTRAS.get(package_of(path), ()):
        pytest.importorskip(extra, reason="an extra is not installed")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    name = ".".join(path.relative_to(HOUSE).with_suffix("").parts).removesuffix(
        ".__init__"
    )
    given = ENGINES[package_of(path)](tmp_path) if package_of(path) in ENGINES else {}
    around = (
        vars(importlib.import_module(f"fedconformal.{name}"))
        | {"__name__": "__main__"}
        | given
    )
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    for owner, text in docstrings(path):
        test = doctest.DocTestParser().get_doctest(
            text, around, f"{name}.{owner}", str(path), 0
        )
        assert bool(test.examples) == (">>> " in text)
        runner.run(test, clear_globs=False)
    assert runner.tries
    assert not runner.failures


def docstrings(path):
    """Yield every docstring of a file by its owner, also those that doctest takes for
    another module's.
    """
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield getattr(node, "name", "module"), ast.get_docstring(node) or ""


def packages():
    for name in sorted(path.name.removesuffix(".py") for path in HOUSE.iterdir()):
        if not name.startswith("_") and name not in ELSEWHERE | {"py.typed"}:
            yield name


def user_facing():
    """Yield the names that users call or make: no exceptions, no parts of documents, no
    protocols.
    """
    for package in ["", *packages()]:
        module = importlib.import_module(
            f"fedconformal.{package}" if package else "fedconformal"
        )
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            ours = getattr(value, "__module__", "").startswith("fedconformal")
            if not ours or not (
                inspect.isclass(value) or inspect.isfunction(inspect.unwrap(value))
            ):
                continue
            if inspect.isclass(value) and (
                issubclass(value, (BaseException, Enum))
                or (
                    issubclass(value, BaseModel)
                    and (not issubclass(value, Document) or value is Document)
                )
                or getattr(value, "_is_protocol", False)
            ):
                continue
            yield f"{package}.{name}".lstrip("."), value


def test_what_users_call_has_an_example():
    for extra in {extra for extras in EXTRAS.values() for extra in extras}:
        pytest.importorskip(extra, reason="an extra is not installed")
    assert not [
        name for name, value in user_facing() if ">>> " not in (value.__doc__ or "")
    ]
