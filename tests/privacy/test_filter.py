"""The record filter, against every outcome of small adaptive mechanisms."""

from __future__ import annotations

import copy
import io
import itertools
import pickle
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from recordwise.errors import InvalidInput
from recordwise.privacy.accountant import total_epsilon
from recordwise.privacy.filter import RecordFilter
from recordwise.privacy.guarantee import Guarantee, Neighbours

# A mechanism of three rounds on two cells. Each round's question and noise follow from the last release: which cell
# came out larger. A record is one of three kinds, and votes for these cells when this question is asked.
ROUNDS = 3
SCALES = (2, 3)
BALLOTS = {0: ({0}, {1}, {0, 1}), 1: (set[int](), {0, 1}, {1})}
WINDOW = range(-1, 3)  # releases per cell; beyond it a further step changes no log-ratio
UNIT = 6  # log-probabilities are whole multiples of 1/6
OUTCOMES = list(itertools.product(WINDOW, repeat=2))
Make = Callable[[int], RecordFilter]


def log_probabilities(records: tuple[int, ...], make: Make) -> NDArray[np.int64]:
    """UNIT · log P(all three releases), for every outcome, up to what no record has any influence on."""
    answers: list[int] = []

    def go_on(round_number: int, question: int, guard: RecordFilter, log_probability: int) -> None:
        if round_number == ROUNDS:
            answers.append(log_probability)
            return
        scale = SCALES[question]
        ballots = [BALLOTS[question][record] for record in records]
        admitted = guard.admit(np.array([len(ballot) for ballot in ballots], dtype=np.int64), Fraction(1, scale))
        cast = [ballot for ballot, may in zip(ballots, admitted, strict=True) if may]
        counts = [sum(cell in ballot for ballot in cast) for cell in (0, 1)]
        for outcome in OUTCOMES:
            distance = sum(abs(seen - count) for seen, count in zip(outcome, counts, strict=True))
            following = int(outcome[0] > outcome[1])
            go_on(round_number + 1, following, copy_of(guard), log_probability - distance * UNIT // scale)

    go_on(0, 0, make(len(records)), 0)
    return np.array(answers)


def copy_of(guard: RecordFilter) -> RecordFilter:
    twin = object.__new__(
        type(guard)
    )  # each branch of the tree goes on with its own; payments are replaced, not changed
    twin.__dict__.update(guard.__dict__)
    return twin


def largest_loss(neighbours: Neighbours, make: Make) -> Fraction:
    """The largest log-ratio of any outcome's probabilities under two neighbouring data sets of up to two records."""
    kinds = range(3)
    known = {
        records: log_probabilities(records, make)
        for size in (1, 2)
        for records in itertools.product(kinds, repeat=size)
    }
    if neighbours is Neighbours.REPLACE:
        pairs = [
            ((old, *rest), (new, *rest)) for old in kinds for new in kinds for rest in [(), *((k,) for k in kinds)]
        ]
    else:
        pairs = [((extra, other), (other,)) for extra in kinds for other in kinds]
    return Fraction(int(max(np.abs(known[one] - known[two]).max() for one, two in pairs)), UNIT)


class Forgetful(RecordFilter):
    """A broken twin that looks at what a record has paid before it adds what the record is about to pay."""

    def admit(self, votes: NDArray[np.int64], loss_per_vote: Fraction) -> NDArray[np.bool_]:  # type: ignore[override]
        paid = np.array([self._payments[number] for number in self._paid])
        self._payments = [*self._payments, *(paid + votes * loss_per_vote)]
        admitted = np.array([before < self.allowance for before in paid])
        booked = len(self._payments) - len(paid) + np.arange(len(paid))
        self._paid = np.where(admitted, booked, self._paid)
        return admitted


class Absent(RecordFilter):
    """A broken twin that admits everybody."""

    def admit(self, votes: NDArray[np.int64], loss_per_vote: Fraction) -> NDArray[np.bool_]:  # type: ignore[override]
        return np.ones(len(votes), dtype=np.bool_)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("cap", [Fraction(1, 3), Fraction(1), Fraction(4, 3), Fraction(2)])
def test_no_outcome_tells_two_neighbours_apart_by_more_than_the_cap(neighbours: Neighbours, cap: Fraction) -> None:
    assert largest_loss(neighbours, lambda size: RecordFilter(cap, size, neighbours)) <= cap


@pytest.mark.parametrize(
    ("neighbours", "cap"), [(Neighbours.REPLACE, Fraction(2)), (Neighbours.ADD_REMOVE, Fraction(1))]
)
def test_the_cap_is_reached_and_every_broken_twin_exceeds_it(neighbours: Neighbours, cap: Fraction) -> None:
    assert largest_loss(neighbours, lambda size: RecordFilter(cap, size, neighbours)) == cap
    assert largest_loss(neighbours, lambda size: Absent(cap, size, neighbours)) > cap
    assert largest_loss(neighbours, lambda size: Forgetful(cap, size, neighbours)) > cap


def test_a_whole_cap_for_each_of_two_replaced_records_is_caught() -> None:
    cap = Fraction(1)
    assert largest_loss(Neighbours.REPLACE, lambda size: RecordFilter(cap, size, Neighbours.ADD_REMOVE)) > cap


def test_three_votes_of_a_tenth_fit_three_tenths_and_a_fourth_does_not() -> None:
    guard = RecordFilter(0.6, 2, Neighbours.REPLACE)
    assert guard.allowance == Fraction(3, 10)
    for expected in ([True, True], [True, True], [True, True], [False, True]):
        assert guard.admit([1, 0], 0.1).tolist() == expected


def test_a_record_that_cannot_pay_for_all_its_votes_casts_none_and_keeps_its_allowance() -> None:
    guard = RecordFilter(1, 1, Neighbours.ADD_REMOVE)
    assert guard.admit([3], Fraction(1, 4)).tolist() == [True]
    assert guard.admit([2], Fraction(1, 4)).tolist() == [False]
    assert guard.admit([1], Fraction(1, 4)).tolist() == [True]
    assert guard.admit([1], Fraction(1, 10**9)).tolist() == [False]


@given(
    rounds=st.lists(
        st.tuples(st.lists(st.integers(0, 4), min_size=5, max_size=5), st.fractions(Fraction(1, 50), 1)), max_size=8
    ),
    neighbours=st.sampled_from(Neighbours),
)
def test_decisions_equal_a_plain_sum_per_record(
    rounds: list[tuple[list[int], Fraction]], neighbours: Neighbours
) -> None:
    guard = RecordFilter(2, 5, neighbours)
    paid = [Fraction(0)] * 5
    for votes, loss in rounds:
        may = [before + count * loss <= guard.allowance for before, count in zip(paid, votes, strict=True)]
        assert guard.admit(votes, loss).tolist() == may
        paid = [before + count * loss * ok for before, count, ok in zip(paid, votes, may, strict=True)]


def test_records_do_not_see_each_other() -> None:
    alone, together = RecordFilter(1, 1), RecordFilter(1, 3)
    for votes in ([1, 4, 0], [2, 1, 1], [1, 0, 3]):
        assert alone.admit(votes[:1], Fraction(1, 7)) == together.admit(votes, Fraction(1, 7))[0]


def test_a_filter_written_down_goes_on_where_it_stopped() -> None:
    guard = RecordFilter(Fraction(2, 3), 4, Neighbours.ADD_REMOVE)
    guard.admit([0, 1, 2, 3], Fraction(1, 9))
    again = RecordFilter.from_bytes(guard.to_bytes())
    assert (again.event, again.allowance, again.neighbours) == (guard.event, guard.allowance, guard.neighbours)
    for _ in range(4):
        assert again.admit([1, 2, 1, 2], Fraction(1, 9)).tolist() == guard.admit([1, 2, 1, 2], Fraction(1, 9)).tolist()


def test_two_filters_never_share_a_charge() -> None:
    one, two = RecordFilter(1, 1), RecordFilter(1, 1)
    assert total_epsilon([one.event, one.event, one.event]) == 1
    assert total_epsilon([one.event, two.event]) == 2
    assert one.guarantee() == Guarantee(epsilon=Fraction(1), neighbours=Neighbours.REPLACE)


def test_payments_show_nowhere() -> None:
    guard = RecordFilter(1, 2000)
    guard.admit(np.arange(2000) % 3, Fraction(1, 9))
    assert repr(guard) == "RecordFilter(2,000 records, cap 1, replace)"
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(InvalidInput, match="what records have paid is private"):
            leak(guard)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("votes", "loss", "message"),
    [
        ([1], 0.1, r"votes must be 2 whole numbers, got int64 \(1,\)"),
        ([[1, 1]], 0.1, "votes must be 2 whole numbers"),
        ([0.5, 1.0], 0.1, "votes must be 2 whole numbers, got float64"),
        ([-1, 1], 0.1, "votes must be >= 0"),
        ([1, 1], 0.0, "loss_per_vote must be > 0"),
        ([1, 1], float("nan"), "must be a finite number, got nan"),
    ],
)
def test_a_round_that_means_nothing_is_refused_and_books_nothing(votes: list[int], loss: float, message: str) -> None:
    guard = RecordFilter(0.2, 2)
    with pytest.raises(InvalidInput, match=message):
        guard.admit(votes, loss)
    assert guard.admit([1, 1], 0.1).all()


def test_no_records_at_all_are_filtered_like_any_number() -> None:
    guard = RecordFilter(1, 0)
    assert guard.admit(np.zeros(0, dtype=np.int64), 0.1).shape == (0,)
    assert len(RecordFilter.from_bytes(guard.to_bytes())) == 0


def test_wrong_terms_are_refused() -> None:
    with pytest.raises(InvalidInput, match="cap must be > 0"):
        RecordFilter(0, 1)
    with pytest.raises(InvalidInput, match="num_records must be a whole number >= 0, got -1"):
        RecordFilter(1, -1)
    with pytest.raises(InvalidInput, match="neighbours must be one of"):
        RecordFilter(1, 1, "twin")  # type: ignore[arg-type]


def test_other_bytes_are_refused() -> None:
    arrays = io.BytesIO()
    np.savez(arrays, paid=np.zeros(3))
    for content in (b"", b"Dear Sir or Madam", arrays.getvalue()):
        with pytest.raises(InvalidInput, match="no record filter"):
            RecordFilter.from_bytes(content)
