"""A mechanism of somebody else's: registered from outside the package, it goes wherever ours go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from recordwise.arrays import Ints
from recordwise.audit import audit
from recordwise.distiller import PrivateDistiller
from recordwise.errors import InvalidInput
from recordwise.planner import look, predict
from recordwise.privacy.guarantee import Guarantee, Trust
from recordwise.privacy.noise import DiscreteLaplace, Noise, SystemNoise
from recordwise.protocols import registry
from recordwise.protocols.central.counts import PureCentral
from recordwise.protocols.release import Tally, pack, unpack
from recordwise.protocols.terms import Terms
from recordwise.randomness import seeded
from recordwise.report import summarize
from recordwise.votes import Ballot


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


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    """Registered for one test: a mechanism stays known for as long as its process runs."""
    before = list(registry._KINDS)
    registry.register(EvenCounts)
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
    assert not audit(EvenCounts(ballot=ballot, epsilon=Fraction(1)), SystemNoise(), trials=2000).violated
    assert audit(Careless(ballot=ballot, epsilon=Fraction(1)), SystemNoise(), trials=2000).violated


def test_it_runs_between_silos(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    from tests.federation.world import Tampered, World

    world = World(tmp_path / "world", Trust.CENTRAL, rounds=1)
    fitted = world.fit(Tampered(world.nodes()), mechanism="even-counts")
    release = fitted.rounds_[0].release
    assert isinstance(release, Tally)
    assert np.abs(release.estimate - world.pooled(fitted, 1)).max() <= 1  # rounded; there is no noise to speak of
    assert not getattr(fitted, "faults_", None)
