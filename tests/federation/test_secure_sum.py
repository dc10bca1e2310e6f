"""Secure sums are exact, survive dropouts, refuse what is altered, and show the server nothing but the sum."""

from __future__ import annotations

import itertools
import json
import pickle
import re
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chisquare

from federation.sums import Played, parties, play, session_of
from recordwise.errors import InvalidInput, ProtocolFault
from recordwise.federation.secure_sum import SumClient, SumServer, masks, shamir
from recordwise.privacy.noise import SeededNoise, SystemNoise
from recordwise.protocols.distributed import DistributedLaplace, ModularSum
from recordwise.randomness import seeded
from recordwise.votes.ballot import Ballot, Votes

FALSE_FAILURE = 1e-9
STAGES = ("advertise", "share", "mask", "confirm", "reveal")


def vectors_for(
    identities: Mapping[str, bytes], length: int, bits: int = 20, seed: int = 0
) -> dict[str, NDArray[np.uint64]]:
    rng = seeded(seed, "vectors")
    return {name: rng.integers(0, 2**bits, size=length, dtype=np.uint64) for name in identities}


def plain_sum(vectors: Mapping[str, NDArray[np.uint64]], names: list[str], bits: int = 20) -> NDArray[np.uint64]:
    return sum((vectors[name] for name in names), np.zeros_like(next(iter(vectors.values())))) % np.uint64(2**bits)


