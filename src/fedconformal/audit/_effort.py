"""How much a recount may cost: whoever writes a hostile file must not keep an auditor busy for a day."""

from time import thread_time

STEP = 3000
"""Work of any step, however little it computes."""

_MOST_WORK = 1e9  # about as many nanoseconds
_MOST_SECONDS = 0.8  # of the processor, in case that work was underestimated, or the machine is busy


class UncountableError(ValueError):
    """A federation that cannot be recounted within seconds, and why."""


class Effort:
    """Adds up what all recounts of an audit cost, and stops them where that is too much.

    Parameters
    ----------
    times : float
        How many times the usual work may be done, which takes about a second.
    """

    def __init__(self, times: float = 1.0) -> None:
        self._left = times * _MOST_WORK
        self._end = thread_time() + times * _MOST_SECONDS

    def allows(self, work: float) -> bool:
        """Whether so much work can still be done.

        Parameters
        ----------
        work : float
            In nanoseconds, roughly.

        Returns
        -------
        bool
        """
        return work <= self._left and thread_time() < self._end

    def spend(self, work: float, what: str) -> None:
        """Count so much work more, before it is done.

        Parameters
        ----------
        work : float
            In nanoseconds, roughly.
        what : str
            What there is so much of, for the error.

        Raises
        ------
        UncountableError
            If that is too much.
        """
        if not self.allows(work):
            raise UncountableError(f"{what}: more than can be recounted within seconds")
        self._left -= work
