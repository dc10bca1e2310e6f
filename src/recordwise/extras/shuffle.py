"""Imported for its refusal: the extra `shuffle` brings cryptography."""

from recordwise.extras.asking import ask_for

ask_for("shuffle", "cryptography")
