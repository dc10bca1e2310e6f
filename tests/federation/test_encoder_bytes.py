"""Encoders and protocols travel as plain data, and come out the same."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import zipfile
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

from recordwise.encoders import Manner, encode, encoder_from, encoding
from recordwise.errors import InvalidInput, ProtocolFault
from recordwise.federation import encoder_bytes, protocol_json
from recordwise.privacy.guarantee import Neighbours
from recordwise.protocols.central import CentralGaussian, CentralLaplace, CentralMatching, CentralPermuteAndFlip
from recordwise.protocols.distributed import DistributedLaplace
from recordwise.protocols.local import Collision, RandomizedResponse
from recordwise.protocols.local.questions import Questions
from recordwise.protocols.protocol import Protocol
from recordwise.protocols.shuffle import ShuffleMulti, ShuffleSingle
from recordwise.randomness import seeded
from recordwise.votes.ballot import Ballot

RNG = seeded(0, "carried")
POOLS: list[tuple[str, Any]] = [
    ("scaler", RNG.normal(size=(50, 5))),
    ("pca", RNG.normal(size=(50, 5))),
    ("hog+pca", RNG.random((30, 16, 16))),
    ("text", ["a cat sat", "the dog ran", "a bird flew home", "cat and dog"] * 5),
    ("table", pd.DataFrame({"a": [1, 2.5, None] * 5, "b": list("xyz") * 5})),
]


class Bomb:
    def __reduce__(self) -> Any:
        return (pytest.fail, ("code of the sender ran",))


def test_what_is_not_a_known_encoder_is_not_carried() -> None:
    with pytest.raises(InvalidInput, match="to be sent to silos"):
        encoder_bytes.to_bytes(Bomb())


def packed(told: Any, **arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, description=np.frombuffer(json.dumps({"value": told}).encode(), dtype=np.uint8), **arrays)
    return file.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps(Bomb()),
        packed({"class": "subprocess.Popen", "state": {}}),
        packed({"class": "recordwise.encoders.hog.Nothing", "state": {}}),
        packed({"list": [{"array": "array-9"}]}),
        packed({"array": "array-0"}, **{"array-0": np.array([Bomb()], dtype=object)}),
        packed({"what": 1}),
        b"",
    ],
)
def test_reading_an_encoder_runs_nothing_the_sender_chose(content: bytes) -> None:
    with pytest.raises(ProtocolFault, match=r"an encoder must (be|hold)"):
        encoder_bytes.from_bytes(content)


def test_an_encoder_that_unpacks_to_more_than_it_may_is_refused_before_it_is_unpacked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two megabytes that would be four gigabytes: the archive's table of contents is enough to say no."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("description.npy", "w") as part:
        for _ in range(40):
            part.write(bytes(1 << 24))
    content = file.getvalue()
    assert len(content) < 1 << 20
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda *_: pytest.fail("it was unpacked"))
    with pytest.raises(ProtocolFault, match="must unpack to at most"):
        encoder_bytes.from_bytes(content)


@pytest.mark.parametrize("shape", [(1, encoder_bytes.MOST_SIDE + 1), (encoder_bytes.MOST_SIDE + 1, 1), (0, 10**15)])
def test_an_encoder_that_makes_a_record_too_long_is_refused_before_it_is_built(
    shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One record's vector would fill the silo's memory, whatever the plan says of its length."""
    linear = {"class": "recordwise.encoders.exact.ExactLinear", "state": {"weights": {"array": "array-0"}}}
    content = packed(linear, **{"array-0": np.zeros(shape, np.float16)})
    monkeypatch.setattr("recordwise.stored.from_parts", lambda *_, **__: pytest.fail("it was built"))
    for read in (encoder_bytes.from_bytes, encoder_bytes.shown_as):
        with pytest.raises(ProtocolFault, match="1,048,576 numbers to a side"):
            read(content)


