"""The reference of the site names everything public."""

import re
from importlib import import_module
from pathlib import Path

import api_pages
import pytest

import fedconformal

PACKAGE = Path(fedconformal.__file__).parent

for extra in ("cryptography", "flwr", "matplotlib", "nvflare", "polars", "sklearn", "starlette"):
    pytest.importorskip(extra, reason="an extra is not installed")

PAGES = api_pages.pages()


def is_public(path):
    parts = path.relative_to(PACKAGE).parts
    return not any(part.startswith("_") for part in parts[:-1]) and parts[0] != "cli"


def packages():
    """Yield every package, and every module right below the root, that lists its exports."""
    for path in sorted([*PACKAGE.glob("**/__init__.py"), *PACKAGE.glob("[a-z]*.py")]):
        if is_public(path) and re.search(r"^__all__ = ", path.read_text(), re.MULTILINE):
            yield ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def test_every_package_has_a_page():
    assert set(packages()) - {"fedconformal.estimators", "fedconformal.web.planner"} == set(api_pages.ROOMS)


def test_every_public_name_is_on_the_page_of_its_package():
    """In a table, as a value, or with the page that it is on; modules are pages themselves."""
    for room in api_pages.ROOMS:
        for name in set(import_module(room).__all__) - {"__version__"}:
            listed = (
                rf"^( {{3}}|\.\. py:data:: ){name}$|``{name}`` \(:doc:|Also the module ``{room}\.{name}``"
            )
            is_page = f"{room}.{name}" in api_pages.ROOMS
            assert is_page or re.search(listed, PAGES[room], re.MULTILINE), f"{room}.{name}"


def test_the_first_page_names_everything():
    for room in api_pages.ROOMS:
        said = re.search(rf"^:doc:`.* <{room}>`, ``{room}``\n   (.*)$", PAGES["index"], re.MULTILINE)[1]
        public = {name for name in import_module(room).__all__ if not name.startswith("__")}
        assert set(re.findall(r"``(\w+)``", said)) == public


def test_values_say_what_they_are():
    assert ".. py:data:: CRITERIA\n\n   All criteria by name." in PAGES["fedconformal.planning"]
    lacking = [
        (room, name)
        for room, page in PAGES.items()
        for name in re.findall(r"^\.\. py:data:: (\w+)\n(?:   :value: .*\n)?\n   $", page, re.MULTILINE)
    ]
    assert lacking == []
