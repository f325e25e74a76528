"""``python -m fedconformal``."""

from fedconformal.cli import run

run()
