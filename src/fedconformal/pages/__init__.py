"""What people read in a browser: a certificate, and the words and pictures the planner shares with it."""

from fedconformal.pages._certificate import certificate

__all__ = ["certificate"]
