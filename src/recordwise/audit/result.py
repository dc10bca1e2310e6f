"""What an audit found: the claim, the largest epsilon that could be proved against it, and how."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from recordwise.privacy.guarantee import Guarantee

ROUNDING = 1e-9  # relative; what floats may add to an exact epsilon that equals the claim


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A lower bound on the true epsilon.

    Attributes:
      pair: The neighbouring data sets.
      method: "exact" from the probabilities that the protocol states and draws from, "sampled" from what it sent.
      epsilon: At the claim's delta.
      failure: The probability that the bound is wrong; zero for an exact one.
      detail: How it was found.
    """

    pair: str
    method: str
    epsilon: float
    failure: float
    detail: str


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """The claim and every bound found.

    Guarantees:
      - a protocol that keeps its claim is reported as a violation with probability at most 1 - confidence.
    """

    protocol: str
    guarantee: Guarantee
    findings: tuple[Finding, ...]
    confidence: float
    trials: int

    @property
    def claimed(self) -> float:
        return float(self.guarantee.epsilon)

    @property
    def worst(self) -> Finding:
        return max(self.findings, key=lambda finding: finding.epsilon)

    @property
    def found(self) -> float:
        """The largest lower bound on epsilon."""
        return self.worst.epsilon

    @property
    def distance(self) -> float:
        """What lies between the claim and the bound: negative where the claim is broken."""
        return self.claimed - self.found

    @property
    def violated(self) -> bool:
        return not self.found <= self.claimed * (1 + ROUNDING)

    def best(self, method: str) -> float | None:
        """The largest bound found by one method, where it was used."""
        return max((finding.epsilon for finding in self.findings if finding.method == method), default=None)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for machines; an infinite bound is the string "inf", which JSON has no number for."""
        return {
            "protocol": self.protocol,
            "guarantee": self.guarantee.to_json(),
            "claimed_epsilon": self.claimed,
            "delta": float(self.guarantee.delta),
            "neighbours": str(self.guarantee.neighbours),
            "found_epsilon": _plain(self.found),
            "distance": _plain(self.distance),
            "violated": self.violated,
            "confidence": self.confidence,
            "trials": self.trials,
            "method": self.worst.method,
            "findings": [vars(finding) | {"epsilon": _plain(finding.epsilon)} for finding in self.findings],
        }

    def as_text(self) -> str:
        verdict = "VIOLATED" if self.violated else "not violated"
        delta = "" if self.guarantee.is_pure else f" at delta {float(self.guarantee.delta):.4g}"
        lines = [
            f"{self.protocol}: {verdict}",
            f"  claimed    epsilon {self.claimed:.6g}{delta}, one record, {self.guarantee.neighbours}",
            f"  found      epsilon >= {self.found:.6g} ({self.worst.method}: {self.worst.pair})",
            f"  distance   {self.distance:.3g}",
            f"  confidence {self.confidence:.9g} that no sampled bound is too high, all of them together",
        ]
        lines += [
            f"  - {finding.method:<7} {finding.epsilon:>9.5f}  {finding.pair}: {finding.detail}"
            for finding in self.findings
        ]
        return "\n".join(lines)


def _plain(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
