"""What is handed over after a run: files that anybody can use, and that run nothing when they are read."""

from recordwise.handover.folder import hand_over
from recordwise.handover.predicting import predict_file

__all__ = ["hand_over", "predict_file"]
