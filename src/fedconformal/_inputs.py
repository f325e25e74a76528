"""Standard input, which can stand for one file."""

import sys
from pathlib import Path

STANDARD = Path("-")
"""Stands for standard input, or output."""


def standard_input(most: int = -1) -> bytes:
    """Read standard input.

    Parameters
    ----------
    most : int
        How many bytes at the most; all of them if negative.

    Returns
    -------
    bytes

    Raises
    ------
    ValueError
        If there is nothing, as when it was read for another file.
    """
    data = sys.stdin.buffer.read(most)
    if not data:
        raise ValueError("standard input: is empty; - can stand for one file only")
    return data