@given(
    count=st.integers(2, 6),
    length=st.integers(1, 40),
    bits=st.integers(1, 62),
    seed=st.integers(0, 2**32),
    data=st.data(),
)
@settings(max_examples=25)
def test_the_sum_is_exact_for_any_size_and_modulus(
    count: int, length: int, bits: int, seed: int, data: st.DataObject
) -> None:
    identities = parties(count)
    threshold = data.draw(st.integers(max(2, count // 2 + 1), count))
    vectors = vectors_for(identities, length, bits, seed)
    played = play(session_of(identities, threshold=threshold, length=length, bits=bits), identities, vectors)
    assert np.array_equal(played.residues, plain_sum(vectors, list(identities), bits))
    assert played.parties == count
    assert played.private


@pytest.mark.parametrize("stage", STAGES)
def test_a_party_that_vanishes_at_any_stage_does_not_stop_the_others(stage: str) -> None:
    identities = parties(4)
    vectors = vectors_for(identities, 8)
    played = play(
        session_of(identities, threshold=3, length=8),
        identities,
        vectors,
        lambda at, name, message: None if (at, name) == (stage, "silo-2") else message,
    )
    counted = stage in ("confirm", "reveal")  # its vector had arrived by then
    survivors = [name for name in identities if counted or name != "silo-2"]
    assert np.array_equal(played.residues, plain_sum(vectors, survivors))
    assert played.parties == len(survivors)
    assert "silo-2" in played.server.faults


@pytest.mark.parametrize("stage", STAGES)
def test_fewer_parties_than_the_threshold_reveal_nothing(stage: str) -> None:
    identities = parties(4)
    gone = {"silo-1", "silo-2"}
    with pytest.raises(ProtocolFault, match=r"needs >= 3 parties|at least 3 parties"):
        play(
            session_of(identities, threshold=3, length=8),
            identities,
            vectors_for(identities, 8),
            lambda at, name, message: None if at == stage and name in gone else message,
        )


def test_parties_that_restart_before_every_stage_give_the_same_sum() -> None:
    identities = parties(3)
    vectors = vectors_for(identities, 8)
    played = play(session_of(identities, threshold=2, length=8), identities, vectors, restart=True)
    assert np.array_equal(played.residues, plain_sum(vectors, list(identities)))


@pytest.mark.parametrize("stage", STAGES)
def test_an_altered_message_counts_as_missing(stage: str) -> None:
    identities = parties(4)
    vectors = vectors_for(identities, 8)

    def altered(at: str, name: str, message: bytes) -> bytes:
        if (at, name) != (stage, "silo-0"):
            return message
        digits = re.findall(rb"[0-9a-f]{8,}|silo-1", message)[0]
        return message.replace(digits, b"0" * len(digits), 1)

    played = play(session_of(identities, threshold=3, length=8), identities, vectors, altered)
    assert "must be signed by 'silo-0'" in played.server.faults["silo-0"]
    survivors = [name for name in identities if stage in ("confirm", "reveal") or name != "silo-0"]
    assert np.array_equal(played.residues, plain_sum(vectors, survivors))


@pytest.mark.parametrize("stage", STAGES)
def test_a_message_replayed_from_another_sum_or_as_another_party_is_refused(stage: str) -> None:
    identities = parties(4)
    vectors = vectors_for(identities, 8)
    earlier = {(at, name): message for at, name, message in _played(identities, vectors, "run/1").seen}
    replayed = play(
        session_of(identities, threshold=3, length=8, name="run/2"),
        identities,
        vectors,
        lambda at, name, message: earlier[at, name] if (at, name) == (stage, "silo-3") else message,
    )
    assert "for this sum, it is not" in replayed.server.faults["silo-3"]
    posing = play(
        session_of(identities, threshold=3, length=8, name="run/2"),
        identities,
        vectors,
        lambda at, name, message: earlier[at, "silo-0"] if (at, name) == (stage, "silo-3") else message,
    )
    assert "silo-3" in posing.server.faults


def _played(identities: Mapping[str, bytes], vectors: Mapping[str, NDArray[np.uint64]], name: str) -> Played:
    return play(session_of(identities, threshold=3, length=8, name=name), identities, vectors)


def test_a_stage_is_answered_once_and_in_its_turn() -> None:
    identities = parties(2)
    client = SumClient(session_of(identities, threshold=2, length=1), "silo-0", identities["silo-0"])
    with pytest.raises(ProtocolFault, match="in its turn"):
        client.confirm(b'{"survivors": []}')
    client.advertise()
    with pytest.raises(ProtocolFault, match="asked once"):
        client.advertise()


def _until_masked(threshold: int = 3, count: int = 4) -> tuple[dict[str, bytes], dict[str, SumClient], SumServer]:
    identities = parties(count)
    session = session_of(identities, threshold=threshold, length=4)
    clients, server = {name: SumClient(session, name, key) for name, key in identities.items()}, SumServer(session)
    keys = server.advertised({name: client.advertise() for name, client in clients.items()})
    shares = server.shared({name: client.share(keys) for name, client in clients.items()})
    values = np.zeros(4, dtype=np.uint64)
    server.masked({name: client.mask(shares[name], values) for name, client in clients.items()})
    return identities, clients, server


def test_a_server_that_tells_parties_different_survivors_gets_no_shares() -> None:
    _, clients, _ = _until_masked()
    one, other = ["silo-0", "silo-1", "silo-2"], ["silo-1", "silo-2", "silo-3"]
    lists = {"silo-0": one, "silo-1": one, "silo-2": other, "silo-3": other}
    confirmed = {
        name: client.confirm(json.dumps({"survivors": lists[name]}).encode()).decode()
        for name, client in clients.items()
    }
    for client in clients.values():
        with pytest.raises(ProtocolFault, match=r"confirm the same survivors|at least 3 parties"):
            client.reveal(json.dumps(confirmed).encode())


def test_a_server_that_swaps_in_its_own_keys_is_found_out() -> None:
    identities = parties(3)
    session = session_of(identities, threshold=2, length=4)
    clients = {name: SumClient(session, name, key) for name, key in identities.items()}
    advertised = {name: client.advertise().decode() for name, client in clients.items()}
    posing = parties(3)
    fake = SumClient(session, "silo-1", posing["silo-1"]).advertise().decode()
    with pytest.raises(ProtocolFault, match="must be signed by 'silo-1'"):
        clients["silo-0"].share(json.dumps({**advertised, "silo-1": fake}).encode())


def test_an_unknown_party_is_ignored_by_the_server_and_cannot_be_made() -> None:
    identities = parties(3)
    session = session_of(identities, threshold=2, length=4)
    stranger = parties(5)
    with pytest.raises(InvalidInput, match="must be on the roster"):
        SumClient(session, "silo-4", stranger["silo-4"])
    server = SumServer(session)
    messages = {name: SumClient(session, name, key).advertise() for name, key in identities.items()}
    assert set(json.loads(server.advertised({**messages, "silo-4": b"{}"}))) == set(identities)


def test_wrong_shares_do_not_give_a_wrong_sum() -> None:
    identities, clients, server = _until_masked(threshold=2, count=2)
    survivors = json.dumps({"survivors": server.survivors}).encode()
    confirmed = server.confirmed({name: client.confirm(survivors) for name, client in clients.items()})
    answers = {name: client.reveal(confirmed) for name, client in clients.items()}
    told = server.session.opened("reveal", "silo-0", answers["silo-0"])
    told["shares"]["silo-1"] = shamir.split(b"x" * 32, 2, [1])[1].hex()
    answers["silo-0"] = server.session.envelope(identities["silo-0"], "reveal", "silo-0", told)
    with pytest.raises(ProtocolFault, match="shares must"):
        server.revealed(answers)


@pytest.mark.parametrize(
    ("terms", "rule"),
    [
        ({"threshold": 2}, "exceed half"),
        ({"threshold": 3, "colluding": 2}, "exceed half"),
        ({"threshold": 5}, "<= the 4 parties"),
        ({"threshold": 4, "colluding": 3}, ">= 2 honest"),
        ({"threshold": 3, "bits": 63}, "modulus_bits"),
        ({"threshold": 3, "length": 0}, "length"),
    ],
)
def test_unsafe_terms_are_refused(terms: dict[str, int], rule: str) -> None:
    with pytest.raises(InvalidInput, match=rule):
        session_of(parties(4), **{"length": 4, **terms})


@pytest.mark.parametrize("vector", [np.zeros(3, np.uint64), np.full(4, 2**20, np.uint64)])
def test_a_vector_of_the_wrong_length_or_range_is_refused_before_it_leaves(vector: NDArray[np.uint64]) -> None:
    identities = parties(2)
    with pytest.raises(InvalidInput, match="4 residues below"):
        play(session_of(identities, threshold=2, length=4), identities, dict.fromkeys(identities, vector))


def test_keys_are_not_shown_and_not_pickled() -> None:
    identities = parties(2)
    client = SumClient(session_of(identities, threshold=2, length=4), "silo-0", identities["silo-0"])
    assert repr(client) == "SumClient('silo-0', 0 of 5 stages done)"
    with pytest.raises(InvalidInput, match="must not be pickled"):
        pickle.dumps(client)


# What the server sees


def votes_of(ballot: Ballot, records: int, seed: int) -> Votes:
    rng = seeded(seed, "votes")
    queries = rng.integers(0, ballot.num_queries, size=(records, 1)).astype(np.int32)
    return Votes(ballot, queries, rng.integers(0, ballot.num_classes, size=(records, 1)).astype(np.int32))


def test_captured_server_inputs_hold_no_silos_counts_and_look_uniform() -> None:
    """At 2^8 per residue and 4 x 2,000 residues a masked vector that kept 1 % of its shape would be seen."""
    identities, length, bits = parties(4), 2000, 8
    vectors = {name: np.full(length, 3, dtype=np.uint64) for name in identities}  # as far from uniform as can be
    played = play(session_of(identities, threshold=3, length=length, bits=bits), identities, vectors)
    session = played.server.session
    sent = [
        session.unpacked(session.opened("mask", name, message)["vector"])
        for at, name, message in played.seen
        if at == "mask"
    ]
    for one in sent:
        assert chisquare(np.bincount(one.astype(np.int64), minlength=256)).pvalue > FALSE_FAILURE
        weak = one.copy()
        weak[::20] = 3  # a twin that leaves one residue in twenty unmasked is caught
        assert chisquare(np.bincount(weak.astype(np.int64), minlength=256)).pvalue < FALSE_FAILURE
    for few in itertools.chain(itertools.combinations(sent, 2), itertools.combinations(sent, 3)):
        partial = sum(few, np.zeros(length, np.uint64)) % np.uint64(256)  # pairwise masks hide every partial sum too
        assert chisquare(np.bincount(partial.astype(np.int64), minlength=256)).pvalue > FALSE_FAILURE
    everything = b"".join(message for _, _, message in played.seen)
    for vector in vectors.values():
        assert session.packed(vector).encode() not in everything
        assert vector.tobytes() not in everything
    assert np.array_equal(played.residues, np.full(length, 12, dtype=np.uint64))


def test_two_sums_of_the_same_vectors_share_no_masked_residues() -> None:
    identities = parties(3)
    vectors = {name: np.zeros(500, dtype=np.uint64) for name in identities}
    first, second = (
        play(session_of(identities, threshold=2, length=500, name=name), identities, vectors) for name in "ab"
    )
    masked = []
    for played in (first, second):
        session = played.server.session
        masked += [
            session.unpacked(session.opened("mask", name, message)["vector"])
            for at, name, message in played.seen
            if at == "mask"
        ]
    for one, other in itertools.combinations(masked, 2):
        assert (one == other).mean() < 0.05  # one in a million by chance


def test_the_distributed_protocol_inside_gives_the_pooled_tally_exactly() -> None:
    """With the same seeds, the shares summed in secret equal the shares summed in the open, bit for bit."""
    ballot = Ballot(num_queries=5, num_classes=3)
    protocol = DistributedLaplace(ballot=ballot, epsilon=Fraction(1), survivors=2, parties=3, largest_count=90)
    identities = parties(3)
    votes = {name: votes_of(ballot, 30, seed) for seed, name in enumerate(identities)}
    shares = {name: protocol.client(votes[name], SeededNoise(seed)) for seed, name in enumerate(identities)}
    session = session_of(identities, threshold=2, length=ballot.num_cells, bits=protocol.modulus_bits)
    played = play(session, identities, {name: share.residues.ravel() for name, share in shares.items()}, private=False)
    secret = protocol.release(ModularSum(played.residues.reshape(5, 3), played.parties, played.private))
    plain = protocol.release(protocol.aggregate(shares.values()))
    assert np.array_equal(secret.estimate, plain.estimate)
    assert secret.law == plain.law
    assert secret.guarantee == plain.guarantee
    assert not secret.guarantee.private
    exact = sum(one.counts() for one in votes.values())
    assert np.abs(secret.estimate - exact).max() < 60  # noise of scale 2, at most 60 but for a chance of 1e-11


def test_private_noise_stays_private() -> None:
    ballot = Ballot(num_queries=2, num_classes=2)
    protocol = DistributedLaplace(ballot=ballot, epsilon=Fraction(1), survivors=2, parties=3, largest_count=90)
    identities = parties(3)
    vectors = {
        name: protocol.client(votes_of(ballot, 30, seed), SystemNoise()).residues.ravel()
        for seed, name in enumerate(identities)
    }
    played = play(session_of(identities, threshold=2, length=4, bits=protocol.modulus_bits), identities, vectors)
    tally = protocol.release(ModularSum(played.residues.reshape(2, 2), played.parties, played.private))
    assert tally.guarantee.private
    assert tally.guarantee.honest_parties == 2


# Shares and masks


@given(secret=st.binary(min_size=32, max_size=32), threshold=st.integers(1, 6), extra=st.integers(0, 4), data=st.data())
def test_any_threshold_of_shares_gives_the_secret(
    secret: bytes, threshold: int, extra: int, data: st.DataObject
) -> None:
    shares = shamir.split(secret, threshold, range(1, threshold + extra + 1))
    chosen = data.draw(st.permutations(sorted(shares)))[:threshold]
    assert shamir.combine({point: shares[point] for point in chosen}, threshold) == secret


def test_fewer_shares_fit_every_secret() -> None:
    """With one share too few, for any secret there is a last share that completes it: nothing is learned."""
    shares = shamir.split(b"\1" * 32, 2, [1, 2])
    for wanted in (bytes(32), b"\7" * 32):
        value = int.from_bytes(shares[1], "big")
        slope = (value - int.from_bytes(wanted, "big")) % shamir.PRIME
        other = ((value + slope) % shamir.PRIME).to_bytes(shamir.SHARE_BYTES, "big")
        assert shamir.combine({1: shares[1], 2: other}, 2) == wanted


def test_too_few_or_unfitting_shares_are_refused() -> None:
    shares = shamir.split(b"\1" * 32, 3, [1, 2, 3])
    with pytest.raises(ProtocolFault, match=">= 3 shares"):
        shamir.combine({1: shares[1], 2: shares[2]}, 3)
    with pytest.raises(ProtocolFault, match="fit together"):
        shamir.combine({**shares, 3: b"\0" * 66}, 3)
    with pytest.raises(InvalidInput, match="32 bytes"):
        shamir.split(b"short", 2, [1])
    with pytest.raises(InvalidInput, match="point"):
        shamir.split(bytes(32), 2, [0])


def test_masks_are_the_published_chacha20_stream() -> None:
    """RFC 8439, section 2.4.2 uses counter 1; appendix A.1, test vector 1: zero key, zero nonce, counter 0."""
    first = bytes.fromhex("76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7")
    assert np.array_equal(masks.mask(bytes(32), 4, 62), np.frombuffer(first, "<u8") & np.uint64(2**62 - 1))


def test_a_key_of_small_order_is_refused() -> None:
    with pytest.raises(ProtocolFault, match="full order"):
        masks.agreed_key(masks.fresh_key(), bytes(32))


def test_sealed_messages_open_only_whole_and_with_their_key() -> None:
    key = masks.fresh_key()
    sealed = masks.seal(key, b"content")
    assert masks.unseal(key, sealed) == b"content"
    for wrong_key, content in ((masks.fresh_key(), sealed), (key, sealed[:-1] + bytes([sealed[-1] ^ 1]))):
        with pytest.raises(ProtocolFault, match="must be whole"):
            masks.unseal(wrong_key, content)
