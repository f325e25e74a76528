"""Jinja2 templates of the pages, in which every printed value is escaped."""

from functools import cache
from importlib import resources
from typing import Any

from fedconformal import _text
from fedconformal._extras import need
from fedconformal.web import _words


@cache
def read_asset(name: str) -> str:
    """Return the text of a style sheet, script or picture of the package."""
    return (resources.files("fedconformal.web") / "assets" / name).read_text("utf-8")


def render(template: str, **values: Any) -> str:
    """Return a filled template.

    Raises
    ------
    MissingExtraError
        If Jinja2 is not installed.
    """
    return str(_environment().get_template(template).render(values))


@cache
def _environment() -> Any:
    jinja2 = need("jinja2", extra="cli")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("fedconformal.web"),
        autoescape=True,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "ceiling": _text.ceiling_percent,
        "comma": lambda number: f"{number:,}",
        "count": _text.count,
        "expected_sentence": _words.expected_sentence,
        "factor_sentence": _words.factor_sentence,
        "floor": lambda share, digits=1: _text.floor_percent(share, digits=digits),
        "general": lambda number, digits=6: f"{number:.{digits}g}",
        "listed": lambda names: _text.listed(list(names)),
        "low_sentence": _words.low_sentence,
        "percent": _text.percent,
        "sentence_case": lambda text: text[:1].upper() + text[1:],
        "short_digest": lambda digest: digest.removeprefix("sha256:")[:12],
        "threshold": _text.threshold_text,
        "width_sentence": _words.width_sentence,
    }
    return environment


def _finalize(value: Any) -> Any:
    """Spell out control characters, so that no printed text changes the direction of a line."""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return _text.visible(value, keep="\n\N{NO-BREAK SPACE}")
    return value
