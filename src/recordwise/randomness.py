"""Experiment randomness: named, seeded, and never used for privacy."""

from __future__ import annotations

import zlib

import numpy as np


def seeded(seed: int, *path: str) -> np.random.Generator:
    """One independent generator per named purpose, so that a new stage moves no other stage's draws."""
    key = [zlib.crc32(part.encode()) for part in path]
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
