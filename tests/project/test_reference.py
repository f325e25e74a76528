"""The reference of the site names everything public."""

import inspect
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
    assert set(packages()) - {"fedconformal.estimators", "fedconformal.pages.planner"} == set(
        api_pages.PACKAGES
    )


def test_every_public_name_is_on_the_page_of_its_package():
    """In a table, as a value, or with the page that it is on; modules are pages themselves."""
    for package in api_pages.PACKAGES:
        for name in set(import_module(package).__all__) - {"__version__"}:
            listed = (
                rf"^( {{3}}|\.\. py:data:: ){name}$|``{name}`` \(:doc:|Also the module ``{package}\.{name}``"
            )
            is_page = f"{package}.{name}" in api_pages.PACKAGES
            assert is_page or re.search(listed, PAGES[package], re.MULTILINE), f"{package}.{name}"


def test_the_first_page_names_everything():
    for package in api_pages.PACKAGES:
        said = re.search(rf"^:doc:`.* <{package}>`, ``{package}``\n   (.*)$", PAGES["index"], re.MULTILINE)[1]
        public = {name for name in import_module(package).__all__ if not name.startswith("__")}
        assert set(re.findall(r"``(\w+)``", said)) == public


def test_values_say_what_they_are():
    assert ".. py:data:: CRITERIA\n\n   All criteria by name." in PAGES["fedconformal.planning"]
    lacking = [
        (package, name)
        for package, page in PAGES.items()
        for name in re.findall(r"^\.\. py:data:: (\w+)\n(?:   :value: .*\n)?\n   $", page, re.MULTILINE)
    ]
    assert lacking == []


def test_inherited_methods_are_on_the_page_of_a_class():
    """Methods of our own base classes are shown; autodoc stops at the first base of another package."""
    template = (Path(api_pages.__file__).parent / "templates" / "autosummary" / "class.rst").read_text()
    foreign = set(re.search(r":inherited-members: (.*)", template)[1].split(", "))
    for package in api_pages.PACKAGES:
        for name in import_module(package).__all__:
            value = getattr(import_module(package), name)
            for base in value.__mro__[1:] if inspect.isclass(value) else ():
                ours = base.__module__.startswith("fedconformal")
                assert not (ours and base.__name__ in foreign), f"{package}.{name}: {base.__name__}"


def test_tables_do_not_shorten_signatures():
    for page in PAGES.values():
        assert page.count(".. autosummary::") == page.count(":nosignatures:")
