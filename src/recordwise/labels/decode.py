"""Step 6, decode: from a release to labels. Post-processing: it costs no budget, so do it well."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self, cast

from recordwise.arrays import Floats, Ints
from recordwise.errors import InvalidInput, real
from recordwise.labels.argmax import decode_argmax
from recordwise.labels.assigned import decode_assigned
from recordwise.labels.assignment import decode_assignment
from recordwise.labels.facts import Facts
from recordwise.labels.field import decode_field
from recordwise.labels.labels import Labels
from recordwise.labels.model_average import decode_model_average
from recordwise.labels.posterior import decode_posterior
from recordwise.labels.sets import decode_sets
from recordwise.plugins import brought
from recordwise.protocols.release import Release
from recordwise.settings import AUTO, Settings

Decoder = Callable[[Any, Facts], Labels]  # of the kinds of release that name it among their `decoders`

_DECODERS: dict[str, Decoder] = {
    "argmax": decode_argmax,
    "assigned": decode_assigned,
    "assignment": decode_assignment,
    "field": decode_field,
    "model-average": decode_model_average,
    "posterior": decode_posterior,
    "sets": decode_sets,
}
DECODERS = (AUTO, *_DECODERS)


@dataclass(frozen=True)
class DecoderSettings(Settings):
    """How labels are read off a release.

    Attributes:
      name: One of DECODERS, or a function of a release and public `Facts` that gives `Labels`.
      min_confidence: Queries whose label is less likely to be right than this (`Labels.confidence`) are left out of the
        student's training. Where a release cannot tell how pure queries are (permute-and-flip, matching), it is
        compared with the chance that noise did not flip the label (`Labels.leads`): confidence is a guess there.
    """

    of: ClassVar[str] = "decoder"
    name: str | Decoder = AUTO
    _: KW_ONLY
    min_confidence: float = 0.0

    def __post_init__(self) -> None:
        _check(self.name)
        real(**{"decoder.min_confidence": self.min_confidence})
        if not 0 <= self.min_confidence <= 1:
            raise InvalidInput(f"decoder.min_confidence must lie in [0, 1], got {self.min_confidence!r}")

    @classmethod
    def given(cls, spec: Any) -> Self:
        return cls(name=spec) if callable(spec) else super().given(spec)


def decode(
    release: Release,
    *,
    sizes: Ints | Floats,
    graph: Floats | None,
    decoder: str | Decoder = AUTO,
    num_records: int | None = None,
    class_shares: Floats | None = None,
) -> Labels:
    """Labels of all queries from a release and public facts.

    Guarantees:
      - a deterministic function of the release and public facts, so it is covered by the release's own guarantee;
      - soft labels of single-label ballots are distributions, whatever the noise did to the counts.

    Args:
      sizes: (s,) how many pool samples belong to each query.
      graph: (s, s) from `query_graph`; None leaves the neighbours out.
      decoder: One of DECODERS; "auto" is the first that the release names: the field, or the model average when there
        are as many queries as classes (docs/concepts/decoding.md has the evidence), or the assignment when every class
        was matched with one query in the release itself. Several labels per record are decoded as sets. Or a function
        of the release and its `Facts`.
      num_records: Only where it is public, as it is under replace-one neighbours; estimated from the tally otherwise.
      class_shares: (C,) only where they are public.
    """
    facts = Facts(sizes=sizes, graph=graph, num_records=num_records, class_shares=class_shares)
    if len(facts.sizes) != release.ballot.num_queries:
        raise InvalidInput(f"sizes must be those of the {release.ballot.num_queries} queries, got {len(facts.sizes)}")
    release.check()
    _check(decoder)
    if isinstance(decoder, str) and decoder not in DECODERS:
        decoder = _named(decoder)
    if not isinstance(decoder, str):
        return decoder(release, facts)
    chosen = release.decoders[0] if decoder == AUTO else decoder
    if chosen not in release.decoders:
        able, ballot = ", ".join(release.decoders), release.ballot
        raise InvalidInput(
            f"decoder must be {AUTO!r} or one of {able} for this release of {ballot.num_queries} queries and "
            f"{ballot.num_classes} classes, got {decoder!r}"
        )
    return _named(chosen)(release, facts)


def _named(decoder: str) -> Decoder:
    """One of ours, or one that another package brings."""
    return _DECODERS.get(decoder) or cast("Decoder", brought("decoders", decoder))


def _check(decoder: Any) -> None:
    if not callable(decoder) and decoder not in DECODERS and brought("decoders", decoder) is None:
        raise InvalidInput(f"decoder must be one of {', '.join(DECODERS)}, or a function, got {decoder!r}")
