"""A choice may be spelled as a word or as a member of its enumeration: every value type behaves alike for both."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any, get_type_hints

import numpy as np
import pytest

import recordwise
from recordwise.audit.replay import ReplayResult
from recordwise.compare import Price
from recordwise.data import Schema
from recordwise.device import Task
from recordwise.errors import InvalidInput
from recordwise.explorer.grid import Offer
from recordwise.nearest.poll import Metric, Poll
from recordwise.pipeline import Distilled
from recordwise.planner.outlook import Sight
from recordwise.planner.simulate import Lens
from recordwise.privacy.guarantee import Guarantee, Neighbours, Trust, Unit
from recordwise.privacy.ledger import Budget
from recordwise.protocols.central import CentralGaussian, CentralLaplace, CentralMatching, CentralPermuteAndFlip
from recordwise.protocols.distributed import DistributedLaplace
from recordwise.protocols.local.collision import Collision
from recordwise.protocols.shuffle import ShuffleMulti
from recordwise.protocols.terms import Terms, TrustSettings
from recordwise.published import Published
from recordwise.queries import KMeansQueries, Queries, QuerySettings, UncertainQueries
from recordwise.verdict import Verdict
from recordwise.votes.ballot import Ballot

BALLOT = Ballot(num_queries=2, num_classes=2)
POINTS = np.eye(2, dtype=np.float32)


def plan(**choices: Any) -> Any:
    from recordwise.federation.plan import Plan

    asked = CentralLaplace(ballot=BALLOT, epsilon=Fraction(1))
    told = {"run": "run", "rounds": 1, "protocol": asked, "classes": ("a", "b"), "pool": "pool", "encoder": b""}
    told |= {"schema": Schema.of(POINTS), "dim": 2}
    return Plan(**told, roster={"north": b"n" * 32}, threshold=1, **choices)  # type: ignore[arg-type]


def policy(**choices: Any) -> Any:
    from recordwise.federation.policy import Policy

    return Policy(epsilon=Fraction(1), **choices)


def published(**choices: Any) -> Any:
    parts = {"encoder": None, "student": None, "student_input": "vectors", "classes_": np.arange(2)}
    promise = Guarantee(epsilon=Fraction(1))
    return Published(schema=Schema.of(POINTS), **parts, guarantee_=promise, **choices)  # type: ignore[arg-type]


def reply(**choices: Any) -> Any:
    from recordwise.federation.replies import Reply

    return Reply(name="north", stage="vote", request="", **choices)


# One value of every type that has choices, from the choices alone. A new type is added here, or the first test fails.
EXAMPLES: dict[str, Callable[..., Any]] = {
    "Budget": lambda **choices: Budget(name="a", epsilon=Fraction(1), **choices),
    "CentralGaussian": lambda **choices: CentralGaussian(
        ballot=BALLOT, rho=Fraction(1), delta=Fraction(1, 100), **choices
    ),
    "CentralLaplace": lambda **choices: CentralLaplace(ballot=BALLOT, epsilon=Fraction(1), **choices),
    "CentralMatching": lambda **choices: CentralMatching(ballot=BALLOT, epsilon=Fraction(1), **choices),
    "CentralPermuteAndFlip": lambda **choices: CentralPermuteAndFlip(ballot=BALLOT, epsilon=Fraction(1), **choices),
    "DistributedLaplace": lambda **choices: DistributedLaplace(
        ballot=BALLOT, epsilon=Fraction(1), survivors=2, parties=3, largest_count=9, **choices
    ),
    "Guarantee": lambda **choices: Guarantee(epsilon=Fraction(1), **choices),
    "KMeansQueries": lambda **choices: KMeansQueries(num_queries=2, seed=0, **choices),
    "Offer": lambda **choices: Offer(terms=None, **choices),
    "Plan": plan,
    "Policy": policy,
    "Poll": lambda **choices: Poll(queries=POINTS, prices=np.zeros(2), votes_per_record=1, limit=1.0, **choices),
    "Lens": lambda **choices: Lens(**dict.fromkeys(("clustered", "scaler", "taught")), **choices),  # type: ignore[arg-type]
    "Price": lambda **choices: Price(releases=1, epsilon=Fraction(1), delta=Fraction(0), free=False, **choices),
    "Published": published,
    "QuerySettings": QuerySettings,
    "TrustSettings": TrustSettings,
    "Queries": lambda **choices: Queries(vectors=POINTS, owner=np.arange(2), **choices),
    "ReplayResult": lambda **choices: ReplayResult(changes=(), protocols=(), **choices),
    "Sight": lambda **choices: Sight(**dict.fromkeys(("pool", "encoder", "lens")), seed=0, **choices),  # type: ignore[arg-type]
    "ShuffleMulti": lambda **choices: ShuffleMulti(
        ballot=BALLOT, epsilon=Fraction(1), delta=Fraction(1, 100), senders=9, **choices
    ),
    "Task": lambda **choices: Task(mechanism=Collision(ballot=BALLOT, epsilon=Fraction(1)), queries=POINTS, **choices),
    "Terms": lambda **choices: Terms(epsilon=Fraction(1), delta=Fraction(1, 100), **choices),
    "Distilled": lambda **choices: Distilled(encoder=None, rounds=(), taught=None, **choices),  # type: ignore[arg-type]
    "Reply": lambda **choices: reply(**choices),
    "Verdict": lambda **choices: Verdict(headline="", advice="", expected=None, commonest=None, **choices),
    "UncertainQueries": lambda **choices: UncertainQueries(num_queries=2, seed=0, **choices),
}


def choices_of(kind: type) -> dict[str, type[StrEnum]]:
    hints = get_type_hints(kind)
    named = {part.name: hints[part.name] for part in fields(kind)}
    return {name: hint for name, hint in named.items() if isinstance(hint, type) and issubclass(hint, StrEnum)}


def value_types() -> Iterator[type]:
    """Every public frozen dataclass of the package that has a choice among its fields."""
    for module in pkgutil.walk_packages(recordwise.__path__, "recordwise."):
        if module.name.endswith("__main__"):
            continue
        try:
            found = importlib.import_module(module.name)
        except ImportError:  # an extra that is not installed
            continue
        for name, kind in vars(found).items():
            if isinstance(kind, type) and is_dataclass(kind) and kind.__module__ == module.name and name[0] != "_":
                assert kind.__dataclass_params__.frozen or not choices_of(kind), f"{name} must be frozen"  # type: ignore[attr-defined]
                if choices_of(kind) and not inspect.isabstract(kind):
                    yield kind


def test_a_word_and_a_member_make_the_same_value() -> None:
    seen = set()
    for kind in value_types():
        seen.add(kind.__name__)
        assert kind.__name__ in EXAMPLES, f"{kind.__name__} has choices and no example here"
        make, choices = EXAMPLES[kind.__name__], choices_of(kind)
        usual = {name: next(iter(among)) for name, among in choices.items()}
        for name, among in choices.items():
            for member in among:
                outcomes = []
                for spelling in (member, str(member)):
                    try:
                        made = make(**{**usual, name: spelling})
                    except InvalidInput as refused:
                        outcomes.append(str(refused))
                    else:
                        assert getattr(made, name) is member, f"{kind.__name__}.{name}"
                        outcomes.append(repr(made))
                assert outcomes[0] == outcomes[1], f"{kind.__name__}.{name}"
            said = getattr(kind, "of", name) if name == "name" else name
            with pytest.raises(InvalidInput, match=f"{said} must be one of"):
                make(**{**usual, name: "neither"})
    assert {"Terms", "Guarantee", "Budget", "Task", "DistributedLaplace", "CentralGaussian", "Queries"} <= seen


def test_local_trust_refuses_add_remove_however_it_is_spelled() -> None:
    for trust in (Trust.LOCAL, "local"):
        for neighbours in (Neighbours.ADD_REMOVE, "add-remove"):
            with pytest.raises(InvalidInput, match="neighbours must be replace"):
                Terms(epsilon=Fraction(1), trust=trust, neighbours=neighbours)  # type: ignore[arg-type]


def test_a_sensitivity_does_not_depend_on_the_spelling() -> None:
    assert [BALLOT.cells_changed(spelling) for spelling in ("replace", Neighbours.REPLACE)] == [2, 2]  # type: ignore[arg-type]
    assert BALLOT.cells_changed("add-remove") == 1  # type: ignore[arg-type]
    assert {Unit.RECORD, Metric.COSINE} == {"record", "cosine"}
