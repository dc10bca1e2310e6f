"""What a coordinator asks of silos: one plan for a whole run, and one question per round. All of it public."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import as_vectors
from recordwise.data.schema import Schema
from recordwise.errors import InvalidInput, ProtocolFault, count, whole
from recordwise.federation import encoder_bytes, protocol_json
from recordwise.federation.forms import array_bytes, array_from, frame, hexadecimal, is_name, name, text, unframe
from recordwise.federation.identity import KEY_BYTES
from recordwise.federation.secure_sum import Session
from recordwise.hashing import digest_of
from recordwise.nearest.poll import Metric
from recordwise.privacy.guarantee import Guarantee, Trust, members, rounded_up
from recordwise.protocols.protocol import Protocol, Silos
from recordwise.protocols.terms import promised

VERSION = "recordwise-federation-2"  # changes whenever the same plan would mean something else
MOST_SAMPLE_BYTES, MOST_FORMATS, MOST_CATEGORIES = 1 << 24, 16, 1_000_000
MOST_ROUNDS, MOST_ATTEMPTS, MOST_DIM, MOST_QUERY_BYTES = 100, 10, 100_000, 1 << 28


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """A run, as every silo gets to see it before it answers anything.

    Guarantees:
      - a silo that accepted a plan answers under this plan only: anything else has another digest;
      - `guarantee` bounds all that can ever be charged under it.

    Attributes:
      run: Unique among all runs of the coordinator.
      attempts: Secure sums that may be asked for in one round, should some fail; each is charged (distributed trust).
      protocol: How each round's votes are protected; the same for every round.
      classes: The public list of classes, in the order of the ballot.
      pool: Fingerprint of the public pool.
      schema: How records are read, each on its own.
      encoder: The encoder as `encoder_bytes` writes it.
      dim: How long the vectors are that it makes.
      max_distance: A record farther than this from a query does not vote for it.
      roster: Who is asked: names and public identities.
      threshold: Without answers of so many silos nothing is released.
      colluding: So many silos may work against the others, or read the release and know what they added themselves
        (distributed and shuffle trust).
      coordinator_key: Exact counts are sealed to it (central trust).
      server_key: Shuffled messages are sealed to it (shuffle trust).
      shuffler: The shuffler's name, identity and sealing key (shuffle trust).
    """

    run: str
    rounds: int
    attempts: int = 1
    protocol: Protocol[Any]
    classes: tuple[Any, ...]
    pool: str
    schema: Schema
    encoder: bytes
    dim: int
    metric: Metric
    max_distance: float | None = None
    roster: Mapping[str, bytes]
    threshold: int
    colluding: int = 1
    coordinator_key: bytes = bytes(KEY_BYTES)
    server_key: bytes = bytes(KEY_BYTES)
    shuffler: tuple[str, bytes, bytes] | None = None

    def __post_init__(self) -> None:
        whole(rounds=self.rounds, attempts=self.attempts, threshold=self.threshold, dim=self.dim)
        members(self, metric=Metric)
        count(colluding=self.colluding)
        if not (self.rounds <= MOST_ROUNDS and self.attempts <= MOST_ATTEMPTS and self.dim <= MOST_DIM):
            raise InvalidInput(
                f"a plan must have at most {MOST_ROUNDS} rounds, {MOST_ATTEMPTS} attempts and {MOST_DIM:,} dimensions, "
                f"got {self.rounds}, {self.attempts} and {self.dim}"
            )
        if self.attempts > 1 and self.trust is not Trust.DISTRIBUTED:
            raise InvalidInput(f"attempts are for secure sums, under {self.trust} trust there must be 1")
        if 4 * self.protocol.ballot.num_queries * self.dim > MOST_QUERY_BYTES:
            raise InvalidInput(f"a question must have at most {MOST_QUERY_BYTES:,} bytes, these queries have more")
        named = all(map(is_name, (self.run, self.pool, *self.roster)))
        if not (named and len(self.roster) <= protocol_json.MOST_PARTIES):
            raise InvalidInput("a plan's run, pool and silos must have names that can be printed, at most 1,000 silos")
        if not all(type(one) in (int, bool, float) or is_name(one) for one in self.classes):
            raise InvalidInput("classes must be numbers or names that can be printed, one is not")
        self._check_schema()
        limit = self.max_distance
        if limit is not None and not (isinstance(limit, float | int) and math.isfinite(limit) and limit >= 0):
            raise InvalidInput(f"max_distance must be a number >= 0, got {limit!r}")
        object.__setattr__(self, "roster", dict(sorted(self.roster.items())))
        if not self.threshold <= len(self.roster):
            raise InvalidInput(f"threshold must be <= the {len(self.roster)} silos, got {self.threshold}")
        if len(self.classes) != self.protocol.ballot.num_classes:
            raise InvalidInput(
                f"classes must be the {self.protocol.ballot.num_classes} of the ballot, got {len(self.classes)}"
            )
        silos = Silos(
            parties=len(self.roster),
            threshold=self.threshold,
            colluding=self.colluding,
            least_records=1,
            most_records=protocol_json.MOST_RECORDS,
        )
        self.protocol.check_silos(silos)
        if self.trust is Trust.DISTRIBUTED:
            self.session(Ask(plan="", run=self.run, round=1, queries=np.zeros((1, 1), np.float32)))  # checks its terms
        if self.trust is Trust.SHUFFLE and self.shuffler is None:
            raise InvalidInput("shuffle trust needs a shuffler, got none")

    def _check_schema(self) -> None:
        """Refuse what would make one record, or one cell, too much work: who then answers depends on records."""
        formats = max((len(column.formats) for column in self.schema.columns), default=0)
        listed = sum(len(column.categories) for column in self.schema.columns)
        held = self.schema.sample_bytes
        if held > MOST_SAMPLE_BYTES or formats > MOST_FORMATS or listed > MOST_CATEGORIES:
            raise InvalidInput(
                f"a plan's samples must have at most {MOST_SAMPLE_BYTES:,} bytes, {MOST_FORMATS} formats of a date and "
                f"{MOST_CATEGORIES:,} categories, got {held:,}, {formats} and {listed:,}"
            )

    @property
    def trust(self) -> Trust:
        return self.protocol.guarantee.trust

    @property
    def charges(self) -> int:
        """So many answers may be asked for, at most."""
        return self.rounds * self.attempts

    @cached_property
    def guarantee(self) -> Guarantee:
        """What all answers promise one record together, attempts that failed included: the most this can ever cost."""
        return promised([self.protocol] * self.charges, self.charges * self.protocol.guarantee.delta)

    def to_bytes(self) -> bytes:
        shuffler = None
        if self.shuffler is not None:
            name, identity, key = self.shuffler
            shuffler = [name, identity.hex(), key.hex()]
        return frame(
            {
                "version": VERSION,
                "run": self.run,
                "rounds": self.rounds,
                "attempts": self.attempts,
                "protocol": protocol_json.to_json(self.protocol),
                "classes": list(self.classes),
                "pool": self.pool,
                "schema": self.schema.as_dict(),
                "dim": self.dim,
                "metric": str(self.metric),
                "max_distance": self.max_distance,
                "roster": {name: key.hex() for name, key in self.roster.items()},
                "threshold": self.threshold,
                "colluding": self.colluding,
                "coordinator_key": self.coordinator_key.hex(),
                "server_key": self.server_key.hex(),
                "shuffler": shuffler,
            },
            self.encoder,
        )

    @classmethod
    def from_bytes(cls, content: bytes) -> Plan:
        header, encoder = unframe(content)
        if header.get("version") != VERSION:
            raise ProtocolFault(f"a plan must be of version {VERSION!r}, got {header.get('version')!r}")
        try:
            shuffler = header["shuffler"]
            return cls(
                run=text(header, "run"),
                rounds=header["rounds"],
                attempts=header["attempts"],
                protocol=protocol_json.from_json(header["protocol"]),
                classes=tuple(header["classes"]),
                pool=text(header, "pool"),
                schema=Schema.from_dict(header["schema"]),  # a path would be read on this machine
                encoder=encoder,
                dim=header["dim"],
                metric=Metric(header["metric"]),
                max_distance=header["max_distance"],
                roster={silo: _key(key) for silo, key in header["roster"].items()},
                threshold=header["threshold"],
                colluding=header["colluding"],
                coordinator_key=_key(header["coordinator_key"]),
                server_key=_key(header["server_key"]),
                shuffler=None if shuffler is None else (name(shuffler[0], "a shuffler"), *map(_key, shuffler[1:3])),  # type: ignore[arg-type]
            )
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError) as error:
            raise ProtocolFault(f"a plan must be complete and valid, this one is not: {error}") from error

    @cached_property
    def digest(self) -> str:
        return digest_of(self.to_bytes())

    def session(self, ask: Ask) -> Session:
        """The secure sum of one round."""
        protocol: Any = self.protocol  # of distributed trust, so it has a modulus
        if self.trust is not Trust.DISTRIBUTED:
            raise ProtocolFault(f"a secure sum is for distributed trust, this plan is for {self.trust} trust")
        return Session(
            name=f"{ask.plan}/{ask.round}/{ask.attempt}/{ask.asked}",
            roster=self.roster,
            threshold=self.threshold,
            length=protocol.ballot.num_cells,
            modulus_bits=protocol.modulus_bits,
            colluding=self.colluding,
        )

    def __str__(self) -> str:
        """What a silo's privacy officer reads."""
        ballot, each = self.protocol.ballot, self.protocol.guarantee
        lines = [
            f"run {self.run}: {self.rounds} round(s) of {ballot.num_queries} queries, {ballot.num_classes} classes",
            f"each record votes for {ballot.votes_per_record} queries with at most {ballot.labels_per_record} labels",
            f"cost per answer: epsilon {rounded_up(each.epsilon)}, delta {rounded_up(each.delta) if each.delta else 0}",
            f"answers: at most {self.charges} ({self.rounds} round(s), {self.attempts} attempt(s) each)",
            f"cost of the whole run, at most: epsilon {rounded_up(self.guarantee.epsilon)}, "
            f"delta {rounded_up(self.guarantee.delta) if self.guarantee.delta else 0}",
            str(self.guarantee),
            f"silos asked: {', '.join(self.roster)}; nothing is released with fewer than {self.threshold}",
            f"records are read as {self.schema}",
            f"computed here: {encoder_bytes.shown_as(self.encoder)}",
            f"then the {ballot.votes_per_record} nearest of {ballot.num_queries} queries in {self.dim} dimensions, "
            f"{self.metric} distance" + ("" if self.max_distance is None else f" up to {self.max_distance:g}"),
            f"mechanism: {self.protocol.title}; pool {self.pool[:16]}…; plan {self.digest[:16]}…",
        ]
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True, eq=False)
class Ask:
    """One round's question.

    Attributes:
      plan: Digest of the accepted plan.
      attempt: Counts secure sums of this round that failed; another attempt is another charge.
      queries: (s, dim).
      prices: (s,) of balanced queries: what each adds to a record's squared distance; None where there are none.
    """

    plan: str
    run: str
    round: int
    queries: NDArray[np.float32]
    attempt: int = 1
    prices: NDArray[np.float64] | None = None

    @cached_property
    def body(self) -> bytes:
        return array_bytes(self.queries)

    @cached_property
    def asked(self) -> str:
        prices = b"" if self.prices is None else np.asarray(self.prices, dtype="<f8").tobytes()
        return digest_of(self.body + prices)

    @property
    def key(self) -> str:
        """What the ledgers on both sides call this round."""
        return f"{self.run}/round-{self.round}" + (f"/attempt-{self.attempt}" if self.attempt > 1 else "")

    def header(self, **more: Any) -> dict[str, Any]:
        return {"plan": self.plan, "run": self.run, "round": self.round, "attempt": self.attempt, **more}

    def to_bytes(self) -> bytes:
        priced = {} if self.prices is None else {"prices": self.prices.tolist()}
        return frame(self.header(**priced), self.body)

    @classmethod
    def from_bytes(cls, content: bytes) -> Ask:
        header, body = unframe(content)
        try:
            whole(round=header["round"], attempt=header["attempt"])
            queries = as_vectors("queries", array_from(body))
            return cls(
                plan=text(header, "plan"),
                run=name(header["run"], "a run"),
                round=header["round"],
                attempt=header["attempt"],
                queries=queries,
                prices=_prices(header["prices"], len(queries)) if "prices" in header else None,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ProtocolFault(f"a question must be complete and valid, this one is not: {error}") from error


def _prices(header: object, num_queries: int) -> NDArray[np.float64]:
    numbers = isinstance(header, list) and all(type(price) in (int, float) and math.isfinite(price) for price in header)
    if not (numbers and isinstance(header, list) and len(header) == num_queries):
        raise InvalidInput(f"prices must be {num_queries} finite numbers")
    return np.array(header, dtype=np.float64)


def _key(digits: object) -> bytes:
    return hexadecimal(digits, KEY_BYTES, "a public key")