@pytest.mark.parametrize(("spec", "pool"), POOLS, ids=[spec for spec, _ in POOLS])
def test_records_are_encoded_so_few_at_a_time_that_they_fit(
    spec: str, pool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = encoder_from(spec, pool, seed=0).fit(pool)
    together = encode(encoder, pool)
    monkeypatch.setattr(encoding, "NUMBERS", 2 * together.shape[1])
    alike = [len(range(*batch.indices(len(pool)))) for batch in encoding._batches(encoder, len(pool), Manner.EXACT)]
    assert max(alike) <= 2 and sum(alike) == len(pool)
    assert np.array_equal(encode(encoder, pool), together)


def test_an_encoder_that_is_nested_too_deep_is_refused() -> None:
    told: Any = 1
    for _ in range(40):
        told = {"list": [told]}
    with pytest.raises(ProtocolFault, match="nested at most"):
        encoder_bytes.from_bytes(packed(told))


def test_an_encoder_of_text_cannot_bring_a_pattern_of_its_own() -> None:
    """One that takes for ever on some record would tell by its silence."""
    left = encoder_from("text", POOLS[3][1], seed=0).fit(POOLS[3][1])
    left.words_.token_pattern = "(a+)+$"
    with pytest.raises(ProtocolFault, match="usual pattern"):
        encoder_bytes.from_bytes(encoder_bytes.to_bytes(left))


def changed(spec: int, **parts: Any) -> Any:
    """An encoder whose state was changed; a part of a part is written with a dot."""
    name, pool = POOLS[spec]
    encoder = encoder_from(name, pool, seed=0).fit(pool)
    for path, value in parts.items():
        *inner, last = path.split(".")
        part = encoder
        for step in inner:
            part = part[int(step)] if step.isdigit() else getattr(part, step)
        vars(part)[last] = value
    return encoder


@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        (0, {"scale_": RNG.normal(size=(40, 5))}),  # a divisor for each place of 40: who joins moves all others
        (1, {"mean_": RNG.normal(size=(40, 5))}),
        (1, {"projection_.weights": RNG.normal(size=(5, 5))}),  # sums of these depend on their order
        (1, {"projection_.weights": np.full((5, 5), 2.0**40)}),
        (1, {"projection_.limit": 0.3}),
        (2, {"steps.0.1.orientations": 10**9}),
        (2, {"steps.0.1.shape_": (10**6, 10**6)}),
        (3, {"rarity_": RNG.normal(size=(40, 9))}),
        (3, {"words_.ngram_range": (1, 10**9)}),
        (3, {"words_.vocabulary_": {"cat": 0, "dog": 0}}),
        (4, {"encodings_.0.mean": RNG.normal(size=40)}),
        (4, {"encodings_": []}),
        (0, {"transform": np.float32}),
    ],
    ids=lambda one: POOLS[one][0] if isinstance(one, int) else next(iter(one)),
)
def test_an_encoder_whose_state_no_fitting_leaves_is_refused(spec: int, parts: dict[str, Any]) -> None:
    """It could look at where a record stands, or at how many there are: one more would move the votes of all."""
    with pytest.raises(ProtocolFault, match="an encoder must b"):
        encoder_bytes.from_bytes(encoder_bytes.to_bytes(changed(spec, **parts)))


def test_an_encoder_of_ours_in_a_state_of_its_own_encodes_one_record_at_a_time() -> None:
    looks_around = changed(0, scale_=np.arange(1.0, 201.0).reshape(40, 5))
    samples = POOLS[0][1]
    together, alone = (encode(looks_around, samples[:count], dim=5) for count in (40, 1))
    assert np.array_equal(together[:1], alone, equal_nan=True)


def test_a_scalar_of_an_encoder_is_a_number() -> None:
    for told in ({"scalar": 10**12, "dtype": "V"}, {"scalar": "x", "dtype": "U"}, {"scalar": [1], "dtype": "f8"}):
        with pytest.raises(ProtocolFault, match="an encoder must be"):
            encoder_bytes.from_bytes(packed(told))


def test_a_person_sees_what_an_encoder_runs() -> None:
    left = encoder_from("hog+pca", POOLS[2][1], seed=0).fit(POOLS[2][1])
    content = encoder_bytes.to_bytes(left)
    shown = encoder_bytes.shown_as(content)
    assert shown.startswith("Pipeline, Hog, Pca, ExactLinear; ")
    assert shown.endswith(f"SHA-256 {hashlib.sha256(content).hexdigest()}")
    assert f"{len(content):,} bytes" in shown


