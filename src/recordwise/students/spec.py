"""Students by name, as a job file writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sklearn.base import clone

from recordwise.errors import InvalidInput
from recordwise.randomness import seeded
from recordwise.students.from_counts import FromCounts
from recordwise.students.module import TorchStudent
from recordwise.students.shallow import Linear, Mlp

COUNTS = "counts"
_BY_NAME: dict[str, Callable[..., Any]] = {COUNTS: FromCounts, "linear": Linear, "mlp": Mlp}


def student_from(spec: Any, *, seed: int) -> Any:
    """A student, not yet fitted.

    Args:
      spec: A name ("counts", "linear", "mlp"), a name with settings such as {"name": "mlp", "hidden": [64]}, a
        scikit-learn classifier, which is copied, or a PyTorch module that gives logits.
      seed: Of students that are randomized and whose settings name no other.
    """
    if isinstance(spec, str | Mapping):
        settings: dict[str, Any] = {"name": spec} if isinstance(spec, str) else dict(spec)
        name = settings.pop("name", None)
        if name not in _BY_NAME:
            raise InvalidInput(f"student must be one of {', '.join(_BY_NAME)}, got {name!r}")
        known = _BY_NAME[name]().get_params()
        for setting in settings:
            if setting not in known:
                raise InvalidInput(f"student {name!r} has no setting {setting!r}, it has {', '.join(known)}")
        if "seed" in known:
            settings.setdefault("seed", seed)
        return _BY_NAME[name](**settings)
    if (
        not isinstance(spec, type)
        and hasattr(spec, "fit")
        and hasattr(spec, "predict_proba")
        and hasattr(spec, "get_params")
    ):
        student = clone(spec)
        for setting, value in student.get_params().items():
            if value is None and setting.split("__")[-1] == "random_state":
                student.set_params(**{setting: int(seeded(seed, "student", setting).integers(2**31))})
        return student
    if callable(getattr(spec, "state_dict", None)):
        return TorchStudent(spec, seed=seed)
    raise InvalidInput(
        f"student must be a name, settings with a name, a classifier with predict_proba or a torch module, got {spec!r}"
    )
