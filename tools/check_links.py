"""Check every link inside a built site: ``python tools/check_links.py FOLDER``, part of
``make docs``.

Every page, picture, script, style sheet and anchor that a page names must be there, and
nothing that a page needs in order to be shown may come from elsewhere: the site works
offline. Links to other sites are not followed. No page shows where an object lies in
memory, which tells nobody anything.
"""

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

ELSEWHERE = {"http", "https", "mailto", "data", "javascript", "tel"}
SHOWN = {
    ("img", "src"),
    ("script", "src"),
    ("iframe", "src"),
    ("source", "src"),
    ("object", "data"),
}
"""What is loaded with the page, beside style sheets."""
ADDRESS = re.compile(r" at 0x[0-9a-f]{6,}")


class Link(NamedTuple):
    """What a page names, and whether the page needs it."""

    target: str
    needed: bool


class Page(HTMLParser):
    """The links and the anchors of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[Link] = []
        self.anchors: set[str] = set()
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take down what a tag names."""
        found = {name: value for name, value in attrs if value is not None}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        for name in ("href", "src", "data"):
            if name in found and (name != "data" or tag == "object"):
                self.links.append(
                    Link(found[name], (tag, name) in SHOWN or _is_style(tag, found))
                )
        for each in found.get("srcset", "").split(","):
            if each.strip():
                self.links.append(Link(each.split()[0], needed=True))

    def handle_data(self, data: str) -> None:
        """Take down what can be read."""
        self.text += data


def _is_style(tag: str, attributes: dict[str, str]) -> bool:
    return tag == "link" and bool(
        {"stylesheet", "preload", "icon"} & set(attributes.get("rel", "").split())
    )


def problems(folder: Path) -> Iterator[str]:
    """Every link that leads nowhere, and everything a page needs from elsewhere."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in _pages(folder)}
    if not pages:
        yield f"{folder}: no page"
    for path, page in pages.items():
        if ADDRESS.search(page.text):
            yield f"{path.relative_to(folder)}: shows the address of an object"
        for link in dict.fromkeys(page.links):
            wrong = _wrong(link, path, folder, pages)
            if wrong:
                yield f"{path.relative_to(folder)}: {link.target}: {wrong}"


def _pages(folder: Path) -> list[Path]:
    """What people can get to: folders such as ``_static`` hold templates of the theme
    too.
    """
    found = sorted(folder.rglob("*.html"))
    return [
        path
        for path in found
        if not any(p.startswith("_") for p in path.relative_to(folder).parts)
    ]


def _wrong(link: Link, path: Path, folder: Path, pages: dict[Path, Page]) -> str | None:
    """What is wrong with one link, if anything is."""
    parts = urlsplit(link.target)
    if parts.netloc or parts.scheme in ELSEWHERE:
        return (
            "comes from elsewhere" if link.needed and parts.scheme != "data" else None
        )
    target = _place(unquote(parts.path), path, folder)
    if not target.exists():
        return "not there"
    if (
        parts.fragment
        and target in pages
        and unquote(parts.fragment) not in pages[target].anchors
    ):
        return "no such anchor"
    return None


def _place(name: str, path: Path, folder: Path) -> Path:
    """The file that a relative address means."""
    if not name:
        return path
    start = folder if name.startswith("/") else path.parent
    target = (start / name.lstrip("/")).resolve()
    return target / "index.html" if target.is_dir() else target


def main(folder: Path) -> int:
    """Print every problem; 1 if there is any."""
    folder = folder.resolve()
    found = list(problems(folder))
    print(
        "\n".join(found)
        if found
        else f"links: {len(_pages(folder))} pages, every link leads somewhere"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
