"""Names of sites: one form for each, and none that looks like another."""

import unicodedata
from collections.abc import Iterable

_INVISIBLE = frozenset(
    map(chr, (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, *range(0x180B, 0x1810)))
) | frozenset(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
"""Characters that count as printable and show nothing: fillers, joiners and selectors of variants."""

_LOOKS = str.maketrans(
    "АВЕЅІЈКМНОРСТХУҮԌԜасеоріјѕхуһкԁԛԝӏΑΒΕΖΗΙΚΜΝΟΡΤΥΧανορικυı",
    "ABESIJKMHOPCTXYYGWaceopijsxyhkdqwlABEZHIKMNOPTYXavopikui",
)
"""Cyrillic and Greek letters, and the Latin ones that they look like; not every pair that there is."""


def proper_form(name: str) -> str:
    """A name in the one form that documents hold: composed (NFC), visible, without spaces around it.

    Parameters
    ----------
    name : str
        As somebody wrote it.

    Returns
    -------
    str
        Empty if nothing of it can be seen.
    """
    if name.isascii() and name.isprintable():
        return name.strip()
    shown = "".join(c for c in name if c.isprintable() and c not in _INVISIBLE)
    return unicodedata.normalize("NFC", shown).strip()


def look(name: str) -> str:
    """What names have in common that a reader may take for each other.

    Case, width, spacing and the alphabet of letters that look Latin do not count.

    Parameters
    ----------
    name : str
        In its proper form.

    Returns
    -------
    str
        To be compared, not shown.
    """
    if not name.isascii():
        name = unicodedata.normalize("NFKC", name).translate(_LOOKS)
    return " ".join(name.casefold().split())


def check_looks(names: Iterable[str]) -> None:
    """Refuse names that a reader may take for each other.

    Parameters
    ----------
    names : iterable of str
        Different names.

    Raises
    ------
    ValueError
        With the first two.
    """
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(look(name), name)
        if other != name:
            raise ValueError(f"the sites {other!r} and {name!r} look alike: give one of them another name")
