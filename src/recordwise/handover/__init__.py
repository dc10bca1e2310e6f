"""What is handed over after a run: files that anybody can use, and that run nothing when they are read."""

from recordwise.handover.folder import hand_over
from recordwise.handover.labelled import Labelled, names_of
from recordwise.handover.predicting import predict_file

__all__ = ["Labelled", "hand_over", "names_of", "predict_file"]
