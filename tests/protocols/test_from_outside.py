"""A mechanism of somebody else's: registered from outside the package, it goes wherever ours go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from recordwise.arrays import Ints
from recordwise.audit import audit
from recordwise.distiller import PrivateDistiller
from recordwise.errors import InvalidInput
from recordwise.federation.cohort import simulate_cohort
from recordwise.planner import look, predict
from recordwise.privacy.guarantee import Guarantee, Trust
from recordwise.privacy.noise import DiscreteLaplace, Noise, SystemNoise, bernoulli, exp, uniform_below
from recordwise.protocols import registry
from recordwise.protocols.central.counts import PureCentral
from recordwise.protocols.local import Engine, LocalMechanism
from recordwise.protocols.release import Tally, pack, unpack
from recordwise.protocols.terms import Terms
from recordwise.randomness import seeded
from recordwise.report import summarize
from recordwise.votes import Ballot, Votes
from recordwise.votes.ballot import NOBODY


@dataclass(frozen=True, kw_only=True)
class EvenCounts(PureCentral):
    """Discrete Laplace noise, then rounded to even numbers: post-processing, so pure epsilon."""

    name: ClassVar[str] = "even-counts"

    @classmethod
    def planned(cls, terms: Terms, ballot: Ballot, num_records: int) -> EvenCounts:
        return cls(ballot=ballot, neighbours=terms.neighbours, epsilon=terms.pure_epsilon())

    @property
    def law(self) -> DiscreteLaplace:
        return DiscreteLaplace(self.ballot.cells_changed(self.neighbours) / self.epsilon)

    def protect(self, counts: Ints, promise: Guarantee, noise: Noise) -> Tally:
        noisy = counts + self.law.sample(counts.shape, noise)
        return Tally(self.ballot, promise, 2.0 * np.round(noisy / 2), self.law)

    def noise_std(self, num_records: int) -> float:
        return self.law.std


@dataclass(frozen=True, kw_only=True)
class Careless(EvenCounts):
    """A broken twin: a tenth of the noise."""

    name: ClassVar[str] = "careless"

    def protect(self, counts: Ints, promise: Guarantee, noise: Noise) -> Tally:
        noisy = counts + DiscreteLaplace(self.law.scale / 10).sample(counts.shape, noise)
        return Tally(self.ballot, promise, noisy.astype(np.float64), self.law)


@dataclass(frozen=True, kw_only=True)
class OneByte(LocalMechanism):
    """The record's cell, or any other value of a byte: k-ary randomized response over 256 values, pure epsilon."""

    name: ClassVar[str] = "one-byte"
    one_vote: ClassVar[bool] = True
    message_size = 1

    @property
    def kept(self) -> float:
        return float(exp(self.epsilon) / (exp(self.epsilon) + 255))

    def randomize(self, votes: Votes, noise: Noise) -> NDArray[np.uint8]:
        cells = votes.cells()[:, 0].astype(np.int64)
        own = np.where(cells == NOBODY, 255, cells)
        other = uniform_below(255, len(votes), noise)
        keep = bernoulli(exp(self.epsilon) / (exp(self.epsilon) + 255), len(votes), noise)
        return np.where(keep, own, other + (other >= own)).astype(np.uint8)[:, None]

    def check(self, bodies: NDArray[np.uint8]) -> None:
        pass

    def estimate(self, bodies: NDArray[np.uint8], engine: Engine) -> NDArray[np.float64]:
        miss = (1 - self.kept) / 255
        seen = np.bincount(bodies[:, 0], minlength=256)[: self.ballot.num_cells]
        shape = (self.ballot.num_queries, self.ballot.num_classes)
        return np.asarray((seen - len(bodies) * miss) / (self.kept - miss)).reshape(shape)

    def variance(self, *, queried: bool, labelled: bool) -> float:
        miss = (1 - self.kept) / 255
        chance = self.kept if queried and labelled else miss
        return chance * (1 - chance) / (self.kept - miss) ** 2

    @property
    def reach(self) -> tuple[float, float]:
        miss = (1 - self.kept) / 255
        return -miss / (self.kept - miss), (1 - miss) / (self.kept - miss)


@dataclass(frozen=True, kw_only=True)
class Blunt(OneByte):
    """A broken twin: it says the record's cell as it is."""

    name: ClassVar[str] = "blunt"

    def randomize(self, votes: Votes, noise: Noise) -> NDArray[np.uint8]:
        return votes.cells().astype(np.uint8)


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    """Registered for one test: a mechanism stays known for as long as its process runs."""
    before = registry.kinds()  # all of ours, loaded: one that a test loads first would be forgotten with the others
    registry.register(EvenCounts)
    registry.register(OneByte)
    yield
    registry._KINDS[:] = before


def test_it_is_listed_and_asked_for_by_name() -> None:
    assert "even-counts" in registry.names(Trust.CENTRAL)
    ballot = Ballot(num_queries=5, num_classes=3)
    (protocol,) = Terms(epsilon=Fraction(1), mechanism="even-counts").protocols(ballot, 100)
    assert protocol == EvenCounts(ballot=ballot, epsilon=Fraction(1))
    assert str(protocol) == "even-counts (central trust), 5 queries, 3 classes, k = 1, r = 1"
    with pytest.raises(InvalidInput, match=r"mechanism under local trust must be one of auto, .*got 'even-counts'"):
        Terms(epsilon=Fraction(1), trust=Trust.LOCAL, mechanism="even-counts")


