"""The files of the planner's page; what can be chosen on it comes from the registries."""

from fedconformal.web._assets import read_asset
from fedconformal.web.server._controls import criterion_controls, promise_controls, score_controls

ASSETS = {
    "/": ("planner.html", "text/html"),
    "/assets/common.css": ("common.css", "text/css"),
    "/assets/planner.css": ("planner.css", "text/css"),
    "/assets/planner.js": ("planner.js", "text/javascript"),
    "/assets/icon.svg": ("icon.svg", "image/svg+xml"),
}
"""Every file of the page and its media type, by the path it is served at."""

_CONTROLS = {
    "<!-- promises -->": promise_controls,
    "<!-- criteria -->": criterion_controls,
    "<!-- scores -->": score_controls,
}


def page_files() -> dict[str, tuple[bytes, str]]:
    """Return every file of the page.

    Returns
    -------
    dict
        Content and media type, by the path it is served at.
    """
    return {path: (_filled(read_asset(name)).encode(), kind) for path, (name, kind) in ASSETS.items()}


def _filled(text: str) -> str:
    """The same text with controls in the places that are marked for them."""
    for place, controls in _CONTROLS.items():
        if place in text:
            text = text.replace(place, controls())
    return text
