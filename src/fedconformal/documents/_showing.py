"""How documents show themselves where somebody looks at them: on a line, in a notebook, after a tab."""

from collections.abc import Iterable

from pydantic import BaseModel

from fedconformal._notebooks import view_of

_OTHERS = frozenset(name for name in dir(BaseModel) if not name.startswith("_"))


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
        return view_of(self)

    def __dir__(self) -> Iterable[str]:
        """Without the names of the library that reads and writes JSON."""
        return sorted(set(super().__dir__()) - _OTHERS)
