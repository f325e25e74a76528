"""Seconds of an ordinary machine."""

import time

ORDINARY = 0.07
"""Seconds in which an ordinary machine counts to a million, as below."""


def seconds(ordinary):
    """So many seconds of an ordinary machine, on this one as it is now; never fewer."""
    return ordinary * max(1.0, min(_counting() for _ in range(3)) / ORDINARY)


def _counting():
    start, total = time.process_time(), 0
    for i in range(1_000_000):
        total += i * i % 7
    return time.process_time() - start