def test_a_second_class_of_that_name_is_refused() -> None:
    twin = type("EvenCounts", (EvenCounts,), {"__module__": "elsewhere"})
    with pytest.raises(InvalidInput, match="EvenCounts is taken"):
        registry.register(twin)


def test_it_is_planned_with() -> None:
    pool = seeded(0, "outside").normal(size=(200, 3))
    outlook = look(pool, encoder="scaler", num_classes=4, num_records=2000, attainable=0.9)
    found = predict(outlook, Terms(epsilon=Fraction(1), mechanism="even-counts"), num_queries=10)
    assert found.mechanism == "even-counts"
    assert found.noise_std == pytest.approx(DiscreteLaplace(Fraction(2)).std)
    assert 0.3 < found.label_accuracy.mean <= 1


def test_it_labels_a_pool_and_is_reported() -> None:
    rng = seeded(0, "outside")
    y = rng.integers(3, size=400)
    X = rng.normal(size=(400, 2)) + 6 * y[:, None]
    fitted = PrivateDistiller(5.0, mechanism="even-counts", num_queries=6, classes=[0, 1, 2])
    fitted.fit(X[:300], y[:300], X_public=X[300:])
    release = fitted.rounds_[0].release
    assert isinstance(release, Tally)
    assert (release.estimate % 2 == 0).all()
    assert pack(unpack(pack(release))) == pack(release)
    assert fitted.score(X[300:], y[300:]) > 0.9
    summary = summarize(fitted, X[300:], name="outside")
    assert summary.settings["mechanism"] == "even-counts"
    assert summary.rounds[0]["law"] == "DiscreteLaplace"


def test_it_is_audited_and_a_broken_twin_is_caught() -> None:
    """By sampling alone: nothing is known about it. An audit calls a true claim violated with probability 1e-6."""
    ballot = Ballot(num_queries=2, num_classes=2)
    assert not audit(EvenCounts(ballot=ballot, epsilon=Fraction(1)), SystemNoise(), trials=600).violated
    assert audit(Careless(ballot=ballot, epsilon=Fraction(1)), SystemNoise(), trials=600).violated


def test_it_runs_between_silos(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    from tests.federation.world import Tampered, World

    world = World(tmp_path / "world", Trust.CENTRAL, rounds=1)
    fitted = world.fit(Tampered(world.nodes()), mechanism="even-counts")
    release = fitted.rounds_[0].release
    assert isinstance(release, Tally)
    assert np.abs(release.estimate - world.pooled(fitted, 1)).max() <= 1  # rounded; there is no noise to speak of
    assert not getattr(fitted, "faults_", None)


# Under local trust: one message per record


def test_a_local_one_is_planned_shuffled_and_run() -> None:
    ballot = Ballot(num_queries=3, num_classes=2)
    for trust, delta in ((Trust.LOCAL, Fraction(0)), (Trust.SHUFFLE, Fraction(1, 10**5))):
        terms = Terms(epsilon=Fraction(2), delta=delta, trust=trust, mechanism="one-byte")
        (protocol,) = terms.protocols(ballot, 2000)
        assert "one-byte" in protocol.title
        assert protocol.message_size == 1
    rng = seeded(0, "outside", "local")
    y = rng.integers(2, size=3000)
    X = rng.normal(size=(3000, 2)) + 6 * y[:, None]
    fitted = PrivateDistiller(8.0, trust="local", mechanism="one-byte", num_queries=3, classes=[0, 1])
    fitted.fit(X[:2800], y[:2800], X_public=X[2800:])
    assert fitted.score(X[2800:], y[2800:]) > 0.9


def test_a_local_one_is_audited_and_a_broken_twin_is_caught() -> None:
    """Its messages are judged by its own estimates, as it states no density."""
    ballot = Ballot(num_queries=2, num_classes=2)
    assert not audit(OneByte(ballot=ballot, epsilon=Fraction(1)), SystemNoise(), trials=400).violated
    assert audit(Blunt(ballot=ballot, epsilon=Fraction(1)), SystemNoise(), trials=400).violated


def test_a_cohort_of_a_local_one_is_simulated_from_its_own_messages() -> None:
    counts = np.full((3, 2), 2000)
    tally = simulate_cohort(OneByte(ballot=Ballot(num_queries=3, num_classes=2), epsilon=Fraction(8)), counts, seed=0)
    assert not tally.guarantee.private
    assert np.abs(tally.estimate - counts).max() < 6 * tally.noise_std


def test_a_local_one_runs_between_silos(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    from tests.federation.world import Tampered, World

    world = World(tmp_path / "world", Trust.LOCAL, rounds=1)
    fitted = world.fit(Tampered(world.nodes()), mechanism="one-byte")
    release = fitted.rounds_[0].release
    assert isinstance(release, Tally)
    assert np.allclose(release.estimate, world.pooled(fitted, 1))  # there is no noise to speak of
    assert not getattr(fitted, "faults_", None)
