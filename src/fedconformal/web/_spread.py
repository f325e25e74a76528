"""How much the coverage varies from one calibration to the next, for people."""

from fedconformal._text import floor_percent
from fedconformal.laws import Summary


def low_sentence(law: Summary, among: str = "") -> str:
    """Say which coverage all but one in 20 calibrations reach.

    Parameters
    ----------
    law : Summary
        The law of the coverage, or a bound of it.
    among : str
        Where the share covered is meant, as a promise says it: ``" at any one site"``.

    Returns
    -------
    str
        A sentence; its figure is rounded down.
    """
    if law.is_certain:
        return "The coverage is 100 %, because every prediction set holds everything."
    return (
        f"In at least 19 of 20 calibrations like this one, the share covered{among} is "
        f"{floor_percent(law.low)} or more."
    )


def equivalent_pool(law: Summary) -> int | None:
    """Return how many pooled cases would vary as much: a Beta law of this mean has variance p(1-p)/(N+2).

    Parameters
    ----------
    law : Summary
        The law of the coverage, or a bound of it.

    Returns
    -------
    int or None
        None where the coverage does not vary.
    """
    mean = law.mean
    return None if law.is_certain else max(1, round(mean * (1 - mean) / law.std**2) - 2)
