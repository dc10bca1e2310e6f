"""Exact noise on integers: laws, their samplers, and the source of the randomness."""

from recordwise.privacy.noise.choice import chance_of_the_best, permute_and_flip
from recordwise.privacy.noise.coins import bernoulli, bernoulli_exp
from recordwise.privacy.noise.estimates import SumOfEstimates
from recordwise.privacy.noise.gaussian import DiscreteGaussian
from recordwise.privacy.noise.integers import permutation, uniform_below
from recordwise.privacy.noise.laplace import DiscreteLaplace
from recordwise.privacy.noise.law import Law
from recordwise.privacy.noise.matching import chance_of_the_matching, exponential_matching
from recordwise.privacy.noise.negative_binomial import NegativeBinomial
from recordwise.privacy.noise.normal import Normal
from recordwise.privacy.noise.polya import PolyaDifference
from recordwise.privacy.noise.real import Real, exp, log
from recordwise.privacy.noise.source import Noise, SeededNoise, SystemNoise

__all__ = [
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Law",
    "NegativeBinomial",
    "Noise",
    "Normal",
    "PolyaDifference",
    "Real",
    "SeededNoise",
    "SumOfEstimates",
    "SystemNoise",
    "bernoulli",
    "bernoulli_exp",
    "chance_of_the_best",
    "chance_of_the_matching",
    "exp",
    "exponential_matching",
    "log",
    "permutation",
    "permute_and_flip",
    "uniform_below",
]
