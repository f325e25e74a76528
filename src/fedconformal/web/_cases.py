"""Pages for people say case where mathematics says point."""

import re


def in_cases(text: str) -> str:
    """Return a sentence of the library in the words of the pages.

    Parameters
    ----------
    text : str
        A sentence that may speak of points.

    Returns
    -------
    str
        The same of cases.
    """
    return re.sub(r"\bpoint(s?)\b", r"case\1", text)
