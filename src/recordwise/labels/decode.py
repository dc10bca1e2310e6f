"""Step 6, decode: from a release to labels. Post-processing: it costs no budget, so do it well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recordwise.arrays import Floats, Ints
from recordwise.errors import InvalidInput
from recordwise.labels.argmax import decode_argmax
from recordwise.labels.assigned import decode_assigned
from recordwise.labels.assignment import decode_assignment
from recordwise.labels.facts import Facts
from recordwise.labels.field import decode_field
from recordwise.labels.labels import Labels
from recordwise.labels.matching import decode_matching
from recordwise.labels.posterior import decode_posterior
from recordwise.labels.sets import decode_sets
from recordwise.protocols.release import Release

AUTO = "auto"

Decoder = Callable[[Any, Facts], Labels]  # of the kinds of release that name it among their `decoders`

_DECODERS: dict[str, Decoder] = {
    "argmax": decode_argmax,
    "assigned": decode_assigned,
    "assignment": decode_assignment,
    "field": decode_field,
    "matching": decode_matching,
    "posterior": decode_posterior,
    "sets": decode_sets,
}
DECODERS = (AUTO, *_DECODERS)


def decode(
    release: Release,
    *,
    sizes: Ints | Floats,
    graph: Floats | None,
    decoder: str = AUTO,
    num_records: int | None = None,
    class_shares: Floats | None = None,
) -> Labels:
    """Labels of all queries from a release and public facts.

    Guarantees:
      - a deterministic function of the release and public facts, so it is covered by the release's own guarantee;
      - soft labels of single-label ballots are distributions, whatever the noise did to the counts.

    Args:
      sizes: (s,) how many pool samples belong to each query.
      graph: (s, s) from `neighbour_graph`; None leaves the neighbours out.
      decoder: One of DECODERS; "auto" is the first that the release names: the field, or the matching when there are as
        many queries as classes (docs/concepts/decoding.md has the evidence), or the assignment when every class was
        matched with one query in the release itself. Several labels per record are decoded as sets.
      num_records: Only where it is public, as it is under replace-one neighbours; estimated from the tally otherwise.
      class_shares: (C,) only where they are public.
    """
    facts = Facts(sizes=sizes, graph=graph, num_records=num_records, class_shares=class_shares)
    if len(facts.sizes) != release.ballot.num_queries:
        raise InvalidInput(f"sizes must be those of the {release.ballot.num_queries} queries, got {len(facts.sizes)}")
    release.check()
    if decoder not in DECODERS:
        raise InvalidInput(f"decoder must be one of {', '.join(DECODERS)}, got {decoder!r}")
    chosen = release.decoders[0] if decoder == AUTO else decoder
    if chosen not in release.decoders:
        able = ", ".join(release.decoders)
        raise InvalidInput(f"decoder must be {AUTO!r} or one of {able} for this kind of release, got {decoder!r}")
    return _DECODERS[chosen](release, facts)
