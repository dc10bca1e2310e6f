"""What a taught student answers, for every class."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.data.samples import Samples


def class_probabilities(student: Any, samples: Samples, num_classes: int) -> NDArray[np.float64]:
    """(n, C) the student's probabilities; zero for classes it was never taught."""
    probabilities = np.asarray(student.predict_proba(samples), dtype=np.float64)
    full = np.zeros((len(probabilities), num_classes))
    full[:, np.asarray(student.classes_, dtype=np.int64)] = probabilities
    return full
