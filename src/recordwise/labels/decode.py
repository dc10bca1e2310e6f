"""Step 6, decode: from a release to labels. Post-processing: it costs no budget, so do it well."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

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
from recordwise.labels.smoothing import decode_smoothing
from recordwise.tally import Assigned, Choices, Matched, Release, Undecoded

AUTO = "auto"

Decoder = Callable[[Undecoded, Facts], Labels]

_DECODERS: dict[str, Decoder] = {
    "argmax": decode_argmax,
    "assignment": decode_assignment,
    "field": decode_field,
    "matching": decode_matching,
    "posterior": decode_posterior,
    "smoothing": decode_smoothing,
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
      decoder: One of DECODERS; "auto" is the field, or the matching when there are as many queries as classes
        (docs/concepts/decoding.md has the evidence), or the assignment when they were matched in the release itself,
        which then says nothing about labels that are not all different. A release that is an assignment with its own
        probabilities is taken as it is. Ballots with several labels per record are decoded as sets.
      num_records: Only where it is public, as it is under replace-one neighbours; estimated from the tally otherwise.
      class_shares: (C,) only where they are public.
    """
    facts = Facts(sizes=sizes, graph=graph, num_records=num_records, class_shares=class_shares)
    _match(release, facts)
    if decoder not in DECODERS:
        raise InvalidInput(f"decoder must be one of {', '.join(DECODERS)}, got {decoder!r}")
    if isinstance(release, Assigned):
        if decoder not in (AUTO, "assignment"):
            raise InvalidInput(
                f"the release is an assignment: decoder must be {AUTO!r} or 'assignment', got {decoder!r}"
            )
        return decode_assigned(release)
    if release.ballot.labels_per_record > 1:
        if decoder != AUTO or isinstance(release, Choices):
            raise InvalidInput(f"several labels per record are decoded as sets of a tally: decoder must be {AUTO!r}")
        return decode_sets(release, facts)
    if decoder == AUTO:
        decoder = "matching" if release.ballot.num_queries == release.ballot.num_classes else "field"
        decoder = "assignment" if isinstance(release, Matched) else decoder
    return _DECODERS[decoder](release, facts)


def _match(release: Release, facts: Facts) -> None:
    ballot = release.ballot
    if len(facts.sizes) != ballot.num_queries:
        raise InvalidInput(f"sizes must be those of the {ballot.num_queries} queries, got {len(facts.sizes)}")
    if isinstance(release, Choices | Assigned):
        if (
            release.chosen.shape != (ballot.num_queries,)
            or not ((release.chosen >= 0) & (release.chosen < ballot.num_classes)).all()
        ):
            raise InvalidInput(
                f"chosen must be one of {ballot.num_classes} classes for each of {ballot.num_queries} queries"
            )
        if isinstance(release, Matched | Assigned) and len(set(release.chosen.tolist())) < ballot.num_queries:
            raise InvalidInput("chosen must be all different where every class was matched with one query")
    elif release.estimate.shape != (ballot.num_queries, ballot.num_classes) or not np.isfinite(release.estimate).all():
        shape = (ballot.num_queries, ballot.num_classes)
        raise InvalidInput(f"estimate must be finite with shape {shape}, got {release.estimate.shape}")
