"""Other private ways to the same classifier, fed the same data and compared on the same page."""

from recordwise.baselines.dp_linear import DPLinear
from recordwise.baselines.estimator import Facts, Rival
from recordwise.baselines.finetune import NoisySGDFineTune
from recordwise.baselines.gnmax import GNMax
from recordwise.baselines.ind_knn import IndKNN
from recordwise.baselines.knn import KNN
from recordwise.baselines.lnmax import LNMax
from recordwise.baselines.noisy_sgd import NoisySGD1, NoisySGD2
from recordwise.baselines.objective_perturbation import ObjectivePerturbation
from recordwise.baselines.private_knn import PrivateKNN
from recordwise.baselines.registry import rival, rivals

__all__ = [
    "KNN",
    "DPLinear",
    "Facts",
    "GNMax",
    "IndKNN",
    "LNMax",
    "NoisySGD1",
    "NoisySGD2",
    "NoisySGDFineTune",
    "ObjectivePerturbation",
    "PrivateKNN",
    "Rival",
    "rival",
    "rivals",
]
