"""Which of several protocols to use: the one with the least noise, and the sentence that says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from recordwise.protocols.protocol import Protocol

AS_GOOD = 1.005  # deviations this close count as equal, and the shorter message decides

Kind = TypeVar("Kind", bound=Protocol[Any])


def least_noise(candidates: Sequence[Kind], num_records: int) -> Kind:
    """The protocol with the least predicted noise and, among equals, the shortest message.

    Predictions are functions of public parameters alone.
    """
    noise = [candidate.noise_std(num_records) for candidate in candidates]
    equals = [number for number, std in enumerate(noise) if std <= AS_GOOD * min(noise)]
    return candidates[min(equals, key=lambda number: (candidates[number].message_size, noise[number]))]


def reason(chosen: Protocol[Any], candidates: Sequence[Protocol[Any]], num_records: int) -> str:
    """Why `least_noise` took this one, beside the others it could have taken."""
    ranked = sorted(candidates, key=lambda candidate: candidate.noise_std(num_records))
    least = chosen.noise_std(num_records) <= ranked[0].noise_std(num_records)
    rank = "the least noise" if least else "the shortest message within half a percent of the least noise"
    others = ", ".join(_measured(other, num_records) for other in ranked if other != chosen)
    return f"{_measured(chosen, num_records)} has {rank}" + (f"; the others: {others}" if others else "")


def _measured(protocol: Protocol[Any], num_records: int) -> str:
    return f"{protocol.name} (std {protocol.noise_std(num_records):.4g}, {protocol.message_size} bytes)"
