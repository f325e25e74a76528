"""HTML in which everything is escaped that was not made here."""

from collections.abc import Iterable, Sequence
from html import escape

from fedconformal._text import visible


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


_LONG = 19  # characters of a number from which on it may take several lines
_VOID = {"meta", "link", "br", "hr", "input"}


def tag(name: str, /, *children: str, **attributes: str) -> Markup:
    """Return an element.

    Parameters
    ----------
    name : str
        Its name.
    *children : str
        What is inside; strings that are not `Markup` are escaped.
    **attributes : str
        ``class_`` stands for class, ``_`` for a hyphen.

    Returns
    -------
    Markup
        HTML.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_escaped(value)}"' for key, value in attributes.items()
    )
    if name in _VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{join(children)}</{name}>")


def join(children: Iterable[str]) -> Markup:
    """Return pieces one after the other; strings that are not `Markup` are escaped."""
    return Markup("".join(child if isinstance(child, Markup) else _escaped(child) for child in children))


def _escaped(text: str) -> str:
    """Text in which nothing is markup, and nothing turns the direction of a line."""
    return escape(visible(text, keep="\n\N{NO-BREAK SPACE}"))


def section(title: str, *children: Markup) -> Markup:
    """Return a heading and what belongs to it."""
    return tag("section", tag("h2", title), *children)


def folded(title: str, *children: Markup) -> Markup:
    """Return a heading and what belongs to it, folded away until it is asked for; open in print."""
    return tag("section", tag("details", tag("summary", tag("h2", title)), *children))


def listing(name: str, items: Iterable[str]) -> Markup:
    """Return a list, ``ul`` or ``ol``, of sentences."""
    return tag(name, *(tag("li", item) for item in items))


def table(
    headers: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Iterable[str] = (),
    whole: Iterable[str] = (),
    caption: str,
) -> Markup:
    """Return a table that scrolls where it is too wide.

    Parameters
    ----------
    headers : sequence of str
        What the columns are.
    rows : iterable of sequence of str
        The cells.
    numbers : iterable of str
        Headers of the columns that are set flush right.
    whole : iterable of str
        Headers of the columns whose words are never broken.
    caption : str
        What the table is, for those who cannot see it.

    Returns
    -------
    Markup
        HTML.
    """
    kinds = {**dict.fromkeys(whole, "whole"), **dict.fromkeys(numbers, "number")}

    def style(header: str, text: str) -> dict[str, str]:
        kind = kinds.get(header)
        if kind is None:
            return {}
        return {"class_": "number long" if kind == "number" and len(text) > _LONG else kind}

    def cells(name: str, texts: Sequence[str], **same: str) -> Markup:
        named = (
            (text, {"data_column": header} if name == "td" else {}, style(header, text))
            for text, header in zip(texts, headers, strict=True)
        )
        return tag("tr", *(tag(name, text, **same, **column, **kind) for text, column, kind in named))

    content = tag(
        "table",
        tag("caption", caption, class_="visually-hidden"),
        tag("thead", cells("th", headers, scope="col")),
        tag("tbody", *(cells("td", row) for row in rows)),
    )
    return tag("div", content, class_="scroll", tabindex="0", role="region", aria_label=caption)
