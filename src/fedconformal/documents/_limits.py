"""Limits on the size of documents, all in one place.

A reader looks at the bytes first: their number, and the items they can hold. So reading any file costs about
a second and some hundred megabytes at most. The limits on content keep what follows from a document, such as
the distribution of the coverage, as affordable as reading it.
"""

from dataclasses import dataclass

LARGEST_N = 2**30
"""Largest number of scores of a site."""
LARGEST_ADVICE = 2**40  # largest number in an advice
MOST_SITES = 10**7
"""Largest number of sites of a plan; they may have names as far as these fit into the document."""
MOST_LEVELS = 100
"""Largest number of confidence levels of a plan."""
MOST_NUMBERS = 20
"""Largest number of scores that a site sends for one level."""
MOST_GROUPS = 1000  # groups of cases in a plan
MOST_CLASSES = 10_000
"""Largest number of classes that a plan names."""
MOST_EDGES = 10_000  # edges of a grid
MOST_CELLS = 100_000  # cells times groups, and times levels where levels differ: the work of a site
MOST_LEVELS_OF_GROUPS = 2_000  # levels times groups of a plan
MOST_NAMED = 50_000  # names of sites in one list
MOST_SENT = 500  # numbers that a plan may ask a site for, over all levels, in each group
MOST_VOTES = 2**20
"""Largest number of votes of one number."""
LARGEST_UNIT = 10**40  # votes of a whole mixture
MOST_COLUMNS = 5
"""Largest number of columns by whose values a check is split."""
MOST_CHECKED = 100
"""Largest number of combinations of values in a check."""
MOST_FIELDS = 100  # fields of an object in a document
LONGEST_REASON = 400  # characters of the source of a refusal, or of its reason
SMALLEST_EPSILON, LARGEST_EPSILON = 1e-6, 100.0
"""Range of a privacy loss: below it noise drowns any data, above it nothing is hidden."""


@dataclass(frozen=True)
class SizeLimit:
    """Largest size of one kind of document.

    Parameters
    ----------
    size : int
        Bytes of an ordinary document.
    items : int
        Values, lists, objects and fields.
    listing : tuple of str
        Fields that only larger documents have, because they list sites, groups or counts.
    listing_size : int
        Bytes of a document with one of these fields.

    Examples
    --------
    >>> from fedconformal.documents import SizeLimit
    >>> SizeLimit(size=1024, items=3).problem("[1, 2, 3, 4, 5]")
    'more than 3 items in it'
    """

    size: int
    items: int
    listing: tuple[str, ...] = ()
    listing_size: int = 0

    @property
    def largest(self) -> int:
        """Bytes that any document of this kind may have."""
        return max(self.size, self.listing_size)

    def problem(self, text: str | bytes) -> str | None:
        """Return the reason why a text is too large to be parsed, if it is.

        Parameters
        ----------
        text : str or bytes
            The text of a document.

        Returns
        -------
        str or None
            The reason.
        """
        if len(text) > self.largest:
            return f"larger than {_size(self.largest)}"
        raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        listing = any(f'"{field}"'.encode() in raw for field in self.listing)
        size = self.largest if listing else self.size
        if len(raw) > size:
            without = "" if listing or not self.listing else " or ".join(map(repr, self.listing))
            return f"larger than {_size(size)}" + (f", without {without} in it" if without else "")
        if sum(raw.count(mark) for mark in (b",", b":", b"[", b"{")) > self.items:
            return f"more than {self.items:,} items in it"
        return None


def _size(count: int) -> str:
    return f"{count // 2**20} MB" if count >= 2**20 else f"{count // 2**10} KB"


PLAN = SizeLimit(2 * 2**20, 250_000, listing=("names", "edges"), listing_size=16 * 2**20)
REPORT = SizeLimit(64 * 2**10, 200_000, listing=("group", "counts"), listing_size=4 * 2**20)
CALIBRATION = SizeLimit(4 * 2**20, 500_000, listing=("site",), listing_size=32 * 2**20)
CHECK = SizeLimit(64 * 2**10, 20_000, listing=("groups",), listing_size=2**20)
