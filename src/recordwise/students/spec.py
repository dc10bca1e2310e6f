"""Students by name, as a job file writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

from numpy.typing import NDArray
from sklearn.base import clone

from recordwise.errors import InvalidInput, shown
from recordwise.plugins import brought
from recordwise.randomness import seeded
from recordwise.settings import Settings
from recordwise.students.from_counts import FromCounts, reads_counts
from recordwise.students.held import Held
from recordwise.students.module import TorchStudent
from recordwise.students.shallow import Linear, Mlp
from recordwise.students.weights import check_threshold, weights_in_order

COUNTS = "counts"
_BY_NAME: dict[str, Callable[..., Any]] = {COUNTS: FromCounts, "linear": Linear, "mlp": Mlp, "held": Held}
VECTORS, SAMPLES = "vectors", "samples"  # what a student learns from


@dataclass(frozen=True)
class StudentSettings(Settings):
    """Who learns the pool, and from what.

    Attributes:
      model: As `student_from` takes it.
      input: "vectors" (what the encoder makes) or "samples" (the raw pool: what "held" learns from unless told).
    """

    of: ClassVar[str] = "student"
    model: Any = COUNTS
    _: KW_ONLY
    input: str = VECTORS

    def __post_init__(self) -> None:
        student_from(self.model, seed=0)  # refuses what is no student
        if self.input not in (VECTORS, SAMPLES):
            raise InvalidInput(f"student.input must be {VECTORS!r} or {SAMPLES!r}, got {self.input!r}")

    @classmethod
    def given(cls, spec: Any) -> Self:
        """Settings are a name with the settings of that student, or a model of the caller's own; and the input."""
        if isinstance(spec, cls):
            return spec
        if not isinstance(spec, Mapping):
            return cls(spec, input=_own_input(spec))
        held = {name: value for name, value in spec.items() if name != "input"}
        model = held.pop("model") if set(held) == {"model"} else held or COUNTS
        return cls(model, input=spec.get("input", _own_input(model)))

    def placed(self, classes: NDArray[Any], *, several: bool = False) -> Self:
        """The same where these are the classes; see `placed`."""
        return replace(self, model=placed(self.model, classes, several=several))


def _own_input(model: Any) -> str:
    """What a student learns from where nobody says."""
    name = model.get("name") if isinstance(model, Mapping) else model
    kind = _BY_NAME.get(name) if isinstance(name, str) else model
    return str(getattr(kind, "own_input", VECTORS))


def placed(spec: Any, classes: NDArray[Any], *, several: bool = False) -> Any:
    """The same student with weights by the place of each class, not by its name: places are what it is taught.

    Args:
      spec: As `student_from` takes it.
      several: Whether a sample may have several classes. A classifier then learns yes or no, and weighs those.
    """
    named = isinstance(spec, Mapping)
    if not named and (isinstance(spec, type) or not hasattr(spec, "get_params")):
        return spec
    settings: dict[str, Any] = dict(spec) if named else spec.get_params(deep=not reads_counts(spec))
    own = settings.get("name") in _BY_NAME if named else isinstance(spec, FromCounts | Linear | Mlp)
    changed: dict[str, Any] = {}
    for name, value in settings.items():
        setting = name.split("__")[-1]
        if value is None or setting not in ("class_weight", "threshold", "teaches"):
            continue
        if own and several and setting != "teaches":
            raise InvalidInput(
                f"student.{setting} needs one label per record, got {shown(value)} where it may have more"
            )
        if own and setting == "teaches":
            changed[name] = placed(value, classes, several=several)
        elif own and setting == "threshold":
            check_threshold(value, len(classes))
        elif setting == "class_weight" and not isinstance(value, str) and not several:
            changed[name] = dict(enumerate(weights_in_order(value, classes).tolist()))
    if not changed:
        return spec
    return {**settings, **changed} if named else clone(spec).set_params(**changed)


def student_from(spec: Any, *, seed: int) -> Any:
    """A student, not yet fitted.

    Args:
      spec: A name ("counts", "linear", "mlp", "held"), a name with settings such as {"name": "mlp", "hidden": [64]}, a
        scikit-learn classifier, which is copied, or a PyTorch module that gives logits.
      seed: Of students that are randomized and whose settings name no other.
    """
    if isinstance(spec, str | Mapping):
        settings: dict[str, Any] = {"name": spec} if isinstance(spec, str) else dict(spec)
        name = settings.pop("name", None)
        kind = _BY_NAME[name] if name in _BY_NAME else brought("students", name)
        if kind is None:
            raise InvalidInput(f"student must be one of {', '.join(_BY_NAME)}, got {name!r}")
        known = kind().get_params()
        for setting in settings:
            if setting not in known:
                raise InvalidInput(f"student {name!r} has no setting {setting!r}, it has {', '.join(known)}")
        if "seed" in known:
            settings.setdefault("seed", seed)
        return kind(**settings)
    if reads_counts(spec) and not isinstance(spec, type):
        return clone(spec)
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
