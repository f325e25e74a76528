"""How documents show themselves where somebody looks at them: on a line, in a notebook, after a tab."""

from collections.abc import Callable, Iterable
from typing import Any

from pydantic import BaseModel

View = Callable[[Any], str | None]
"""HTML of a document, or None where there is nothing to show."""

_OTHERS = frozenset(name for name in dir(BaseModel) if not name.startswith("_"))
_views: list[View] = []


def show_with(view: View) -> None:
    """Say how notebooks show documents; documents themselves know of no pages.

    Parameters
    ----------
    view : callable
        Takes a document and returns HTML, or None.

    Examples
    --------
    >>> import fedconformal as fc
    >>> fc.plan(n_sites=3, n_points=40)._repr_html_()[:4]
    '<div'
    """
    _views[:] = [view]


class Shown:
    """A short line, a view for notebooks, and our own names alone after a tab."""

    def _line(self) -> str:
        """What there is to say on one line."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """A short line; ``to_json`` has everything."""
        return f"<{type(self).__name__}: {self._line()}>"

    def __str__(self) -> str:
        """The same line."""
        return repr(self)

    def _repr_html_(self) -> str | None:
        """What notebooks show."""
        return _views[0](self) if _views else None

    def __dir__(self) -> Iterable[str]:
        """Without the names of the library that reads and writes JSON."""
        return sorted(set(super().__dir__()) - _OTHERS)
