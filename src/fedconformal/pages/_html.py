"""HTML in which everything is escaped that was not made here."""

from html import escape


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


_VOID = {"meta", "link", "br", "hr"}


def tag(name: str, /, *children: str, **attributes: str) -> Markup:
    """An element; plain strings are escaped. ``class_`` stands for class, ``_`` for a hyphen."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items()
    )
    if name in _VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{join(children)}</{name}>")


def join(children: "tuple[str, ...] | list[str]") -> Markup:
    """Pieces one after the other."""
    return Markup("".join(child if isinstance(child, Markup) else escape(child) for child in children))


def table(
    headers: list[str], rows: list[list[str]], *, numbers: frozenset[int] = frozenset(), caption: str
) -> Markup:
    """A table; ``numbers`` are the columns that are set flush right."""

    def style(i: int) -> dict[str, str]:
        return {"class_": "number"} if i in numbers else {}

    head = tag("tr", *(tag("th", header, scope="col", **style(i)) for i, header in enumerate(headers)))
    body = [tag("tr", *(tag("td", cell, **style(i)) for i, cell in enumerate(row))) for row in rows]
    return tag(
        "div",
        tag(
            "table",
            tag("caption", caption, class_="visually-hidden"),
            tag("thead", head),
            tag("tbody", *body),
        ),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label=caption,
    )
