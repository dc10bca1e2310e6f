"""The alternatives by name, as job files and results write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recordwise.baselines.dp_linear import DPLinear
from recordwise.baselines.estimator import Rival
from recordwise.baselines.gnmax import GNMax
from recordwise.baselines.ind_knn import IndKNN
from recordwise.baselines.knn import KNN
from recordwise.baselines.lnmax import LNMax
from recordwise.baselines.noisy_sgd import NoisySGD1, NoisySGD2
from recordwise.baselines.objective_perturbation import ObjectivePerturbation
from recordwise.baselines.private_knn import PrivateKNN
from recordwise.errors import InvalidInput

_ALL: tuple[type[Rival], ...] = (
    LNMax,
    GNMax,
    PrivateKNN,
    KNN,
    IndKNN,
    NoisySGD1,
    NoisySGD2,
    ObjectivePerturbation,
    DPLinear,
)


def rivals() -> dict[str, type[Rival]]:
    """Every alternative that runs on vectors, by its name."""
    return {kind.name: kind for kind in _ALL}


def rival(spec: str | Mapping[str, Any], **shared: Any) -> Rival:
    """An alternative, not yet fitted: a name, or a mapping with "name" and its own settings.

    Args:
      shared: What all methods of a comparison have in common: epsilon, delta, neighbours, classes and so on.
    """
    settings: dict[str, Any] = {"name": spec} if isinstance(spec, str) else dict(spec)
    name = settings.pop("name", None)
    if name not in rivals():
        raise InvalidInput(f"method must be one of recordwise, {', '.join(rivals())}, got {name!r}")
    known = rivals()[name]()._get_param_names()
    for setting in settings:
        if setting not in known:
            raise InvalidInput(f"method {name!r} has no setting {setting!r}, it has {', '.join(known)}")
    return rivals()[name](**{**shared, **settings})
