"""What a tally says about the class shares of each query, beside what a model of the pool says.

A record falls into cell (query, class) at a rate `records · size / pool · share`. Before the tally is read, each rate
has a gamma law whose mean is the model's answer; counts are then negative binomial, and the released cell is a count
plus noise of the known law. The posterior mean of every rate is one sum over counts, exact under this model. How far
the model is to be trusted (the gamma laws' common concentration) is chosen by the likelihood of the whole table: where
the noise is loud the model is left alone, where it is small the table is followed. Classes are taken to be equally
common as far as the table leaves that possible, as decoding takes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from recordwise.extras.torch import torch

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from recordwise.errors import InvalidInput, positive, shown
from recordwise.protocols.release import Tally

CONCENTRATIONS = (2.0, 6.0, 18.0, 54.0, 162.0, 486.0, 1458.0)
TEMPERATURES = (1.0, 1.5, 2.25, 3.4, 5.0, 7.5, 11.0)
FEWEST = 1e-3  # of a share: what a model says cannot happen, the records may still show
EXACT = 64  # counts up to here are summed one by one, larger ones in growing steps
STEPS = 192
ROUNDS = 20  # of proportional fitting


@dataclass(frozen=True, eq=False)
class Shares:
    """The likelihood of one tally, ready to be asked for the shares of its queries.

    Attributes:
      expected: (s, 1) about how many votes each query got.
      counts: (n,) the counts that a cell may have, and `log_width`, how many counts each stands for.
      log_noise: (s, C, n) log-likelihood of the released cell, for each count.
      classes: (1, C) about how common each class is.
    """

    expected: Tensor
    counts: Tensor
    log_width: Tensor
    log_noise: Tensor
    classes: Tensor

    def posterior(self, means: Tensor, concentration: float | None = None) -> Tensor:
        """(s, C) expected class shares, given the tally and a model's (s, C) mean answers."""
        prior = _floored(means.to(self.expected))
        if concentration is None:
            concentration = max(CONCENTRATIONS, key=lambda c: self._likelihood(prior, c))
        chances = self._joint(prior, concentration).softmax(2)
        rates = (concentration * prior + chances @ self.counts) / (concentration / self.expected + 1)
        return (rates / rates.sum(1, keepdim=True)).to(means)

    def log_likelihood(self, means: Tensor) -> float:
        """Of the whole tally, given a model's mean answers, trusted as far as suits the tally best."""
        prior = _floored(means.to(self.expected))
        return max(self._likelihood(prior, concentration) for concentration in CONCENTRATIONS)

    def _likelihood(self, prior: Tensor, concentration: float) -> float:
        return float(self._joint(prior, concentration).logsumexp(2).sum())

    def _joint(self, prior: Tensor, concentration: float) -> Tensor:
        """(s, C, n) log-probability of each count together with the released cell."""
        shape = (concentration * prior)[..., None]
        odds = (concentration / self.expected)[..., None]
        counts = self.counts
        log_count = torch.lgamma(shape + counts) - torch.lgamma(shape) - torch.lgamma(counts + 1)
        log_count = log_count + shape * (odds / (odds + 1)).log() - counts * torch.log1p(odds)
        return log_count + self.log_noise + self.log_width


def shares_of(tally: Tally, sizes: ArrayLike, *, records: int, device: str | torch.device = "cpu") -> Shares:
    """The likelihood of a tally of single-label votes.

    Args:
      sizes: (s,) how many pool samples belong to each query; the records are taken to be spread like them.
      records: How many records voted.
    """
    estimate = np.asarray(tally.estimate, dtype=np.float64)
    given = np.asarray(sizes, dtype=np.float64)
    positive(records=records)
    if estimate.ndim != 2 or not np.isfinite(estimate).all():
        raise InvalidInput(f"tally must hold finite cells for each query and class, got shape {estimate.shape}")
    if given.shape != estimate.shape[:1] or not (np.isfinite(given).all() and (given >= 0).all() and given.any()):
        raise InvalidInput(f"sizes must be {len(estimate)} counts >= 0, not all zero, got {shown(sizes)}")
    if tally.ballot.labels_per_record > 1:
        raise InvalidInput(f"shares need one label per record, got {tally.ballot.labels_per_record}")
    # An empty query has no pool sample that its shares could matter to.
    expected = np.maximum(records * tally.ballot.votes_per_record * given / given.sum(), 1e-3)
    largest = max(3 * expected.max() + 20, EXACT + 2.0)
    counts = np.concatenate([np.arange(EXACT), np.unique(np.rint(np.geomspace(EXACT, largest, STEPS)))])
    width = np.gradient(counts)
    # A count stands for all up to halfway to the next: a cell among them is not off at all.
    off = estimate[..., None] - counts
    off = np.sign(off) * np.maximum(np.abs(off) - (width - 1) / 2, 0)
    log_noise = np.maximum(tally.law.log_likelihood(off), -1e6)  # where the noise is next to nothing

    def there(values: object) -> Tensor:
        return torch.as_tensor(np.asarray(values), dtype=torch.float32, device=device)

    common = class_shares(tally, records=records)
    return Shares(there(expected[:, None]), there(counts), there(np.log(width)), there(log_noise), there(common[None]))


