"""Mechanisms: how a bin is drawn at random around a site's quantile. A class each."""

from fedconformal.privacy.mechanisms._base import MECHANISMS, Mechanism, Sampler
from fedconformal.privacy.mechanisms._exponential import Exponential
from fedconformal.privacy.mechanisms._permute_and_flip import PermuteAndFlip

__all__ = ["MECHANISMS", "Exponential", "Mechanism", "PermuteAndFlip", "Sampler"]
