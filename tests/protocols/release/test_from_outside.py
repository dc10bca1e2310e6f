"""Kinds of release of somebody else's: they are decoded, taught from, paid for and reported like ours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pytest
from numpy.typing import NDArray

from recordwise.arrays import Doubles, Ints
from recordwise.audit import audit
from recordwise.distiller import PrivateDistiller
from recordwise.errors import InvalidInput, LedgerFault
from recordwise.labels import Labels, decode
from recordwise.labels.facts import Facts
from recordwise.planner import look, predict
from recordwise.privacy.guarantee import Guarantee
from recordwise.privacy.noise import DiscreteLaplace, Noise, SeededNoise, SystemNoise
from recordwise.protocols import registry
from recordwise.protocols.central.counts import PureCentral
from recordwise.protocols.release import KINDS, Evidence, Release, Tally, Undecoded, pack, unpack
from recordwise.protocols.release.tally import LAWS
from recordwise.protocols.terms import Terms
from recordwise.randomness import seeded
from recordwise.report import Summary, render, summarize
from recordwise.votes import Ballot

Parts = tuple[dict[str, Any], dict[str, NDArray[Any]]]


@dataclass(frozen=True, eq=False)
class TopTwo(Undecoded):
    """The two largest classes of each query, and no counts."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]

    @property
    def decoders(self) -> tuple[str, ...]:
        return ("podium", *super().decoders)

    def scores(self) -> NDArray[np.float64]:
        classes = np.eye(self.ballot.num_classes)
        return np.asarray(classes[self.first] + classes[self.second] / 2)

    def evidence(self, query_shares: Doubles, num_records: int | None) -> Evidence:
        likelihood = np.log(np.where(self.scores() == 1, 0.8, np.where(self.scores() == 0.5, 0.15, 0.05)))
        return Evidence(
            by_purity=likelihood[:, :, None],
            purities=np.array([0.9]),
            records=None if num_records is None else num_records * query_shares,
            class_shares=query_shares @ self.scores() / 1.5,
            class_variance=0.01,
        )

    def simulated(self, counts: NDArray[np.float64], rng: np.random.Generator) -> Self:
        return type(self)(self.ballot, self.guarantee, *podium(counts + rng.laplace(0, 2, counts.shape)))

    def figures(self) -> dict[str, Any]:
        return {"words": "two classes per query", "second": self.second.tolist()}

    def check(self) -> None:
        if (self.first == self.second).any():
            raise InvalidInput("the two classes of a query must differ")

    def parts(self) -> Parts:
        return {}, {"first": self.first, "second": self.second}

    @classmethod
    def from_parts(
        cls, ballot: Ballot, guarantee: Guarantee, about: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> Self:
        return cls(ballot, guarantee, arrays["first"], arrays["second"])


@dataclass(frozen=True, eq=False)
class Halves(Release):
    """Noisy counts, kept at half their size: nothing of ours, and a tally for whoever asks."""

    halves: NDArray[np.float64]
    scale: Fraction

    decoders: ClassVar[tuple[str, ...]] = ("podium",)

    @property
    def tally(self) -> Tally:
        return Tally(self.ballot, self.guarantee, 2 * self.halves, DiscreteLaplace(self.scale))

    def scores(self) -> NDArray[np.float64]:
        return self.halves

    def check(self) -> None:
        self.tally.check()

    def parts(self) -> Parts:
        return {"scale": str(self.scale)}, {"halves": self.halves}

    @classmethod
    def from_parts(
        cls, ballot: Ballot, guarantee: Guarantee, about: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> Self:
        return cls(ballot, guarantee, arrays["halves"], Fraction(about["scale"]))


def podium(table: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    order = np.argsort(-table, axis=1, kind="stable")
    return order[:, 0].astype(np.int64), order[:, 1].astype(np.int64)


def decode_podium(release: Release, facts: Facts) -> Labels:
    """A decoder of theirs, for both kinds: the first class, with a fixed confidence."""
    hard = podium(release.scores())[0]
    probabilities = np.full(release.scores().shape, 0.1 / (release.ballot.num_classes - 1))
    np.put_along_axis(probabilities, hard[:, None], 0.9, axis=1)
    sure = np.full(len(hard), 0.9)
    return Labels(hard=hard, probabilities=probabilities, confidence=sure, leads=sure, decoder="podium")


@dataclass(frozen=True, kw_only=True)
class Noisy(PureCentral):
    """Discrete Laplace noise; what is published of it is post-processing, so pure epsilon."""

    @classmethod
    def planned(cls, terms: Terms, ballot: Ballot, num_records: int) -> Noisy:
        return cls(ballot=ballot, neighbours=terms.neighbours, epsilon=terms.pure_epsilon())

    @property
    def law(self) -> DiscreteLaplace:
        return DiscreteLaplace(self.ballot.cells_changed(self.neighbours) / self.epsilon)

    def noise_std(self, num_records: int) -> float:
        return self.law.std

    def blank(self) -> Release:
        return self.protect(
            np.zeros((self.ballot.num_queries, self.ballot.num_classes), dtype=np.int64), self.guarantee, SeededNoise(0)
        )


@dataclass(frozen=True, kw_only=True)
class TopTwoOf(Noisy):
    name: ClassVar[str] = "top-two"

    def protect(self, counts: Ints, promise: Guarantee, noise: Noise) -> TopTwo:
        return TopTwo(self.ballot, promise, *podium(counts + self.law.sample(counts.shape, noise).astype(np.float64)))


@dataclass(frozen=True, kw_only=True)
class HalvesOf(Noisy):
    name: ClassVar[str] = "halves"

    def protect(self, counts: Ints, promise: Guarantee, noise: Noise) -> Halves:
        return Halves(self.ballot, promise, (counts + self.law.sample(counts.shape, noise)) / 2, self.law.scale)


class Found:
    name = "podium"

    def load(self) -> Any:
        return decode_podium


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if their package were installed, for one test."""
    before = registry.kinds()
    registry.register(TopTwoOf)
    registry.register(HalvesOf)
    monkeypatch.setattr(
        "recordwise.plugins.entry_points", lambda group: [Found()] if group == "recordwise.decoders" else []
    )
    yield
    registry._KINDS[:] = before


RNG = seeded(0, "outside", "release")
Y = RNG.integers(3, size=400)
X = RNG.normal(size=(400, 2)) + 6 * Y[:, None]


def fitted(mechanism: str, **settings: Any) -> PrivateDistiller:
    model = PrivateDistiller(9.0, mechanism=mechanism, num_queries=12, classes=[0, 1, 2], **settings)
    return model.fit(X[:300], Y[:300], X_public=X[300:], noise=SeededNoise(1))


@pytest.mark.parametrize("mechanism", ["top-two", "halves"])
def test_it_is_known_by_its_name_and_kept_as_bytes(mechanism: str) -> None:
    assert KINDS["TopTwo"] is TopTwo and KINDS["Halves"] is Halves
    release = fitted(mechanism).rounds_[0].release
    assert type(unpack(pack(release))) is type(release)
    assert pack(unpack(pack(release))) == pack(release)


def test_a_second_kind_of_that_name_is_refused() -> None:
    with pytest.raises(InvalidInput, match="a kind of release must have a name of its own, Tally is taken"):
        type("Tally", (Halves,), {"__module__": "elsewhere"})
    assert KINDS["Tally"] is Tally


@dataclass(frozen=True)
class Wide(DiscreteLaplace):
    """A law of theirs."""


def test_a_law_of_theirs_is_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    ballot = Ballot(num_queries=2, num_classes=2)
    release = Tally(ballot, Guarantee(epsilon=Fraction(1)), np.ones((2, 2)), Wide(Fraction(3)))
    with pytest.raises(LedgerFault, match="Wide"):
        unpack(pack(release))
    monkeypatch.setitem(LAWS, "Wide", Wide)
    found = unpack(pack(release)).tally
    assert found is not None and found.law == Wide(Fraction(3))


@pytest.mark.parametrize("decoder", ["auto", "podium", "field", "argmax", "posterior"])
def test_choices_of_theirs_are_decoded_by_their_decoder_and_by_ours(decoder: str) -> None:
    model = fitted("top-two", decoder=decoder)
    labels = model.rounds_[0].labels
    assert labels.decoder == ("podium" if decoder == "auto" else decoder)
    np.testing.assert_allclose(labels.probabilities.sum(axis=1), 1)
    assert model.learnt_ is None  # there are no counts to read: the student learns the labels
    assert model.score(X[300:], Y[300:]) > 0.8


def test_a_decoder_that_it_does_not_name_is_refused() -> None:
    release = fitted("halves").rounds_[0].release
    with pytest.raises(InvalidInput, match="decoder must be 'auto' or one of podium for this release"):
        decode(release, sizes=np.ones(12), graph=None, decoder="field")


def test_a_student_reads_counts_that_it_shows() -> None:
    model = fitted("halves")
    assert model.rounds_[0].release.has_counts and model.learnt_ is not None
    assert model.score(X[300:], Y[300:]) > 0.9


def test_a_report_shows_what_it_says_of_itself(tmp_path: Path) -> None:
    counted, chosen = (summarize(fitted(name), X[300:], name=name) for name in ("halves", "top-two"))
    release = counted.rounds[0]
    assert release["law"] == "DiscreteLaplace" and len(release["tally"]) == 12
    assert "The released tally" in render(counted)
    assert len(chosen.rounds[0]["second"]) == 12 and "tally" not in chosen.rounds[0]
    (tmp_path / "summary.json").write_text(chosen.to_json())
    page = render(Summary.read(tmp_path / "summary.json"))
    assert "decoder podium, two classes per query" in page and "The released tally" not in page


@pytest.mark.parametrize("mechanism", ["top-two", "halves"])
def test_it_is_planned_with_and_audited(mechanism: str) -> None:
    """An audit calls a true claim violated with probability 1e-6."""
    outlook = look(X[300:], encoder="scaler", num_classes=3, num_records=2000, attainable=0.9)
    assert predict(outlook, Terms(epsilon=Fraction(1), mechanism=mechanism), num_queries=9).mechanism == mechanism
    kind = TopTwoOf if mechanism == "top-two" else HalvesOf
    small = kind(ballot=Ballot(num_queries=2, num_classes=2), epsilon=Fraction(1))
    assert not audit(small, SystemNoise(), trials=300).violated
