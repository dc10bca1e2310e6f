"""Step 7, teach: students that learn the pool from what was released."""

from recordwise.students.answers import class_probabilities
from recordwise.students.counts import Asked, Learnt, learn_from_counts
from recordwise.students.from_counts import FromCounts, reads_counts
from recordwise.students.held import Held
from recordwise.students.module import TorchStudent
from recordwise.students.per_class import PerClass
from recordwise.students.shallow import Linear, Mlp
from recordwise.students.spec import StudentSettings, student_from
from recordwise.students.teach import learn, refuse_weights, teach, try_student

__all__ = [
    "Asked",
    "FromCounts",
    "Held",
    "Learnt",
    "Linear",
    "Mlp",
    "PerClass",
    "StudentSettings",
    "TorchStudent",
    "class_probabilities",
    "learn",
    "learn_from_counts",
    "reads_counts",
    "refuse_weights",
    "student_from",
    "teach",
    "try_student",
]
