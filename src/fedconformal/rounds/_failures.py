"""Why a site sent no report: a fixed code, and nothing else, leaves the site."""

import enum


class Failure(enum.IntEnum):
    """Why a site sent no report. The number is all that travels; the reason stays in the site's own log."""

    SITE = 100
    PLAN = 101
    SCORES = 102
    REPORT = 103
    BUDGET = 104
    POLICY = 105
    CALIBRATION = 106

    @property
    def meaning(self) -> str:
        """The code in words, the same for every site and every error."""
        return _MEANINGS[self]

    @classmethod
    def meaning_of(cls, code: int | str, engine: str) -> str:
        """A code in words, which may be one of the engine's own.

        Parameters
        ----------
        code : int or str
            What came instead of a report.
        engine : str
            What the engine is called.

        Returns
        -------
        str
            The meaning; whatever text came with the code is not repeated.
        """
        return cls(code).meaning if code in set(cls) else f"{engine}'s error code {code}"


_MEANINGS = {
    Failure.SITE: "the site failed; its own log says why",
    Failure.PLAN: "the site could not read the plan; its own log says why",
    Failure.SCORES: "the site could not compute its scores; its own log says why",
    Failure.REPORT: "the site could not answer this plan; its own log says why",
    Failure.BUDGET: "the site's privacy ledger refused an answer; its own log says why",
    Failure.POLICY: "the site's policy does not allow this answer; its own log says why",
    Failure.CALIBRATION: "the site could not read the calibration; its own log says why",
}
