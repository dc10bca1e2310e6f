"""Step 1, represent: samples become vectors, by functions of public data alone."""

from recordwise.encoders.encoding import Manner, encode, encode_public, how_encoded
from recordwise.encoders.hog import Hog
from recordwise.encoders.joined import Joined
from recordwise.encoders.module import TorchEncoder, as_tensor
from recordwise.encoders.sharpened import Sharpened
from recordwise.encoders.spec import encoder_from
from recordwise.encoders.table import Table
from recordwise.encoders.text import Text
from recordwise.encoders.universal import UniversalSentences
from recordwise.encoders.vectors import Pca, Scaler
from recordwise.hashing import fingerprint

__all__ = [
    "Hog",
    "Joined",
    "Manner",
    "Pca",
    "Scaler",
    "Sharpened",
    "Table",
    "Text",
    "TorchEncoder",
    "UniversalSentences",
    "as_tensor",
    "encode",
    "encode_public",
    "encoder_from",
    "fingerprint",
    "how_encoded",
]
