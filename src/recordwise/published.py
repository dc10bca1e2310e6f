"""What a run leaves to be used: a student with all it needs to read a sample, stored as data that runs nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recordwise import stored
from recordwise.data import Samples, Schema
from recordwise.durable import make_folder, write_whole
from recordwise.encoders import Manner, TorchEncoder, encode_public
from recordwise.errors import InvalidInput, MissingExtra, shown
from recordwise.formats import content_of
from recordwise.hashing import fingerprint
from recordwise.privacy.guarantee import Guarantee, members
from recordwise.progress import part
from recordwise.students import class_probabilities, student_from

FILE, FORMAT = "student.npz", "recordwise-student-1"


@dataclass(frozen=True, kw_only=True, eq=False)
class Published:
    """A classifier that needs neither records nor ledger.

    Attributes:
      schema: How a sample is read.
      manner: How the encoder is used.
      student_input: What the student is shown: "vectors", which the encoder makes, or the "samples" themselves.
      classes_: What the student's answers are called.
      guarantee_: What it promises any one private record; prints as the sentence to publish.
    """

    schema: Schema
    encoder: Any
    manner: Manner
    student: Any
    student_input: str
    classes_: NDArray[Any]
    guarantee_: Guarantee

    def __post_init__(self) -> None:
        members(self, manner=Manner)
        if self.student_input not in ("vectors", "samples"):
            raise InvalidInput(f"student_input must be 'vectors' or 'samples', got {shown(self.student_input)}")

    def predict(self, X: Samples) -> NDArray[Any]:
        """The class of each sample; a 0/1 matrix of classes where a record may have several."""
        return self._named(self.student.predict(self._material(X)))

    def predict_proba(self, X: Samples) -> NDArray[np.float64]:
        """(n, C) the probability of each class, in the order of `classes_`."""
        return class_probabilities(self.student, self._material(X), len(self.classes_))

    def answers(self, X: Samples) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """What `predict` and `predict_proba` say, with the samples encoded once."""
        material = self._material(X)
        named = self._named(self.student.predict(material))
        return named, class_probabilities(self.student, material, len(self.classes_))

    def _named(self, predicted: Any) -> NDArray[Any]:
        found = np.asarray(predicted)
        return found if found.ndim == 2 else self.classes_[found]

    def score(self, X: Samples, y: ArrayLike) -> float:
        """The share of samples whose class, or whole set of classes, is right."""
        right = self.predict(X) == np.asarray(y)
        return float((right if right.ndim == 1 else right.all(axis=1)).mean())

    def _material(self, X: Samples) -> Samples:
        with part(0.0, 0.3):
            X = self.schema.pool(X, "X")
        with part(0.3, 1.0):
            return encode_public(self.encoder, X, manner=self.manner) if self.student_input == "vectors" else X


def save(model: Any, folder: str | Path) -> Path:
    """Write a student, with its encoder, its schema and its guarantee, to `student.npz` in a folder.

    A network of your own as student is stored as its weights. An encoder of your own that cannot be written down as
    data is named by its fingerprint. `load` has to be given both again. With the extra `skops` most of scikit-learn
    can be written down.

    Args:
      model: A fitted `PrivateDistiller`, or what `load` gave.

    Returns:
      Where it lies.
    """
    one: Published = model if isinstance(model, Published) else model.published()
    content = stored.to_bytes({"format": FORMAT, **vars(one)}, foreign=True)
    kept = stored.from_bytes(content, foreign=True)["student"]
    if isinstance(kept, stored.Absent) and kept.weights is None:
        raise InvalidInput(
            f"student {kept.kind} cannot be written down as data: pip install 'recordwise[skops]', or teach another"
        )
    make_folder(folder)
    path = Path(folder) / FILE
    write_whole(path, content)
    return path


def load(folder: str | Path, *, encoder: Any = None, student: Any = None, trusted: Collection[str] = ()) -> Published:
    """The student that `save` or `recordwise run` left in a folder. Reading it runs no code that it brings.

    Args:
      encoder: Only where the stored one is your own: the fitted transformer, or the module, that was used.
      student: Only where the stored one is a network of your own: a module of the same layers, or a `TorchStudent`.
      trusted: Types beyond those that skops trusts, which it may build. Their code runs.
    """

    def bring(parts: dict[str, Any]) -> None:
        parts["encoder"] = _brought(parts["encoder"], encoder)
        parts["student"] = _taught(parts["student"], student, len(parts["classes_"]))

    return _opened(folder, trusted, bring)


def as_stored(folder: str | Path) -> Published:
    """The same for handing it on: a part that `load` would have to be brought is a `stored.Absent`."""
    return _opened(folder, (), lambda parts: None)


def _opened(folder: str | Path, trusted: Collection[str], bring: Callable[[dict[str, Any]], None]) -> Published:
    path = Path(folder) / FILE
    try:
        content = content_of(path)
    except InvalidInput as fault:
        raise InvalidInput(f"a student could not be read from {str(folder)!r}: {fault}") from fault
    try:
        parts = stored.from_bytes(content, foreign=True, trusted=trusted)
        if not (isinstance(parts, dict) and parts.pop("format", None) == FORMAT):
            raise InvalidInput("must be a student of this version")
        bring(parts)
        return Published(**parts)
    except (MissingExtra, _NotBrought):
        raise
    except (InvalidInput, LookupError, TypeError, AttributeError) as fault:
        raise InvalidInput(f"{str(path)!r} must be what recordwise.save wrote, it is not: it {fault}") from fault


class _NotBrought(InvalidInput):
    """A part that the caller of `load` has to bring."""


def _brought(kept: Any, given: Any) -> Any:
    """The encoder: as it was stored, or the one that was given if it is the same."""
    if not isinstance(kept, stored.Absent):
        return kept
    if given is None:
        raise _NotBrought(f"the encoder, a {shown(kept.kind)}, was not stored: load(folder, encoder=...) must bring it")
    encoder = TorchEncoder(given) if callable(getattr(given, "state_dict", None)) else given
    if fingerprint(encoder) != kept.digest:
        raise _NotBrought(f"encoder must be the one that the student learned with, a fitted {shown(kept.kind)}")
    return encoder


def _taught(kept: Any, given: Any, num_classes: int) -> Any:
    """The student: as it was stored, or the given network with the stored weights."""
    if not isinstance(kept, stored.Absent):
        return kept
    if given is None or kept.weights is None:
        raise _NotBrought(f"the student, a {shown(kept.kind)}, needs load(folder, student=...) to bring its network")
    return student_from(given, seed=0).with_weights(kept.weights, num_classes)
