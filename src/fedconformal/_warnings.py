"""Warnings that point at the user's own line, however deep in the package something was noticed."""

import sys
import warnings
from pathlib import Path

_PACKAGE = str(Path(__file__).parent)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line that is not of this package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