BALLOT = Ballot(num_queries=4, num_classes=3, votes_per_record=2)
PROTOCOLS: list[Protocol[Any]] = [
    CentralLaplace(ballot=BALLOT, epsilon=Fraction(1, 3), neighbours=Neighbours.ADD_REMOVE),
    CentralPermuteAndFlip(ballot=BALLOT, epsilon=Fraction(1, 3)),
    CentralMatching(ballot=Ballot(num_queries=4, num_classes=4), epsilon=Fraction(1, 3)),
    CentralGaussian(ballot=BALLOT, rho=Fraction(1, 7), delta=Fraction(1, 10**6)),
    DistributedLaplace(ballot=BALLOT, epsilon=Fraction(1), survivors=2, parties=3, largest_count=50),
    Collision(ballot=BALLOT, epsilon=Fraction(2)),
    RandomizedResponse(ballot=BALLOT, epsilon=Fraction(2)),
    ShuffleSingle(ballot=BALLOT, epsilon=Fraction(1), delta=Fraction(1, 1000), senders=500, mechanism="collision"),
]


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: type(protocol).__name__)
def test_a_protocol_arrives_as_it_left(protocol: Protocol[Any]) -> None:
    arrived = protocol_json.from_json(json.loads(json.dumps(protocol_json.to_json(protocol))))
    assert arrived == protocol
    assert arrived.event == protocol.event


def test_unknown_and_invalid_protocols_are_refused() -> None:
    told = protocol_json.to_json(PROTOCOLS[0])
    for change in ({"epsilon": "-1"}, {"epsilon": "x"}, {"ballot": {}}, {"extra": 1}, {"neighbours": "none"}):
        with pytest.raises(ProtocolFault, match="validly described"):
            protocol_json.from_json({**told, **change})
    for bare in (None, [], "CentralLaplace", {}):
        with pytest.raises(ProtocolFault, match="must be one of"):
            protocol_json.from_json(bare)
    with pytest.raises(ProtocolFault, match="must be one of"):
        protocol_json.from_json({**told, "protocol": "object"})


@pytest.mark.parametrize(
    "protocol",
    [
        ShuffleMulti(ballot=BALLOT, epsilon=Fraction(1), delta=Fraction(1, 1000), senders=5),
        Questions(ballot=Ballot(num_queries=3, num_classes=3), epsilon=Fraction(1)),
    ],
    ids=lambda protocol: type(protocol).__name__,
)
def test_mechanisms_for_one_process_are_neither_sent_nor_built(
    protocol: Protocol[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """How many messages a silo floods with tells about its records, and the coordinator sees how long its answer is."""
    with pytest.raises(ProtocolFault, match="must be one of"):
        protocol_json.to_json(protocol)
    with monkeypatch.context() as hostile:  # a coordinator that was changed
        hostile.setattr(type(protocol), "for_silos", True)
        sent = json.loads(json.dumps(protocol_json.to_json(protocol)))
    with pytest.raises(ProtocolFault, match="must be one of"):
        protocol_json.from_json(sent)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: type(protocol).__name__)
@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": "1e1000000"},
        {"epsilon": "9" * 81},
        {"epsilon": "1/" + "9" * 81},
        {"rho": "1e-1000000"},
        {"delta": "1e-1000000"},
        {"senders": 10**15},
        {"parties": 10**9},
        {"survivors": True},
        {"largest_count": 2.0},
        {"ballot": {"num_queries": 10**9, "num_classes": 2}},
        {"ballot": {"num_queries": 10**5, "num_classes": 10**4}},
        {"ballot": {"num_queries": "4", "num_classes": 3}},
        {"ballot": {"num_queries": 10**5, "num_classes": 2, "votes_per_record": 10**5}},
    ],
    ids=str,
)
def test_numbers_that_would_take_for_ever_are_refused_before_they_are_computed_with(
    protocol: Protocol[Any], change: dict[str, Any]
) -> None:
    told = protocol_json.to_json(protocol)
    if set(change) <= set(told):
        with pytest.raises(ProtocolFault):
            protocol_json.from_json({**told, **change})
