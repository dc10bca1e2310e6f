"""Every accountant's answer for one shuffled batch, side by side, and what each would allow the other way round."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from recordwise.errors import InvalidInput, OutOfRegime, positive, probability, whole
from recordwise.privacy.amplification.closed_form import closed_form
from recordwise.privacy.amplification.fmt_numerical import fmt_numerical
from recordwise.privacy.amplification.inverse import (
    largest_epsilon0,
    largest_epsilon0_closed_form,
    largest_epsilon0_fmt,
)
from recordwise.privacy.amplification.mechanisms import any_mechanism
from recordwise.privacy.amplification.variation_ratio import LocalMechanism, variation_ratio

MOST_EPSILON = 100


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What one accountant says.

    Attributes:
      upper: The central epsilon it certifies; None outside the regime in which it is proved.
      lower: A central epsilon that some pair of neighbours attains, so that no proof can go below it.
      largest_epsilon0: The largest local epsilon it certifies for the central target.
      note: Why there is no answer, where there is none.
    """

    accountant: str
    upper: float | None
    lower: float
    largest_epsilon0: float
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Amplification:
    """Central (epsilon, delta) of `senders` shuffled messages at epsilon0, replace-one neighbours, by every accountant.

    Attributes:
      target: The central epsilon that the inverse answers are for.
      answers: From loose to tight.
    """

    senders: int
    epsilon0: float
    delta: float
    target: float
    answers: tuple[Answer, ...]

    @property
    def epsilon(self) -> float:
        """The smallest certified answer."""
        return min(answer.upper for answer in self.answers if answer.upper is not None)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "answers": [asdict(answer) for answer in self.answers], "epsilon": self.epsilon}

    def as_text(self) -> str:
        lines = [
            f"{self.senders:,} shuffled messages at epsilon0 {self.epsilon0:g}, delta {self.delta:g}, replace-one:",
            f"{'accountant':<34} {'epsilon <=':>12} {'epsilon >=':>12} {f'epsilon0 for {self.target:.4g}':>20}",
        ]
        for answer in self.answers:
            upper = "out of regime" if answer.upper is None else f"{answer.upper:.5f}"
            lines.append(f"{answer.accountant:<34} {upper:>12} {answer.lower:>12.5f} {answer.largest_epsilon0:>20.5f}")
        return "\n".join(lines)


def _sensible(**values: float) -> None:
    for name, value in values.items():
        if not value <= MOST_EPSILON:
            raise InvalidInput(f"{name} must be <= {MOST_EPSILON}, where nothing is protected any more, got {value!r}")


def amplify(
    senders: int,
    epsilon0: float,
    delta: float,
    *,
    mechanism: LocalMechanism | None = None,
    target: float | None = None,
) -> Amplification:
    """What shuffling `senders` honest messages of an epsilon0-LDP mechanism is worth, by every accountant.

    Args:
      mechanism: The mechanism, for its own tighter answer; see `mechanisms`.
      target: The central epsilon to invert; the smallest certified answer unless told.
    """
    whole(senders=senders)
    positive(epsilon0=epsilon0)
    _sensible(epsilon0=epsilon0)
    probability(delta=delta)
    known: list[tuple[str, LocalMechanism]] = [("variation-ratio, any mechanism", any_mechanism)]
    if mechanism is not None:
        known.append(("variation-ratio, this mechanism", mechanism))
    bounds = {name: variation_ratio(senders, epsilon0, delta, kind) for name, kind in known}
    fmt = fmt_numerical(senders, epsilon0, delta)
    try:
        formula, note = closed_form(senders, epsilon0, delta), ""
    except OutOfRegime as error:
        formula, note = None, str(error)
    if target is None:
        target = min(fmt, *(bound.upper for bound in bounds.values()))
    positive(target=target)
    _sensible(target=target)
    lower = bounds["variation-ratio, any mechanism"].lower
    answers = [
        Answer(
            accountant="closed form",
            upper=formula,
            lower=lower,
            largest_epsilon0=largest_epsilon0_closed_form(target, delta, senders=senders),
            note=note,
        ),
        Answer(
            accountant="FMT numerical",
            upper=fmt,
            lower=lower,
            largest_epsilon0=largest_epsilon0_fmt(target, delta, senders=senders),
        ),
    ]
    for name, kind in known:
        answers.append(
            Answer(
                accountant=name,
                upper=bounds[name].upper,
                lower=bounds[name].lower,
                largest_epsilon0=largest_epsilon0(target, delta, senders=senders, mechanism=kind),
            )
        )
    return Amplification(senders=senders, epsilon0=epsilon0, delta=delta, target=target, answers=tuple(answers))
