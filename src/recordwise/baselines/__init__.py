"""Other private ways to the same classifier, fed the same data and compared on the same page."""

from recordwise.baselines.noisy_sgd import NoisySGDHead

__all__ = ["NoisySGDHead"]
