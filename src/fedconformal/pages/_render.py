"""Templates of the pages, in which every printed value is escaped, and sentences that the pages share."""

import math
import re
from decimal import ROUND_CEILING, Decimal
from functools import cache
from importlib import resources
from typing import Any

from scipy import special

from fedconformal import _text
from fedconformal._extras import need
from fedconformal.documents import Design
from fedconformal.laws import Summary
from fedconformal.messages import CurveMessage, of
from fedconformal.planning import Promise

# -- sentences that the certificate and the planner share --------------------------------------------------


_MOST_TIMES = 100


def disclosure(design: Design, n: int, site: str) -> str:
    """Return what leaves a site as its message describes it, in the third person: "1 of its 79 scores"."""
    return re.sub(r"\byour\b", "its", of(design.message).discloses(design, n, site))


def has_law(promise: Promise) -> bool:
    """Return whether a promise has distributions of the coverage, rather than a guarantee alone."""
    return type(promise).law is not Promise.law


def expected_mean(design: Design, place: int) -> float | None:
    """Return the coverage to expect of noisy counts if scores lie evenly over the cells; None for others."""
    message = of(design.message)
    if not isinstance(message, CurveMessage) or message.epsilon(design) is None:
        return None
    return message.expected(design, place)[0]


def likelihood_ratio(epsilon: float) -> Decimal:
    """Return the factor by which one case can change the probability of a report, rounded up."""
    return Decimal(math.exp(epsilon)).quantize(Decimal("0.01"), rounding=ROUND_CEILING)


def equivalent_pool(law: Summary) -> int | None:
    """Return how many pooled cases would vary as much; None where the coverage does not vary.

    A Beta distribution of mean p from N pooled cases has the variance p (1 - p) / (N + 2).
    """
    mean = law.mean
    return None if law.is_certain else max(1, round(mean * (1 - mean) / law.std**2) - 2)


def width_ratio(covered: float, level: float) -> float:
    """Return how much wider intervals of normal errors are that cover more than the level; at least 1."""
    if covered <= level:
        return 1.0
    wide, asked = (float(special.ndtri((1 + share) / 2)) for share in (covered, level))
    return max(1.0, wide / asked) if asked > 0 else math.inf


def times_as_wide(covered: float, level: float) -> str:
    """Return the ratio of widths, rounded up: "1.13 times as wide"."""
    ratio = width_ratio(covered, level)
    if ratio > _MOST_TIMES:
        return "many times as wide"
    return f"{math.ceil(100 * ratio - 1e-9) / 100:.2f} times as wide"


@cache
def read_asset(name: str) -> str:
    """Return the text of a style sheet, script or picture of the package."""
    return (resources.files("fedconformal.pages") / "assets" / name).read_text("utf-8")


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
        loader=jinja2.PackageLoader("fedconformal.pages"),
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
        "floor": lambda share, digits=1: _text.floor_percent(share, digits=digits),
        "general": lambda number, digits=6: f"{number:.{digits}g}",
        "listed": lambda names: _text.listed(list(names)),
        "likelihood_ratio": likelihood_ratio,
        "nearest": lambda share, digits: _text.nearest_percent(share, digits=digits),
        "of_100": lambda share: f"{math.floor(100 * share + 1e-9)} of 100",
        "percent": _text.percent,
        "posterior": special.expit,  # of an event with an even chance, by Bayes' rule
        "sentence_case": lambda text: text[:1].upper() + text[1:],
        "short_digest": lambda digest: digest.removeprefix("sha256:")[:12],
        "threshold": _text.threshold_text,
        "times_as_wide": times_as_wide,
    }
    return environment


def _finalize(value: Any) -> Any:
    """Spell out control characters, so that no printed text changes the direction of a line."""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return _text.visible(value, keep="\n\N{NO-BREAK SPACE}")
    return value
