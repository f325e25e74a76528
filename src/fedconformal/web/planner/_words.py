"""The library's sentences in the words of the planner's page."""

import re

from fedconformal._text import percent
from fedconformal.web._cases import in_cases

_LEVEL = re.compile(r"the level (0?\.\d+)(?: \([\w-]+\))?")
_FIELDS = {"max_missing": "Silent sites it must bear"}
_OPTION = re.compile(rf"({'|'.join(_FIELDS)})=(\d+) \(--[\w-]+ \d+\)")


def in_page_words(text: str) -> str:
    r"""Return a sentence of the library as the page says it: cases, levels in percent, fields by their label.

    Parameters
    ----------
    text : str
        As the library wrote it.

    Returns
    -------
    str

    Examples
    --------
    >>> in_page_words("At the level 0.9, one silent site; max_missing=1 (--max-missing 1) plans for that.")
    'At 90\xa0%, one silent site; 1 in the field “Silent sites it must bear” plans for that.'
    >>> in_page_words("No ranks reach the level 0.95 (stable) with 3 sites of 2 points.")
    'No ranks reach 95\xa0% with 3 sites of 2 cases.'
    """
    levels = _LEVEL.sub(lambda found: percent(float(found[1])), in_cases(text))
    return _OPTION.sub(lambda found: f"{found[2]} in the field “{_FIELDS[found[1]]}”", levels)
