"""Imported for its refusal: the extra `flower` brings Flower, which simulates devices."""

from recordwise.extras.asking import ask_for

ask_for("flower", "flwr")
