"""Put a protocol's claim to the test: exact probabilities where they can be had, and what it really sends."""

from __future__ import annotations

from typing import Any

from recordwise.audit.bound import lower_bound
from recordwise.audit.result import AuditResult, Finding
from recordwise.errors import InvalidInput, ProtocolFault, probability, whole
from recordwise.privacy.noise import Noise
from recordwise.progress import counted
from recordwise.protocols.pairs import Pair, worst_pairs
from recordwise.protocols.protocol import Protocol

CONFIDENCE = 1 - 1e-6
TRIALS = 100_000
MOST_TRIALS = 10**9
MESSAGES_PER_TRIAL = 40  # drawn under shuffle trust, where a view takes many messages: fewer views than trials


def audit(
    protocol: Protocol[Any], noise: Noise, *, trials: int = TRIALS, confidence: float = CONFIDENCE
) -> AuditResult:
    """Lower bounds on the epsilon of a protocol's release, beside the epsilon it claims.

    Two ways, on worst-case neighbours of the kind the claim is about:
      - exact: the largest ratio, or the exact epsilon at the claimed delta, of the probabilities that the protocol
        states and draws from;
      - sampled: clients, shuffler and server are run on both data sets, and a lower bound follows from how often an
        event was seen. It needs no word of the protocol about itself.

    Guarantees:
      - a protocol whose claim is true is called violated with probability at most 1 - confidence;
      - a protocol that accepts fewer parties than it plans for is judged by what it releases about those.

    Args:
      noise: Where the protocol draws from; the operating system's, unless an audit must be replayable.
      trials: Views of each data set; half of them choose the event, the other half count.
    """
    whole(trials=trials)
    if trials > MOST_TRIALS:
        raise InvalidInput(f"trials must be <= {MOST_TRIALS:,}, got {trials:,}")
    if trials < 100:
        raise InvalidInput(f"trials must be >= 100 to say anything, got {trials}")
    probability(confidence=confidence)
    claim = protocol.guarantee
    few = protocol.shrunk()
    few, parties = few.without_insiders(fewest_parties(few, noise))
    pairs = worst_pairs(few.ballot, claim.neighbours, same_queries=few.one_query_per_class)
    drawn = _affordable(few, trials, parties)
    findings: list[Finding] = []
    for pair in counted(pairs, len(pairs)):
        found = few.exact_epsilon(pair, parties)
        if found is not None:
            findings.append(Finding(pair=pair.name, method="exact", epsilon=found[0], failure=0.0, detail=found[1]))
        findings.append(_sampled(few, pair, drawn, parties, float(claim.delta), (1 - confidence) / len(pairs), noise))
    planned = few.fewest
    if parties is not None and planned is not None and parties < planned:
        findings = [_with_note(finding, f"a release about {parties:,} of {planned:,} parties") for finding in findings]
    return AuditResult(
        protocol=str(protocol),
        guarantee=claim,
        findings=tuple(findings),
        confidence=confidence,
        trials=drawn,
    )


def fewest_parties(protocol: Protocol[Any], noise: Noise) -> int | None:
    """The fewest parties from which a release is made: the planned number, if fewer are refused as they should be."""
    planned = protocol.fewest
    if planned is None:
        return None
    for parties in sorted({1, planned // 2, planned - 1} & set(range(1, planned))):
        try:
            protocol.release_nobody(parties, noise)
        except ProtocolFault:
            continue
        return parties
    return planned


def _sampled(
    protocol: Protocol[Any], pair: Pair, trials: int, parties: int | None, delta: float, failure: float, noise: Noise
) -> Finding:
    before, after = (protocol.view_scores(side, pair, trials, parties, noise) for side in pair.sides())
    bound = lower_bound(before, after, delta=delta, failure=failure)
    return Finding(
        pair=pair.name,
        method="sampled",
        epsilon=bound.epsilon,
        failure=failure,
        detail=f"an event seen {bound.likely:.4%} against {bound.unlikely:.4%} of {bound.draws:,} times",
    )


def _affordable(protocol: Protocol[Any], trials: int, parties: int | None) -> int:
    """Fewer views where each takes many messages, or a release of its own."""
    cost = protocol.view_cost(parties)
    return trials if not cost else max(100, min(trials, int(MESSAGES_PER_TRIAL * trials / cost)))


def _with_note(finding: Finding, note: str) -> Finding:
    return Finding(**{**vars(finding), "detail": f"{note}: {finding.detail}"})
