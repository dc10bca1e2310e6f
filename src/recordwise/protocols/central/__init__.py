"""Central trust: an aggregator is trusted with exact counts and adds the noise."""

from recordwise.protocols.central.counts import ExactCounts
from recordwise.protocols.central.gaussian import CentralGaussian
from recordwise.protocols.central.laplace import CentralLaplace
from recordwise.protocols.central.matching import CentralMatching
from recordwise.protocols.central.permute_and_flip import CentralPermuteAndFlip

__all__ = ["CentralGaussian", "CentralLaplace", "CentralMatching", "CentralPermuteAndFlip", "ExactCounts"]
