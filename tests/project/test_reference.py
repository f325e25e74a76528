"""The reference of the site lists what is public, and nothing else."""

import inspect
import re
from pathlib import Path

import api_pages
import pytest

import fedconformal

PACKAGE = Path(fedconformal.__file__).parent
EXPORTED_AT_THE_TOP = {"fedconformal.estimators"}

for extra in (
    "cryptography",
    "flwr",
    "matplotlib",
    "nvflare",
    "polars",
    "sklearn",
    "starlette",
):
    pytest.importorskip(extra, reason="an extra is not installed")

PAGES = api_pages.pages()


def packages():
    """Yield every package and module that lists its exports, and is not private
    itself.
    """
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(
            path.relative_to(PACKAGE.parent).with_suffix("").parts
        ).removesuffix(".__init__")
        is_private = re.search(r"\._(?!_)", name)
        if not is_private and re.search(r"^__all__ = ", path.read_text(), re.MULTILINE):
            yield name


def test_what_lists_its_names_has_a_page_and_what_is_internal_lists_none():
    """Criteria, promises, messages and scores of one's own are extension points:
    docs/contributing.md.
    """
    assert set(packages()) - EXPORTED_AT_THE_TOP == set(api_pages.PACKAGES)
    exported = {
        name
        for package in EXPORTED_AT_THE_TOP
        for name in api_pages.public_names(package)
    }
    assert exported <= api_pages.public_names("fedconformal").keys()


def test_public_names_are_those_on_the_list():
    """A change of what is public edits ``public_names.txt`` on purpose."""
    names = sorted(
        f"{package}.{name}"
        for package in api_pages.PACKAGES
        for name in api_pages.public_names(package)
    )
    listed = Path(__file__).with_name("public_names.txt").read_text().splitlines()
    assert names == listed


def test_pages_list_exactly_the_public_names():
    """Each once, in a table; where another page has it already, with the name of that
    page.
    """
    pages_of = {}
    for package, page in PAGES.items():
        if package == "index":
            continue
        public = api_pages.public_names(package)
        in_tables = re.findall(r"^ {3}(\w+)$", page, re.MULTILINE)
        elsewhere = dict(re.findall(r"``(\w+)`` \(:doc:`([\w.]+)`\)", page))
        assert sorted([*in_tables, *elsewhere]) == sorted(public)
        assert all(
            pages_of[id(public[name])] == where for name, where in elsewhere.items()
        )
        pages_of |= dict.fromkeys((id(public[name]) for name in in_tables), package)


def test_the_first_page_names_everything():
    for package in api_pages.PACKAGES:
        listed = re.search(
            rf"^:doc:`.* <{package}>`, ``{package}``\n   (.*)$",
            PAGES["index"],
            re.MULTILINE,
        )[1]
        assert re.findall(r"``(\w+)``", listed) == list(api_pages.public_names(package))


def test_inherited_methods_are_on_the_page_of_a_class():
    """Methods of our own base classes are shown; autodoc stops at the first base of
    another package.
    """
    template = (
        Path(api_pages.__file__).parent / "templates" / "autosummary" / "class.rst"
    ).read_text()
    foreign = set(re.search(r":inherited-members: (.*)", template)[1].split(", "))
    for package in api_pages.PACKAGES:
        for name, value in api_pages.public_names(package).items():
            for base in value.__mro__[1:] if inspect.isclass(value) else ():
                ours = base.__module__.startswith("fedconformal")
                assert not (ours and base.__name__ in foreign), (
                    f"{package}.{name}: {base.__name__}"
                )


def test_tables_do_not_shorten_signatures():
    for page in PAGES.values():
        assert page.count(".. autosummary::") == page.count(":nosignatures:")


def test_signatures_say_array_like():
    """Not the union that ``ArrayLike`` stands for, which fills a screen of ``help``."""
    for package in api_pages.PACKAGES:
        for name, value in api_pages.public_names(package).items():
            methods = (
                dict(inspect.getmembers(value, inspect.isroutine))
                if inspect.isclass(value)
                else {}
            )
            for attribute, function in {"": value, **methods}.items():
                is_ours = str(getattr(function, "__module__", None)).startswith(
                    "fedconformal"
                )
                is_error = inspect.isclass(function) and issubclass(function, Exception)
                if is_ours and not is_error and not attribute.startswith("_"):
                    assert "_SupportsArray" not in str(inspect.signature(function)), (
                        f"{name}.{attribute}"
                    )