def class_shares(tally: Tally, *, records: int) -> NDArray[np.float64]:
    """(C,) about how common each class is: equal shares, or as far from them as the tally shows beyond its noise.

    A variance between classes that noise may show by chance (two deviations above its mean) is not taken for a
    difference, and none is larger than that of shares of which all are equally likely.
    """
    num_queries, num_classes = tally.estimate.shape
    total = records * tally.ballot.votes_per_record
    seen = tally.estimate.sum(axis=0) / total
    noise = num_queries * (tally.law.std / total) ** 2
    chance = 1 + 2 * np.sqrt(2 / max(1, num_classes - 1))
    most = (num_classes - 1) / (num_classes**2 * (num_classes + 1))
    real = min(most, max(0.0, float(seen.var(ddof=min(1, num_classes - 1))) - chance * noise))
    shares = 1 / num_classes + real / max(real + noise, np.finfo(float).tiny) * (seen - 1 / num_classes)
    shares = np.maximum(shares, 0.01 / num_classes)
    return np.asarray(shares / shares.sum())


def mean_answers(answers: Tensor, owner: Tensor, queries: int) -> Tensor:
    """(s, C) the mean answer over each query's samples; equal shares where it has none."""
    sums = torch.zeros(queries, answers.shape[1], dtype=answers.dtype, device=answers.device)
    sums.index_add_(0, owner, answers)
    sizes = torch.bincount(owner, minlength=queries)[:, None]
    return torch.where(sizes > 0, sums / sizes.clamp(min=1), 1 / answers.shape[1])


def aligned(answers: Tensor, owner: Tensor, goal: Tensor, rounds: int = ROUNDS) -> Tensor:
    """The answers, reweighted by one factor for each query and class until their means are the goal's shares.

    Proportional fitting: of all answers with these means, those nearest to the given ones (least divergence).
    """
    goal = _floored(goal)
    weighted = _floored(answers)
    for _ in range(rounds):
        factor = goal / mean_answers(weighted, owner, len(goal)).clamp(min=1e-12)
        weighted = weighted * factor[owner]
        weighted = weighted / weighted.sum(1, keepdim=True)
    return weighted


@dataclass(frozen=True, eq=False)
class Table:
    """A tally beside the query that each pool sample belongs to.

    Attributes:
      owner: (n,) queries.
    """

    owner: Tensor
    shares: Shares

    def means(self, answers: Tensor) -> Tensor:
        """(s, C) the mean answer over each query's samples."""
        return mean_answers(answers, self.owner, len(self.shares.expected))

    def held(self, answers: Tensor) -> Tensor:
        """The answers, aligned to the classes' shares and to what they and the tally then say about each query."""
        answers = aligned(answers, torch.zeros_like(self.owner), self.shares.classes.to(answers))
        return aligned(answers, self.owner, self.shares.posterior(self.means(answers)))


def calibrated(logits: Tensor, tables: Sequence[Table]) -> Tensor:
    """(n, C) answers at the temperature, from 1 up, under which the released tables are likeliest.

    A network that was taught its own answers is too sure of them; its mean answers then leave the rarer classes of a
    query less than the records did.
    """

    def likelihood(temperature: float) -> float:
        answers = (logits.double() / temperature).softmax(1)
        return sum(table.shares.log_likelihood(table.means(answers)) for table in tables)

    return (logits.double() / max(TEMPERATURES, key=likelihood)).softmax(1).clamp(min=1e-9)


def held(logits: Tensor, tables: Sequence[Table], opinion: Tensor | None = None) -> Tensor:
    """(n, C) calibrated answers, aligned to every table; to several one after the other, twice over.

    Args:
      opinion: (n, C) log-probabilities of somebody else, which the calibrated answers are multiplied by.
    """
    answers = calibrated(logits, tables)
    if opinion is not None:
        answers = calibrated(answers.log() + opinion, tables)
    for table in (*tables, *tables) if len(tables) > 1 else tables:
        answers = table.held(answers)
    return answers


def _floored(shares: Tensor) -> Tensor:
    """Rows that sum to one, without zeros."""
    raised = shares + FEWEST / shares.shape[1]
    return raised / raised.sum(1, keepdim=True)
