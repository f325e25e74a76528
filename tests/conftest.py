"""Tests lie in folders like those of the package; what they share is imported by its plain name."""

import sys
from pathlib import Path

from hypothesis import settings

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), *sorted(str(folder) for folder in HERE.glob("[a-z]*/"))]

settings.register_profile("fedconformal", deadline=None, derandomize=True)
settings.load_profile("fedconformal")
