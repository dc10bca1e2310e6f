"""Settings of one part of a run: a name, a mapping that reads like the table of a job file, or an object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from recordwise.errors import InvalidInput, shown

AUTO = "auto"  # what a user writes to leave a choice to Recordwise


@dataclass(frozen=True)
class Settings:
    """What one parameter of `PrivateDistiller` sets. Subclasses check their values when they are made.

    Attributes:
      of: The parameter.
      by_name: Whether text alone is a name, of the first field; where it is not, None stands for the defaults.
    """

    of: ClassVar[str]
    by_name: ClassVar[bool] = True

    @classmethod
    def given(cls, spec: Any) -> Self:
        """The settings that a user wrote down, in whichever form; what is not known is refused."""
        if isinstance(spec, cls):
            return spec
        if cls.by_name and isinstance(spec, str):
            return cls(spec)  # type: ignore[call-arg]  # subclasses have fields
        if not cls.by_name and spec is None:
            return cls()
        if not isinstance(spec, Mapping):
            wanted = "a name, settings" if cls.by_name else "settings"
            raise InvalidInput(f"{cls.of} must be {wanted} or {cls.__name__}, got {shown(spec)}")
        known = [field.name for field in fields(cls)]
        for name in spec:
            if name not in known:
                raise InvalidInput(f"{cls.of} has no setting {name!r}, it has {', '.join(known)}")
        return cls(**spec)

    def values(self) -> dict[str, Any]:
        """Every setting by its full name, such as "trust.parties"; what has the parameter's name by that."""
        return {
            self.of if self.by_name and place == 0 else f"{self.of}.{field.name}": getattr(self, field.name)
            for place, field in enumerate(fields(self))
        }
