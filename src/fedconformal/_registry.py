"""Registries: a choice is a class with a name, found here by that name.

A class joins by being registered, or by an entry point that an installed package declares: entry points are
looked up only when a name is not known yet, or when all names are asked for.
"""

import re
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from fedconformal._warnings import warn

T = TypeVar("T")

_NAME = re.compile(r"[a-z][a-z0-9-]{0,59}")


class Registry(Generic[T]):
    """Classes of one kind by name, such as all criteria.

    Parameters
    ----------
    what : str
        What is chosen, as an argument is called: ``"criterion"``.
    group : str
        The entry point group of packages that bring their own, ``"fedconformal.criteria"``.
    """

    def __init__(self, what: str, group: str) -> None:
        self.what, self.group = what, group
        self._known: dict[str, type[T]] = {}
        self._looked = False

    def register(self, kind: type[T]) -> type[T]:
        """Add a class under its ``name``; a decorator. A name that is taken is refused."""
        name = getattr(kind, "name", None)
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            allowed = "small letters, digits and hyphens"
            raise TypeError(f"a {self.what} needs a class attribute name of {allowed}, got {name!r}")
        if self._known.setdefault(name, kind) is not kind:
            raise ValueError(f"there is a {self.what} called {name!r} already")
        return kind

    def unregister(self, name: str) -> None:
        """Remove a class, for tests that bring their own."""
        self._known.pop(name, None)

    def __getitem__(self, name: str) -> type[T]:
        """Return the class of that name, or raise a ValueError that lists the names."""
        if not isinstance(name, str) or (name not in self._known and name not in self.names()):
            listed = ", ".join(map(repr, self.names()))
            raise ValueError(f"{self.what} must be one of {listed}, got {name!r}")
        return self._known[name]

    def __contains__(self, name: object) -> bool:
        """Return whether there is a class of that name."""
        return name in self._known or name in self.names()

    def __iter__(self) -> Iterator[str]:
        """All names."""
        return iter(self.names())

    def names(self) -> tuple[str, ...]:
        """All names, ours first, in the order they were registered."""
        if not self._looked:
            self._looked = True
            for point in entry_points(group=self.group):
                self._load(point)
        return tuple(self._known)

    def _load(self, point: EntryPoint) -> None:
        """Register what an installed package brings; one that is broken is said and left out."""
        try:
            self.register(point.load())
        except Exception as error:
            warn(f"the {self.what} {point.name!r} of the package {point.value!r} cannot be used: {error}")
