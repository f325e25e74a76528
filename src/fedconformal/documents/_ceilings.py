"""How large a document may be: every ceiling and every limit in one place.

A reader looks at the bytes first: how many there are, and how many items they can hold. So nobody's file
costs more than a second or so and some hundred megabytes, whatever is in it. The limits on content keep
what follows from a document, such as its law, as affordable as reading it.
"""

from dataclasses import dataclass

LARGEST_N = 2**30
"""No site has more scores than this."""
LARGEST_ADVICE = 2**40  # no advice, and no denominator of a private quantile, is larger than this
MOST_SITES = 10**7
"""No plan has more; they may have names only as far as these fit into a plan."""
MOST_LEVELS = 100
"""No plan has more confidence levels than this."""
MOST_GROUPS = 1000  # no plan has more groups of points than this
MOST_CLASSES = 10_000  # no plan names more classes than this
MOST_EDGES = 10_000  # no private plan has more bins than this
MOST_DRAWS = 100_000  # bins times levels times groups: what a private site weighs up to draw its answer
MOST_LEVELS_OF_GROUPS = 2_000  # levels times groups of a plan
MOST_NAMED = 50_000  # names of sites in one list
MOST_SENT = 500  # numbers that a plan may ask a site for, over all levels, in each group
MOST_COLUMNS = 5
"""Columns whose values a check tells apart."""
MOST_CHECKED = 100
"""Combinations of values that a check tells apart."""
MOST_FIELDS = 100  # no object in a document has more fields than this
LONGEST_REASON = 400  # characters of the source of a refusal, or of its reason


def check_work(n_levels: int, n_bins: int) -> None:
    """Refuse a plan that is too much work to answer.

    A private answer weighs every bin for each level and group, while it holds the ledger's lock.

    Parameters
    ----------
    n_levels : int
        Levels times groups.
    n_bins : int
        Bins of private reports; 0 where reports are not private.

    Raises
    ------
    ValueError
        In one line.

    Examples
    --------
    >>> from fedconformal.documents import check_work
    >>> check_work(n_levels=3, n_bins=100)
    """
    if n_levels > MOST_LEVELS_OF_GROUPS:
        raise ValueError(f"levels times groups must be at most {MOST_LEVELS_OF_GROUPS:,}, got {n_levels:,}")
    draws = n_levels * n_bins
    if draws > MOST_DRAWS:
        raise ValueError(
            f"bins times levels times groups must be at most {MOST_DRAWS:,} where reports are private, "
            f"got {draws:,}"
        )


@dataclass(frozen=True)
class Ceiling:
    """How large one kind of document may be.

    Parameters
    ----------
    size : int
        Bytes of an ordinary one.
    items : int
        Values, lists, objects and fields.
    listing : str, optional
        The field that a larger one has: it lists the names of sites, or groups.
    listing_size : int
        Bytes of such a one.

    Examples
    --------
    >>> from fedconformal.documents import Ceiling
    >>> Ceiling(size=1024, items=3).problem("[1, 2, 3, 4, 5]")
    'more than 3 items in it'
    """

    size: int
    items: int
    listing: str | None = None
    listing_size: int = 0

    @property
    def largest(self) -> int:
        """Bytes that any document of this kind may have."""
        return max(self.size, self.listing_size)

    def problem(self, text: str | bytes) -> str | None:
        """What speaks against parsing a text; None if nothing does.

        Parameters
        ----------
        text : str or bytes
            What claims to be such a document.

        Returns
        -------
        str or None
            In words.
        """
        if len(text) > self.largest:
            return f"larger than {_size(self.largest)}"
        raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        listing = self.listing is not None and f'"{self.listing}"'.encode() in raw
        size = self.largest if listing else self.size
        if len(raw) > size:
            return f"larger than {_size(size)}" + (
                "" if listing or self.listing is None else f", without {self.listing!r} in it"
            )
        if sum(raw.count(mark) for mark in (b",", b":", b"[", b"{")) > self.items:
            return f"more than {self.items:,} items in it"
        return None


def _size(count: int) -> str:
    return f"{count // 2**20} MB" if count >= 2**20 else f"{count // 2**10} KB"


PLAN = Ceiling(2 * 2**20, 250_000, listing="names", listing_size=16 * 2**20)
REPORT = Ceiling(64 * 2**10, 100_000, listing="label", listing_size=4 * 2**20)
CALIBRATION = Ceiling(4 * 2**20, 400_000, listing="site", listing_size=32 * 2**20)
CHECK = Ceiling(64 * 2**10, 20_000, listing="groups", listing_size=2**20)
