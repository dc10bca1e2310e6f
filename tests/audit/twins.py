"""Protocols that break their promise, each in one way; they claim what the healthy ones claim."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.privacy.flood import Flood
from recordwise.privacy.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    Noise,
    PolyaDifference,
    Real,
    exp,
    exponential_matching,
    permutation,
    permute_and_flip,
)
from recordwise.protocols.central import (
    CentralGaussian,
    CentralLaplace,
    CentralMatching,
    CentralPermuteAndFlip,
    ExactCounts,
)
from recordwise.protocols.distributed import DistributedLaplace, ModularSum, Share
from recordwise.protocols.local import (
    Answers,
    Collision,
    Concatenation,
    LocalMechanism,
    Questions,
    RandomizedResponse,
    Respondents,
    Separation,
    SubsetSelection,
    UnaryEncoding,
)
from recordwise.protocols.local.channel import Channel
from recordwise.protocols.local.indicator import Indicator
from recordwise.protocols.local.mechanism import mechanisms
from recordwise.protocols.release import Assigned, Choices, Matched, Tally
from recordwise.protocols.shuffle import ShuffleMulti, ShuffleSingle
from recordwise.votes.ballot import Votes


@dataclass(frozen=True, kw_only=True)
class HalfScaleLaplace(CentralLaplace):
    """Says so."""

    @property
    def law(self) -> DiscreteLaplace:
        return DiscreteLaplace(super().law.scale / 2)


@dataclass(frozen=True, kw_only=True)
class SecretlyHalfScaleLaplace(CentralLaplace):
    """States the right law and draws from another."""

    def server(self, messages: Iterable[ExactCounts], noise: Noise) -> Tally:
        total = self._total(messages)
        noisy = total + DiscreteLaplace(self.law.scale / 2).sample(total.shape, noise)
        return Tally(self.ballot, self.guarantee, noisy.astype(np.float64), self.law)


@dataclass(frozen=True, kw_only=True)
class SharedNoiseLaplace(CentralLaplace):
    """Adds the right noise, but the same to a whole row."""

    def server(self, messages: Iterable[ExactCounts], noise: Noise) -> Tally:
        total = self._total(messages)
        noisy = total + self.law.sample((len(total), 1), noise)
        return Tally(self.ballot, self.guarantee, noisy.astype(np.float64), self.law)


@dataclass(frozen=True, kw_only=True)
class HalfScaleFlip(CentralPermuteAndFlip):
    """Says so."""

    @property
    def scale(self) -> Fraction:
        return super().scale / 2


@dataclass(frozen=True, kw_only=True)
class SecretlyHalfScaleFlip(CentralPermuteAndFlip):
    def server(self, messages: Iterable[ExactCounts], noise: Noise) -> Choices:
        chosen = permute_and_flip(self._total(messages), self.scale / 2, noise)
        return Choices(self.ballot, self.guarantee, chosen, self.scale)


@dataclass(frozen=True, kw_only=True)
class HalfScaleMatching(CentralMatching):
    """Says so: twice too strong, as if replacing a record moved scores by one only."""

    @property
    def scale(self) -> Fraction:
        return super().scale / 2


@dataclass(frozen=True, kw_only=True)
class SecretlyHalfScaleMatching(CentralMatching):
    def server(self, messages: Iterable[ExactCounts], noise: Noise) -> Matched:
        chosen = exponential_matching(self._total(messages), self.scale / 2, noise)
        return Matched(self.ballot, self.guarantee, chosen, self.scale)


@dataclass(frozen=True, kw_only=True)
class HalfDeviationGaussian(CentralGaussian):
    @property
    def law(self) -> DiscreteGaussian:
        return DiscreteGaussian(super().law.sigma2 / 4)

    @property
    def guarantee(self) -> Any:
        return CentralGaussian(ballot=self.ballot, neighbours=self.neighbours, rho=self.rho, delta=self.delta).guarantee


@dataclass(frozen=True, kw_only=True)
class SecretlyHalfVarianceGaussian(CentralGaussian):
    """States the right law and draws noise for half as many cells, as if a replaced record were only removed."""

    def server(self, messages: Iterable[ExactCounts], noise: Noise) -> Tally:
        total = self._total(messages)
        noisy = total + DiscreteGaussian(self.law.sigma2 / 2).sample(total.shape, noise)
        return Tally(self.ballot, self.guarantee, noisy.astype(np.float64), self.law)


@dataclass(frozen=True, kw_only=True)
class OneSidedResponse(RandomizedResponse):
    """Flips with probability 1 / (e^(epsilon/c) + 1): the 2 is missing."""

    @cached_property
    def indicator(self) -> Indicator:
        kept = exp(self.epsilon / self.ballot.cells_per_record)
        return Indicator(hit=kept / (kept + 1), miss=1 / (kept + 1))


@dataclass(frozen=True, kw_only=True)
class OutspokenQuestions(Questions):
    """Flips too rarely: the odds of a true answer are e^(2·epsilon)."""

    @cached_property
    def indicator(self) -> Indicator:
        return Questions(ballot=self.ballot, epsilon=2 * self.epsilon).indicator


class TalkativeRespondents(Respondents):
    def _take_turns(self, rows: Any) -> None:
        """Answers as often as it is asked."""


@dataclass(frozen=True, kw_only=True)
class RepeatedQuestions(Questions):
    """Every answer is as private as it says, and records give a second one."""

    def client(self, votes: Votes, noise: Noise) -> Respondents:
        return TalkativeRespondents(votes, self.indicator, noise)


@dataclass(frozen=True, kw_only=True)
class InsistentQuestions(RepeatedQuestions):
    """Asks everybody all over again, and gets answers."""

    def server(self, messages: Iterable[Respondents], noise: Noise) -> Assigned:
        clients = list(messages)
        super().server(clients, noise)
        return super().server(clients, noise)


@dataclass(frozen=True, kw_only=True)
class ForgetfulUnaryEncoding(UnaryEncoding):
    """Spends the whole epsilon on each of its votes."""

    @cached_property
    def indicator(self) -> Indicator:
        return UnaryEncoding(ballot=replace(self.ballot, votes_per_record=1), epsilon=self.epsilon).indicator


@dataclass(frozen=True, kw_only=True)
class CrowdedChannel(Channel):
    """Takes more points than the one its probabilities are made for."""

    @cached_property
    def hot(self) -> Real:
        raised = exp(self.epsilon)
        return self.capacity * raised / (raised + (self.buckets - 1))


@dataclass(frozen=True, kw_only=True)
class CrowdedCollision(Collision):
    """Sends |V| = 2 points with the probabilities for c = 1."""

    @cached_property
    def channel(self) -> Channel:
        right = super().channel
        return CrowdedChannel(
            domain=right.domain,
            capacity=right.capacity,
            epsilon=right.epsilon,
            buckets=right.buckets,
            independence=right.independence,
        )


@dataclass(frozen=True, kw_only=True)
class CrowdedConcatenation(Concatenation):
    """Sends a query and a class, two points, with the probabilities for one."""

    @cached_property
    def channel(self) -> Channel:
        right = super().channel
        return CrowdedChannel(
            domain=right.domain,
            capacity=right.capacity,
            epsilon=right.epsilon,
            buckets=right.buckets,
            independence=right.independence,
        )


@dataclass(frozen=True, kw_only=True)
class EagerSubset(SubsetSelection):
    """Includes the record's own cell as often as twice the epsilon would allow."""

    @cached_property
    def indicator(self) -> Indicator:
        return SubsetSelection(ballot=self.ballot, epsilon=2 * self.epsilon)._indicator(self.subset_size)


