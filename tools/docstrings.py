"""Check the docstrings of every public name: ``python tools/docstrings.py``, part of
``make lint``.

Functions and classes that a package exports have numpydoc sections for all parameters
and results; their public methods have a docstring, and whatever sections it has are
right.
"""

import inspect
import sys
import warnings
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from pathlib import Path

from numpydoc.validate import validate
from pydantic import BaseModel

sys.path.insert(0, str(Path(__file__).parent.parent / "docs" / "_site"))

from api_pages import PACKAGES
from api_pages import public_names as exported

SECTIONS = {"GL06", "GL07", "PR02", "PR03", "PR04", "PR05", "PR07", "PR10", "YD01"}
WHOLE = SECTIONS | {"GL08", "PR01", "RT01"}


def public_names() -> Iterator[str]:
    """Every class and function that a package exports, once."""
    seen = set()
    for package in PACKAGES:
        for name, value in exported(package).items():
            if id(value) not in seen:
                seen.add(id(value))
                yield f"{package}.{name}"


def methods(name: str, value: type) -> Iterator[str]:
    """Public methods that a class has of its own or of a base class of ours."""
    bases = [
        base for base in value.__mro__ if base.__module__.startswith("fedconformal")
    ]
    for attribute in sorted({attribute for base in bases for attribute in vars(base)}):
        member = inspect.getattr_static(value, attribute)
        plain = (
            member.__func__
            if isinstance(member, (classmethod, staticmethod))
            else member
        )
        is_ours = inspect.isfunction(plain) and plain.__module__.startswith(
            "fedconformal"
        )
        if not attribute.startswith("_") and is_ours and plain.__name__ != "<lambda>":
            yield f"{name}.{attribute}"


def codes_of(value: object) -> set[str]:
    """What is checked: a class has no result, and some kinds of class document their
    fields elsewhere.
    """
    if not inspect.isclass(value):
        return WHOLE
    elsewhere = issubclass(value, (BaseModel, Enum, BaseException)) or getattr(
        value, "_is_protocol", False
    )
    attributes = "Attributes\n" in (value.__doc__ or "")
    return WHOLE - ({"RT01", "PR01"} if elsewhere or attributes else {"RT01"})


def problems(name: str, codes: set[str]) -> Iterator[str]:
    """What is wrong with one docstring."""
    try:
        errors = validate(name)["errors"]
    except (StopIteration, RuntimeError) as error:
        raise RuntimeError(f"{name}: its source was not found") from error
    for code, message in errors:
        if code in codes:
            yield f"{name}: {code} {message}"


def main() -> int:
    """Print every problem; 1 if there is any."""
    warnings.simplefilter("ignore")
    found: list[str] = []
    for name in public_names():
        package, _, last = name.rpartition(".")
        value = getattr(import_module(package), last)
        found += problems(name, codes_of(value))
        if inspect.isclass(value):
            own = methods(name, value)
            found += [
                text for method in own for text in problems(method, SECTIONS | {"GL08"})
            ]
    count = sum(1 for _ in public_names())
    print("\n".join(found) if found else f"docstrings: {count} public names, all fine")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
