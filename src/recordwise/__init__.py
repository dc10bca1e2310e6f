"""Label public data with private records; protect every single record."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recordwise.account import Account
    from recordwise.distiller import PrivateDistiller
    from recordwise.labels import DecoderSettings
    from recordwise.planner import look, plan, predict
    from recordwise.privacy.guarantee import Guarantee, Neighbours, Trust, Unit
    from recordwise.privacy.ledger import Ledger
    from recordwise.privacy.noise import SeededNoise, SystemNoise
    from recordwise.protocols.terms import Terms, TrustSettings
    from recordwise.published import load, save
    from recordwise.queries import QuerySettings
    from recordwise.records import RecordSettings
    from recordwise.report import summarize, write_report
    from recordwise.students import StudentSettings
    from recordwise.votes import Ballot

__version__ = "0.1.0"
__all__ = [
    "Account",
    "Ballot",
    "DecoderSettings",
    "Guarantee",
    "Ledger",
    "Neighbours",
    "PrivateDistiller",
    "QuerySettings",
    "RecordSettings",
    "SeededNoise",
    "StudentSettings",
    "SystemNoise",
    "Terms",
    "Trust",
    "TrustSettings",
    "Unit",
    "load",
    "look",
    "plan",
    "predict",
    "save",
    "summarize",
    "write_report",
]

# Loaded when first asked for: importing the package stays quick, and a device never loads what it does not use.
_HOMES = {
    "Account": "recordwise.account",
    "Ballot": "recordwise.votes",
    "DecoderSettings": "recordwise.labels",
    "Guarantee": "recordwise.privacy.guarantee",
    "Ledger": "recordwise.privacy.ledger",
    "Neighbours": "recordwise.privacy.guarantee",
    "PrivateDistiller": "recordwise.distiller",
    "QuerySettings": "recordwise.queries",
    "RecordSettings": "recordwise.records",
    "SeededNoise": "recordwise.privacy.noise",
    "StudentSettings": "recordwise.students",
    "SystemNoise": "recordwise.privacy.noise",
    "Terms": "recordwise.protocols.terms",
    "Trust": "recordwise.privacy.guarantee",
    "TrustSettings": "recordwise.protocols.terms",
    "Unit": "recordwise.privacy.guarantee",
    "load": "recordwise.published",
    "look": "recordwise.planner",
    "plan": "recordwise.planner",
    "predict": "recordwise.planner",
    "save": "recordwise.published",
    "summarize": "recordwise.report",
    "write_report": "recordwise.report",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'recordwise' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
