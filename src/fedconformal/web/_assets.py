"""Style sheets, scripts and pages that come with the package."""

from functools import cache
from importlib import resources


@cache
def read_asset(name: str) -> str:
    """Return a file that comes with the package.

    Parameters
    ----------
    name : str
        Its name.

    Returns
    -------
    str
        Its text.
    """
    return (resources.files("fedconformal.web") / "assets" / name).read_text("utf-8")
