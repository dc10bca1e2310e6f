"""Imported for its refusal: the extra `federation` brings cryptography."""

from recordwise.extras.asking import ask_for

ask_for("federation", "cryptography")
