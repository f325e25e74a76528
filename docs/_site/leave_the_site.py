"""Links to files of the repository that are no pages of the site lead to the
repository.
"""

import re
from typing import Any

REPOSITORY = "https://github.com/fedconformal/fedconformal/blob/main/"


def absolute(app: Any, name: str, source: list[str]) -> None:
    """Relative links that leave the folder of the pages become addresses."""
    source[0] = re.sub(r"\]\(\.\./([^)]*)\)", rf"]({REPOSITORY}\1)", source[0])


def setup(app: Any) -> dict[str, bool]:
    """Register the step."""
    app.connect("source-read", absolute)
    return {"parallel_read_safe": True}
