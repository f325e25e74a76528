"""How much may be asked of the planner at once; the command line and the library have no such limits."""

MOST_SITES = 10_000
MOST_POINTS = 1_000_000
MOST_SIZES = 40
"""Different sizes in a list."""
MOST_SITES_BY_SIZES = 4_000
"""Sites times different sizes."""
MOST_FAULTY_SIZES = 5
MOST_FAULTY_SITES_BY_SIZES = 400
MOST_PRIVATE_POINTS = 10_000
"""Different sizes added up, where reports are private."""
MOST_PRIVATE_SIZES = 12
MOST_NUMBERS_BY_SIZES = 120
"""Numbers of a site times different sizes, where sizes differ."""
MOST_WISH_NUMBERS = 5
MOST_BINS = 1_000
MOST_PRIVATE_WISH_SITES = 1_000
MOST_PRIVATE_WISH_POINTS = 2_000
MOST_BYTES = 128 * 1024
"""Of the body of a request."""

_HERE = "here; the command line takes any"


def check_sizes(different: set[int], n_sites: int, *, faulty: bool, private: bool, numbers: int = 1) -> None:
    """Refuse a federation whose plan would take too long while somebody waits.

    Parameters
    ----------
    different : set of int
        The different sizes of sites.
    n_sites : int
        How many sites there are.
    faulty : bool
        Whether some reports may be arbitrary.
    private : bool
        Whether reports are private.
    numbers : int
        How many numbers a site sends at the most.

    Raises
    ------
    ValueError
        With the limit, in one sentence.
    """
    _check_list(len(different), n_sites, "", MOST_SIZES, MOST_SITES_BY_SIZES)
    if len(different) > 1 and numbers * len(different) > MOST_NUMBERS_BY_SIZES:
        most = max(1, MOST_NUMBERS_BY_SIZES // len(different))
        raise ValueError(f"with {len(different)} different sizes, numbers may be up to {most} {_HERE}")
    if faulty:
        condition = "if sites may be wrong, "
        _check_list(len(different), n_sites, condition, MOST_FAULTY_SIZES, MOST_FAULTY_SITES_BY_SIZES)
    if private and len(different) > MOST_PRIVATE_SIZES:
        raise ValueError(f"with privacy, sites may have up to {MOST_PRIVATE_SIZES} different sizes {_HERE}")
    if private and sum(different) > MOST_PRIVATE_POINTS:
        raise ValueError(
            f"with privacy, the different sizes may add up to {MOST_PRIVATE_POINTS:,} cases {_HERE}"
        )


def _check_list(n_sizes: int, n_sites: int, condition: str, most_sizes: int, most_product: int) -> None:
    """Refuse too many different sizes, or too many sites for so many sizes."""
    if n_sizes == 1:
        return
    if n_sizes > most_sizes:
        raise ValueError(f"{condition}sites may have up to {most_sizes} different sizes {_HERE}")
    if n_sizes * n_sites > most_product:
        most = most_product // n_sizes
        raise ValueError(
            f"{condition}with {n_sizes} different sizes there may be up to {most:,} sites {_HERE}"
        )
