"""Exact noise on integers: laws, their samplers, and the source of the randomness."""

from recordwise.privacy.noise.bernoulli import bernoulli, bernoulli_exp
from recordwise.privacy.noise.integers import permutation, uniform_below
from recordwise.privacy.noise.laplace import DiscreteLaplace
from recordwise.privacy.noise.law import Law
from recordwise.privacy.noise.real import Real, exp, log
from recordwise.privacy.noise.source import Noise, SeededNoise, SystemNoise

__all__ = [
    "DiscreteLaplace",
    "Law",
    "Noise",
    "Real",
    "SeededNoise",
    "SystemNoise",
    "bernoulli",
    "bernoulli_exp",
    "exp",
    "log",
    "permutation",
    "uniform_below",
]