@dataclass(frozen=True, kw_only=True)
class LopsidedSubset(SubsetSelection):
    """Draws as many other cells whether the own one is included or not: the size of the set tells which."""

    def _other_cells(self, included: NDArray[np.bool_], noise: Noise) -> NDArray[np.bool_]:
        return super()._other_cells(np.zeros_like(included), noise)


@dataclass(frozen=True, kw_only=True)
class WholeBudgetSeparation(Separation):
    """Spends the whole epsilon on each of its two messages."""

    @cached_property
    def channels(self) -> tuple[Channel, Channel]:
        return Separation(ballot=self.ballot, epsilon=2 * self.epsilon).channels


class Echo:
    """Noise that, once rewound, is handed out a second time."""

    def __init__(self, noise: Any) -> None:
        self._noise, self._heard, self._next = noise, [], None  # type: ignore[var-annotated]

    def rewind(self) -> None:
        self._next = iter(self._heard)

    def __getattr__(self, name: str) -> Any:
        """Words, or whatever stands in for a sampler."""

        def draw(*asked: Any) -> Any:
            if self._next is not None:
                drawn = next(self._next)
                return drawn % np.asarray(asked[0]) if name == "uniform_below" else drawn
            self._heard.append(getattr(self._noise, name)(*asked))
            return self._heard[-1]

        return draw


