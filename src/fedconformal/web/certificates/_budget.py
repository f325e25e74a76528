"""How long a page may take: whoever sends a hostile calibration must not keep its reader waiting."""

from time import thread_time

_MOST_SECONDS = 0.4  # for all laws of a page
_MOST_NUMBERS = 2000  # of one law


class Budget:
    """Which laws can be shown: those that take a fraction of a second.

    Parameters
    ----------
    times : float
        How many times longer the page may take.
    """

    def __init__(self, times: float = 1.0) -> None:
        self._times = times
        self._end = thread_time() + times * _MOST_SECONDS

    def allows(self, n_numbers: int) -> bool:
        """Whether there is time for a law of so many different numbers.

        Parameters
        ----------
        n_numbers : int
            That sites sent.

        Returns
        -------
        bool
        """
        return n_numbers <= self._times * _MOST_NUMBERS and thread_time() < self._end
