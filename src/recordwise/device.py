"""The device's side of local trust: one record in, one message of a few bytes out. Needs NumPy and nothing heavier.

    python -m recordwise.device task.npz --record vector.npy --labels 3 --out message.bin --account account.json --cap 8

A task is the public file that a server hands to every device: the queries, and the parameters of the mechanism. The
record never leaves the device; the message is what the server's `recordwise.protocols.local.Inbox` takes in. Servers
may hand out many tasks, so a device keeps an `DeviceAccount`: beyond its cap it answers no more.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import as_vectors
from recordwise.durable import write_whole
from recordwise.errors import InvalidInput, RecordwiseError
from recordwise.formats import Archive, array_file
from recordwise.hashing import digest, digest_of
from recordwise.nearest.backend import NumpyBackend
from recordwise.nearest.poll import Metric
from recordwise.nearest.search import nearest_queries
from recordwise.privacy.device_account import DeviceAccount
from recordwise.privacy.guarantee import members, rounded_down, rounded_up
from recordwise.privacy.noise import Noise, SystemNoise
from recordwise.protocols.local import Answers, LocalMechanism, mechanisms, parameters, wire
from recordwise.protocols.local.answers import ID_BYTES
from recordwise.votes.ballot import NOBODY, Votes


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """What is asked of a device: public.

    Attributes:
      queries: (s, dim) vectors.
      prices: (s,) added to the queries' squared distances, where some queries would be picked by too many.
      max_distance: A record farther than this from every query abstains, which nobody can see.
    """

    mechanism: LocalMechanism
    queries: NDArray[np.float32]
    prices: NDArray[np.float64] | None = None
    metric: Metric = Metric.EUCLIDEAN
    max_distance: float = float("inf")

    def __post_init__(self) -> None:
        if self.mechanism.name not in mechanisms():
            raise InvalidInput(
                f"a device sends one message, and questions in waves have no wire form yet: mechanism must be one of "
                f"{tuple(mechanisms())}, got {type(self.mechanism).__name__}"
            )
        members(self, metric=Metric)
        object.__setattr__(self, "queries", as_vectors("queries", self.queries))
        if len(self.queries) != self.mechanism.ballot.num_queries:
            raise InvalidInput(f"queries must be {self.mechanism.ballot.num_queries}, got {len(self.queries)}")

    def save(self, path: Path) -> None:
        np.savez(
            path,
            parameters=np.array(parameters.to_json(self.mechanism)),
            queries=self.queries,
            prices=np.zeros(len(self.queries)) if self.prices is None else self.prices,
            metric=np.array(str(self.metric)),
            max_distance=np.array(self.max_distance),
        )

    @classmethod
    def load(cls, path: Path | bytes) -> Task:
        """A task from its file, or from that file's content."""
        name = "its content" if isinstance(path, bytes) else path
        try:
            with Archive(path) as file:
                fields = {name: file[name] for name in ("parameters", "queries", "prices", "metric", "max_distance")}
        except (KeyError, InvalidInput) as error:
            raise InvalidInput(f"task must be a file written by Task.save, got {name}: {error}") from error
        try:
            return cls(
                mechanism=parameters.from_json(str(fields["parameters"])),
                queries=fields["queries"],
                prices=fields["prices"],
                metric=Metric(str(fields["metric"])),
                max_distance=float(fields["max_distance"]),
            )
        except InvalidInput:
            raise
        except (ValueError, TypeError, ArithmeticError) as error:
            raise InvalidInput(f"task must be a file written by Task.save, got {name}: {error}") from error

    def votes(self, vector: object, labels: Sequence[int]) -> Votes:
        """The votes of one record. Private."""
        ballot = self.mechanism.ballot
        if len(labels) > ballot.labels_per_record:
            raise InvalidInput(f"labels must be at most r = {ballot.labels_per_record}, got {len(labels)}")
        classes = np.full((1, ballot.labels_per_record), NOBODY, dtype=np.int32)
        for position, label in enumerate(labels):
            if not 0 <= label < ballot.num_classes:
                raise InvalidInput(f"labels must lie in [0, {ballot.num_classes}), got {label}")
            classes[0, position] = label
        record = as_vectors("record", np.asarray(vector)[None], dim=self.queries.shape[1])
        limit = None if np.isinf(self.max_distance) else self.max_distance
        nearest = nearest_queries(
            record,
            self.queries,
            ballot.votes_per_record,
            metric=self.metric,
            max_distance=limit,
            prices=self.prices,
            backend=NumpyBackend(threads=1),  # with more it would look for a BLAS library to restrain
        )
        return Votes(ballot, nearest, classes)

    @property
    def digest(self) -> str:
        """SHA-256 of all that is asked: a task that differs in anything is another task."""
        prices = np.zeros(len(self.queries)) if self.prices is None else np.asarray(self.prices, np.float64)
        asked = [parameters.to_json(self.mechanism), digest(self.queries), digest(prices), str(self.metric)]
        return digest_of("\n".join([*asked, float(self.max_distance).hex()]).encode())

    def answer(
        self,
        vector: object,
        labels: Sequence[int],
        noise: Noise,
        identity: bytes | None = None,
        *,
        account: DeviceAccount | None = None,
    ) -> bytes:
        """The message for one record: safe to send to anybody.

        Guarantees:
          - it is epsilon-DP for the record (`mechanism.guarantee`), whatever else is known;
          - its length does not depend on the record, nor on whether it abstains;
          - with an account, the messages of all tasks together are cap-DP for everything the device holds, and a task
            that is asked again gets the same message, even if the record has changed.

        Args:
          identity: What the server knows this device by, so that it counts it once: 16 bytes. Not the record's.
          account: Pays for the message before it is returned. None is for simulations, and for callers that count.
        """
        if account is None:
            return self._message(vector, labels, noise, identity)
        if not noise.private:
            raise InvalidInput("an account pays for private messages, got seeded noise")
        key = f"{self.digest}/{(identity or b'').hex()}"
        return account.release(key, self.mechanism.epsilon, lambda: self._message(vector, labels, noise, identity))

    def _message(self, vector: object, labels: Sequence[int], noise: Noise, identity: bytes | None) -> bytes:
        answers = self.mechanism.client(self.votes(vector, labels), noise)
        if identity is None:
            return wire.pack(self.mechanism, answers)
        if len(identity) != ID_BYTES:
            raise InvalidInput(f"identity must have {ID_BYTES} bytes, got {len(identity)}")
        ids = np.frombuffer(identity, dtype=np.uint8)[None]
        return wire.pack(self.mechanism, Answers(answers.bodies, ids, answers.private))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m recordwise.device", description="Answer a task for one record.")
    parser.add_argument("task", type=Path, help="public file that the server handed out")
    parser.add_argument("--record", type=Path, required=True, help="the record's vector, a .npy file")
    parser.add_argument("--labels", type=int, nargs="*", default=[], help="the record's classes, at most r of them")
    parser.add_argument("--out", type=Path, required=True, help="where the message is written")
    parser.add_argument("--account", type=Path, required=True, help="file that counts what this device has answered")
    parser.add_argument("--cap", help="epsilon of all answers together, for good; opens the account")
    parser.add_argument("--id", help="32 hexadecimal digits by which the server knows this device")
    options = parser.parse_args(arguments)
    try:
        identity = None if options.id is None else _identity(options.id)
        task = Task.load(options.task)
        account = DeviceAccount(options.account, options.cap)
        message = task.answer(_vector(options.record), options.labels, SystemNoise(), identity, account=account)
        write_whole(options.out, message)
    except (RecordwiseError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code if isinstance(error, RecordwiseError) else 1
    print(f"{len(message)} bytes. {task.mechanism.guarantee}")
    print(f"This device has spent epsilon {rounded_up(account.spent)} of {rounded_down(account.cap)}.")
    return 0


def _identity(digits: str) -> bytes:
    try:
        return bytes.fromhex(digits)
    except ValueError as error:
        raise InvalidInput(f"id must be {2 * ID_BYTES} hexadecimal digits, got {digits!r}") from error


def _vector(path: Path) -> NDArray[np.generic]:
    try:
        vector: NDArray[np.generic] = np.asarray(array_file(path))
    except InvalidInput as error:
        raise InvalidInput(f"record must be a .npy file, got {path}: {error}") from error
    if vector.ndim != 1:
        raise InvalidInput(f"record must be one vector, got shape {vector.shape}")
    return vector


if __name__ == "__main__":
    sys.exit(main())
