"""A release as bytes, for the ledger and the wire: plain arrays and JSON, nothing that runs when it is read."""

from __future__ import annotations

import io
import json
from dataclasses import fields
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import LedgerFault
from recordwise.privacy.guarantee import Guarantee
from recordwise.privacy.noise import DiscreteGaussian, DiscreteLaplace, Normal, PolyaDifference
from recordwise.protocols.local.law import SumOfEstimates
from recordwise.tally import Assigned, Choices, Matched, Release, Tally
from recordwise.votes.ballot import Ballot

LAWS: dict[str, Any] = {
    law.__name__: law for law in (DiscreteLaplace, DiscreteGaussian, PolyaDifference, Normal, SumOfEstimates)
}

CHOICES = {kind.__name__: kind for kind in (Choices, Matched)}


def pack(release: Release) -> bytes:
    """A release as bytes."""
    about: dict[str, Any] = {
        "release": type(release).__name__,
        "ballot": _plain(release.ballot),
        "guarantee": release.guarantee.to_json(),
    }
    arrays: dict[str, NDArray[Any]]
    if isinstance(release, Tally):
        about |= {"law": type(release.law).__name__, "parameters": _plain(release.law)}
        arrays = {"array": release.estimate}
    elif isinstance(release, Assigned):
        about |= {"purity": release.purity}
        arrays = {"array": release.chosen, "chances": release.chances}
    else:
        about |= {"scale": str(release.scale)}
        arrays = {"array": release.chosen}
    file = io.BytesIO()
    np.savez(file, about=np.frombuffer(json.dumps(about).encode(), dtype=np.uint8), **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def unpack(content: bytes) -> Release:
    """The release that `pack` wrote."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            about, array = json.loads(file["about"].tobytes()), file["array"]
            chances = file["chances"] if about["release"] == Assigned.__name__ else None
        ballot = Ballot(**about["ballot"])
        guarantee = Guarantee(**about["guarantee"])
        if chances is not None:
            return Assigned(ballot, guarantee, array, chances, float(about["purity"]))
        if about["release"] in CHOICES:
            return CHOICES[about["release"]](ballot, guarantee, array, Fraction(about["scale"]))
        parameters = {name: Fraction(v) if isinstance(v, str) else v for name, v in about["parameters"].items()}
        return Tally(ballot, guarantee, array, LAWS[about["law"]](**parameters))
    except (ValueError, KeyError, TypeError, OSError) as fault:
        raise LedgerFault(f"a release could not be read back: {fault}") from fault


def _plain(value: Any) -> dict[str, Any]:
    """A dataclass of numbers and names as JSON: fractions become strings, everything else stays as it is."""
    shown = {field.name: getattr(value, field.name) for field in fields(value)}
    return {name: str(one) if isinstance(one, Fraction) else one for name, one in shown.items()}
