"""Steps of a scikit-learn pipeline before ours: they would learn from private records, and nothing would protect them.

A pipeline fits its steps one after the other on the private records, keeps what they learned, and tells its last step
nothing about it. So the last step looks who is calling.
"""

from __future__ import annotations

import sys
from typing import Any

from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from recordwise.errors import InvalidInput


def refuse_fitted_steps() -> None:
    """Refuse to be fitted inside a pipeline, at whatever depth, that has fitted another step on the same records."""
    frame = sys._getframe(1)
    while frame is not None:
        caller = frame.f_locals.get("self")
        if isinstance(caller, Pipeline):
            for name, step in caller.steps[:-1]:
                if not _learned_nothing(step):
                    raise InvalidInput(
                        f"the pipeline's step {name!r} is fitted on private records, and nothing protects what it "
                        "learns; give it as encoder, which is fitted on the pool, or fit it on the pool and freeze it "
                        "(sklearn.frozen.FrozenEstimator)"
                    )
        frame = frame.f_back  # type: ignore[assignment]


def _learned_nothing(step: Any) -> bool:
    if isinstance(step, Pipeline):
        return all(_learned_nothing(part) for _, part in step.steps)
    return step is None or isinstance(step, FrozenEstimator) or step == "passthrough"
