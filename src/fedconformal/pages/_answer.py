"""The answer page: one HTML file, the same for everybody, in which a site answers a
plan without Python.
"""

import base64
import hashlib
import re

from fedconformal._version import __version__
from fedconformal.pages._render import read_asset, render

_MODULES = (
    "documents",
    "messages",
    "tables",
    "plans",
    "reports",
    "page",
)  # each imports earlier ones alone


def answer_page() -> str:
    """Return the page, with its scripts, its style and the schema of plans inside.

    Its content security policy allows this script and this style, by their hashes, and
    nothing else: it forbids requests, pictures, frames and forms. No policy forbids a
    page to open another address, and none binds extensions of the browser.
    """
    script = join_modules(_MODULES)
    style = read_asset("common.css") + read_asset("answer.css")
    return render(
        "answer.html",
        version=__version__,
        script=script,
        style=style,
        schema=read_asset("answer/plan.schema.json"),
        script_hash=_source_hash(script),
        style_hash=_source_hash(style),
    )


def page_digest(page: str) -> str:
    """Return the digest that the documentation publishes for the file."""
    return f"sha256:{hashlib.sha256(page.encode()).hexdigest()}"


def join_modules(names: tuple[str, ...]) -> str:
    """Return the text of modules as one script: without what only separate files
    need.
    """
    text = "\n".join(read_asset(f"answer/{name}.js") for name in names)
    text = re.sub(r"^(?:// @ts-check|import [^;]*;)\n", "", text, flags=re.MULTILINE)
    return re.sub(r"^export ", "", text, flags=re.MULTILINE)


def _source_hash(text: str) -> str:
    """Return a hash as content security policies write it."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
