"""Step 7, teach: students that learn the pool with its private labels."""

from recordwise.students.module import TorchStudent
from recordwise.students.per_class import PerClass
from recordwise.students.shallow import Linear, Mlp
from recordwise.students.spec import student_from
from recordwise.students.teach import class_probabilities, teach, try_student

__all__ = ["Linear", "Mlp", "PerClass", "TorchStudent", "class_probabilities", "student_from", "teach", "try_student"]
