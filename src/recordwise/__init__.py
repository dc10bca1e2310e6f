"""Label public data with private records; protect every single record."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recordwise.distiller import PrivateDistiller
    from recordwise.planner import plan, predict
    from recordwise.privacy.guarantee import Guarantee, Neighbours, Trust, Unit
    from recordwise.privacy.ledger import Ledger
    from recordwise.privacy.noise import SeededNoise, SystemNoise
    from recordwise.protocols.terms import Terms
    from recordwise.published import load, save
    from recordwise.report import summarize, write_report
    from recordwise.votes import Ballot

__version__ = "0.1.0"
__all__ = [
    "Ballot",
    "Guarantee",
    "Ledger",
    "Neighbours",
    "PrivateDistiller",
    "SeededNoise",
    "SystemNoise",
    "Terms",
    "Trust",
    "Unit",
    "load",
    "plan",
    "predict",
    "save",
    "summarize",
    "write_report",
]

# Loaded when first asked for: importing the package stays quick, and a device never loads what it does not use.
_HOMES = {
    "Ballot": "recordwise.votes",
    "Guarantee": "recordwise.privacy.guarantee",
    "Ledger": "recordwise.privacy.ledger",
    "Neighbours": "recordwise.privacy.guarantee",
    "PrivateDistiller": "recordwise.distiller",
    "SeededNoise": "recordwise.privacy.noise",
    "SystemNoise": "recordwise.privacy.noise",
    "Terms": "recordwise.protocols.terms",
    "Trust": "recordwise.privacy.guarantee",
    "Unit": "recordwise.privacy.guarantee",
    "load": "recordwise.published",
    "plan": "recordwise.planner",
    "predict": "recordwise.planner",
    "save": "recordwise.published",
    "summarize": "recordwise.report",
    "write_report": "recordwise.report",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'recordwise' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
