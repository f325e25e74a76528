"""``python -m fedconformal``."""

from fedconformal.terminal import run

run()
