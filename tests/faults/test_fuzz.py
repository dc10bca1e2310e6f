"""Every parser, fed with bytes that are nearly right: it gives a value or an error of ours, and does not take long.

The bytes follow from a seed, so a failure comes back. `make test` tries a few of them, `make test-all` about a minute's
worth for each parser.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ended import at_most
from mutations import mutations
from PIL import Image
from tiny import JOB, document
from torch import nn

from counts import BYTES, Counted, Share
from recordwise.data import Schema
from recordwise.data.files import read
from recordwise.device import Task
from recordwise.encoders import encoder_from
from recordwise.errors import RecordwiseError
from recordwise.federation import encoder_bytes, frames, protocol_json
from recordwise.federation.forms import array_bytes, unframe
from recordwise.federation.identity import identity_key, public_identity
from recordwise.federation.plan import Ask, Plan
from recordwise.federation.replies import Reply
from recordwise.formats import Archive, array_from, json_from, parquet_file, picture_file, toml_file
from recordwise.formats.framing import length_of
from recordwise.formats.weights import safetensors_file
from recordwise.job import read_job
from recordwise.nearest.poll import Metric
from recordwise.privacy.device_account import DeviceAccount
from recordwise.privacy.events import Pure, from_json, to_json
from recordwise.privacy.filter import RecordFilter
from recordwise.privacy.guarantee import Neighbours
from recordwise.privacy.noise import SystemNoise
from recordwise.privacy.payments import Payments
from recordwise.protocols.central import CentralLaplace
from recordwise.protocols.local import Collision, parameters, wire
from recordwise.protocols.release import pack, unpack
from recordwise.randomness import seeded
from recordwise.report import Summary
from recordwise.vision.saved import save_weights
from recordwise.votes import Ballot, Votes

FEW = 60
X = seeded(0, "fuzz").normal(size=(20, 3))
BALLOT = Ballot(num_queries=4, num_classes=3)


@dataclass(frozen=True)
class Target:
    """A parser of bytes, good examples for it, and how many of their neighbours take about a minute."""

    parse: Callable[[bytes], object]
    examples: Callable[[], Sequence[bytes]]
    many: int


def of_file(parse: Callable[[Path], object], name: str) -> Callable[[bytes], object]:
    """A parser of files as one of bytes."""

    def parsed(content: bytes) -> object:
        place = Path.cwd() / name
        place.write_bytes(content)
        return parse(place)

    return parsed


def written(write: Callable[[Path], object], name: str) -> bytes:
    place = Path.cwd() / name
    place.unlink(missing_ok=True)
    write(place)
    return place.read_bytes()


def saved(save: Callable[..., object], *values: Any, **named: Any) -> bytes:
    file = io.BytesIO()
    save(file, *values, **named)
    return file.getvalue()


def whole(content: bytes) -> object:
    with Archive(content) as archive:
        return dict(archive)


def table(path: Path) -> object:
    with parquet_file(path) as held:
        return held.read()


def samples(path: Path) -> object:
    loaded = read(path)
    return Schema.of_loaded(loaded).pool(loaded.samples)


@cache
def protocol() -> CentralLaplace:
    return CentralLaplace(ballot=BALLOT, neighbours=Neighbours.REPLACE, epsilon=Fraction(1))


@cache
def plan() -> Plan:
    encoder = encoder_from("pca", X, seed=0).fit(X)
    return Plan(
        run="run",
        rounds=1,
        protocol=protocol(),
        classes=("a", "b", "c"),
        pool="pool",
        schema=Schema.of(X),
        encoder=encoder_bytes.to_bytes(encoder),
        dim=3,
        metric=Metric.EUCLIDEAN,
        roster={name: public_identity(identity_key()) for name in ("north", "south", "west")},
        threshold=2,
    )


def ask() -> Ask:
    return Ask(plan=plan().digest, run="run", round=1, queries=X[:4].astype(np.float32))


def shown(content: bytes) -> object:
    return str(Plan.from_bytes(content)), encoder_bytes.shown_as(content)


def collision() -> Collision:
    return Collision(epsilon=Fraction(1), ballot=BALLOT)


def votes() -> Votes:
    return Votes(BALLOT, np.zeros((5, 1), np.int32), np.ones((5, 1), np.int32))


def framed() -> bytes:
    return wire.pack(collision(), collision().client(votes(), SystemNoise()))


def release() -> bytes:
    return pack(protocol().server(protocol().clients(votes(), SystemNoise(), parties=1, senders=None), SystemNoise()))


def account(path: Path) -> object:
    return DeviceAccount(path).spent


def opened_account() -> bytes:
    def make(path: Path) -> None:
        DeviceAccount(path, 4).release("task", Fraction(1), lambda: b"answer")

    return written(make, "account.json")


def paid() -> RecordFilter:
    one = RecordFilter(1, 5)
    one.admit(np.ones(5, np.int64), Fraction(1, 4))
    return one


def payments(path: Path) -> Payments:
    return Payments(path, "fuzz")


def schemas() -> list[bytes]:
    columns = [
        {"name": "a", "kind": "number", "range": [0, 9]},
        {"name": "b", "kind": "category", "categories": ["x", "y"]},
        {"name": "c", "kind": "date", "formats": ["%Y-%m-%d"]},
    ]
    told = [
        {"kind": "table", "columns": columns},
        {"kind": "images", "shape": [8, 8, 3], "numbers": "uint8"},
        {"kind": "vectors", "shape": [3]},
    ]
    return [json.dumps(one).encode() for one in told]


def summary() -> bytes:
    from recordwise.distiller import PrivateDistiller
    from recordwise.report import summarize

    y = np.arange(20) % 3
    one = PrivateDistiller(1.0, num_queries=4, classes=[0, 1, 2], student="linear").fit(X, y, X_public=X)
    return summarize(one, X, name="fuzz").to_json().encode()


def picture(form: str) -> bytes:
    return saved(Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8)).convert("RGB").save, format=form)


def weights() -> bytes:
    return written(lambda path: save_weights(nn.Linear(2, 2), path), "w.safetensors")


def requests() -> list[bytes]:
    return [frames.request_frame(7, "vote", b"x" * 9), frames.reply_frame(7, b"y" * 9)]


def framing(content: bytes) -> object:
    return frames.read_request(content), frames.read_reply(content), length_of(content[:4].ljust(4, b"\0"))


TARGETS: dict[str, Target] = {
    "npy": Target(array_from, lambda: [saved(np.save, X), array_bytes(np.array(["a", "bc"]))], 150_000),
    "npz": Target(whole, lambda: [saved(np.savez, X=X), saved(np.savez_compressed, X=X, y=X[0])], 40_000),
    "json": Target(json_from, lambda: [*schemas(), b'[1.5e3, "\\u00e9", {"a": [null, true]}]'], 300_000),
    "toml": Target(of_file(toml_file, "x.toml"), lambda: [document(JOB).encode()], 40_000),
    "job file": Target(of_file(read_job, "job.toml"), lambda: [document(JOB).encode()], 30_000),
    "csv": Target(of_file(samples, "x.csv"), lambda: [b'a,b,c\n1,2,x\n"3",4,"y, z"\n'], 25_000),
    "text": Target(of_file(samples, "x.txt"), lambda: ["eins\nzwei é\n".encode()], 60_000),
    "parquet": Target(of_file(table, "x.parquet"), lambda: [saved(lambda f: pq.write_table(_table(), f))], 15_000),
    "image": Target(of_file(picture_file, "x.img"), lambda: [picture(one) for one in ("PNG", "JPEG", "GIF")], 40_000),
    "safetensors": Target(of_file(safetensors_file, "x.safetensors"), lambda: [weights()], 60_000),
    "schema": Target(lambda content: Schema.from_dict(json_from(content)), schemas, 120_000),
    "protocol": Target(
        lambda content: protocol_json.from_json(json_from(content)),
        lambda: [json.dumps(protocol_json.to_json(protocol())).encode()],
        100_000,
    ),
    "plan": Target(Plan.from_bytes, lambda: [plan().to_bytes()], 30_000),
    "plan as shown": Target(shown, lambda: [plan().to_bytes()], 20_000),
    "question": Target(Ask.from_bytes, lambda: [ask().to_bytes()], 80_000),
    "encoder": Target(encoder_bytes.from_bytes, lambda: [plan().encoder], 20_000),
    "reply": Target(
        Reply.claimed, lambda: [Reply(name="north", stage="vote", request="0" * 64).signed(identity_key())], 100_000
    ),
    "message": Target(unframe, lambda: [ask().to_bytes()], 150_000),
    "frame": Target(framing, requests, 300_000),
    "local answers": Target(lambda content: wire.unpack(collision(), content), lambda: [framed()], 100_000),
    "parameters": Target(parameters.from_json, lambda: [parameters.to_json(collision()).encode()], 100_000),
    "release": Target(unpack, lambda: [release()], 30_000),
    "event": Target(
        lambda content: from_json(json_from(content)),
        lambda: [json.dumps(to_json(Pure(Fraction(1, 3)))).encode()],
        150_000,
    ),
    "summary": Target(of_file(Summary.read, "summary.json"), lambda: [summary()], 20_000),
    "device account": Target(of_file(account, "account.json"), lambda: [opened_account()], 30_000),
    "device task": Target(of_file(Task.load, "task.npz"), lambda: [_task()], 15_000),
    "record filter": Target(RecordFilter.from_bytes, lambda: [paid().to_bytes()], 30_000),
    "payments": Target(
        of_file(lambda path: payments(path).load(), "payments"),
        lambda: [written(lambda path: payments(path).save(paid()), "payments")],
        60_000,
    ),
}


def _table() -> Any:
    return pa.table({"a": [1.5, None, 3.0], "b": ["x", "y", None], "c": [[1, 2], [3], []]})


def _task() -> bytes:
    return written(Task(mechanism=collision(), queries=X[:4].astype(np.float32)).save, "task.npz")


def fuzz(target: Target, count: int) -> None:
    examples = list(target.examples())
    for example in examples:
        target.parse(example)  # what the others are made of is good
    for number, content in enumerate(mutations(examples, count)):
        said = ""
        with at_most(60):
            try:
                target.parse(content)
            except RecordwiseError as fault:
                said = str(fault)
            except BaseException as fault:
                fault.add_note(f"mutation {number}: {content[:2000]!r}")
                raise
        assert "\n" not in said, (number, content)


@pytest.mark.parametrize("name", TARGETS)
def test_a_parser_survives_what_is_nearly_right(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fuzz(TARGETS[name], FEW)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", TARGETS)
def test_a_parser_survives_a_minute(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counted: Counted, share: Share
) -> None:
    monkeypatch.chdir(tmp_path)
    many = share(TARGETS[name].many)
    fuzz(TARGETS[name], many)
    counted(BYTES, many, 0)  # the first that goes wrong ends the test
