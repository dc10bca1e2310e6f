"""Step 1, represent: samples become vectors, by functions of public data alone."""

from recordwise.encoders.fingerprint import fingerprint
from recordwise.encoders.hog import Hog
from recordwise.encoders.module import TorchEncoder, as_tensor
from recordwise.encoders.spec import encode, encoder_from
from recordwise.encoders.table import Table
from recordwise.encoders.text import Text
from recordwise.encoders.vectors import Pca, Scaler

__all__ = [
    "Hog",
    "Pca",
    "Scaler",
    "Table",
    "Text",
    "TorchEncoder",
    "as_tensor",
    "encode",
    "encoder_from",
    "fingerprint",
]