@dataclass(frozen=True, kw_only=True)
class EchoedSeparation(Separation):
    """Keys and coins of the first message are used again for the second."""

    def randomize(self, votes: Votes, noise: Noise) -> NDArray[np.uint8]:
        queries, classes = self.channels
        echo: Any = Echo(noise)
        first = queries.randomize(votes.queries, echo)
        echo.rewind()
        return np.concatenate([first, classes.randomize(votes.labels, echo)], axis=1)


@dataclass(frozen=True, kw_only=True)
class ThinShares(DistributedLaplace):
    """Every party adds half of its share."""

    def client(self, votes: Votes, noise: Noise) -> Share:
        counts = votes.counts()
        share = PolyaDifference(Fraction(1, 2 * self.survivors), self.scale).sample(counts.shape, noise)
        return Share((counts + share).astype(np.uint64) & self._mask, private=noise.private)


@dataclass(frozen=True, kw_only=True)
class AnyNumberOfShares(DistributedLaplace):
    """Releases whatever arrived."""

    def release(self, total: ModularSum) -> Tally:
        released = super().release(replace(total, parties=max(total.parties, self.fewest)))
        return replace(released, law=self.law(total.parties))


@dataclass(frozen=True, kw_only=True)
class ForgottenInsider(DistributedLaplace):
    """Releases as soon as `survivors` shares arrived, although a reader may know one of them."""

    @property
    def fewest(self) -> int:
        return self.survivors


@dataclass(frozen=True, kw_only=True)
class ImpatientShuffler(ShuffleSingle):
    """Releases whatever arrived."""

    def shuffle(self, messages: Iterable[Answers], noise: Noise) -> Answers:
        every = np.concatenate([answers.bodies for answers in messages])
        return Answers(every[permutation(len(every), noise)], private=noise.private)


@dataclass(frozen=True, kw_only=True)
class IdleShuffler(ShuffleSingle):
    """Counts the messages and passes them on in the order in which they came."""

    def shuffle(self, messages: Iterable[Answers], noise: Noise) -> Answers:
        every = list(messages)
        super().shuffle(every, noise)
        return Answers(np.concatenate([answers.bodies for answers in every]), private=noise.private)


@dataclass(frozen=True, kw_only=True)
class OptimisticShuffle(ShuffleSingle):
    """Takes amplification for granted: ten times epsilon for each message, however few senders there are."""

    @cached_property
    def local(self) -> LocalMechanism:
        return mechanisms()[self.mechanism](ballot=self.ballot, epsilon=10 * self.epsilon)


@dataclass(frozen=True, kw_only=True)
class DryFlood(ShuffleMulti):
    """Leaves the cancelling messages out: a cell without positive messages had no vote."""

    @cached_property
    def flood(self) -> Flood:
        return Flood(Fraction(1), Fraction(1, 50))
