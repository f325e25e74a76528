"""How much a recount may cost: whoever writes a hostile file must not keep an auditor busy for a day."""

STEP = 3000
"""Work of any step, however little it computes."""

_MOST_WORK = 3e9  # operations on numbers, of a few nanoseconds each


class UncountableError(ValueError):
    """A federation that cannot be recounted within seconds, and why."""


class Effort:
    """Adds up what a recount costs, and stops it where that is too much."""

    def __init__(self) -> None:
        self._left = _MOST_WORK

    def spend(self, work: float, what: str) -> None:
        """Count so much work more, before it is done.

        Parameters
        ----------
        work : float
            How many operations on numbers.
        what : str
            What there is so much of, for the error.

        Raises
        ------
        UncountableError
            If that is too much for a few seconds.
        """
        self._left -= work
        if self._left < 0:
            raise UncountableError(f"{what}: more than can be recounted within seconds")
