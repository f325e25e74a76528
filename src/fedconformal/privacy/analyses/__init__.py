"""Analyses: how much noise a private release gets, and which plan goes with it. A class each."""

from fedconformal.privacy.analyses._base import ANALYSES, Analysis
from fedconformal.privacy.analyses._paper import Paper
from fedconformal.privacy.analyses._search import PrivateChoice, PrivateSearch
from fedconformal.privacy.analyses._tight import Tight

__all__ = ["ANALYSES", "Analysis", "Paper", "PrivateChoice", "PrivateSearch", "Tight"]
