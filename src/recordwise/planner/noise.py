"""Whether a run would burn its budget on noise: asked of every run, wherever it begins, before anything is paid."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from recordwise.planner.checking import Checked, budget_findings
from recordwise.planner.outlook import Outlook
from recordwise.planner.planning import BudgetPlan
from recordwise.planner.predicting import prediction, visible
from recordwise.protocols.protocol import Protocol


def refuse_noise(protocols: tuple[Protocol[Any], ...], num_records: int, look: Callable[[], Outlook]) -> None:
    """Refuse a run whose student is expected to know next to nothing, in one line that says why.

    Args:
      protocols: One for each round.
      num_records: How many will vote, as far as is public.
      look: Looks at the pool, which takes seconds. Done only where votes do not clearly stand out from their noise.
    """
    if stands_out(protocols[0], num_records):
        return
    outlook = look()
    told = prediction(outlook, protocols, outlook.outcomes(protocols))
    made = BudgetPlan.of(outlook, told, [told], rounds=len(protocols))
    Checked(findings=tuple(budget_findings(outlook, made, told.num_queries))).refuse()


def stands_out(protocol: Protocol[Any], num_records: int) -> bool:
    """Whether a query's votes, if all were for one class, would be louder than the noise at each of the classes.

    The largest of C draws of Laplace noise is about ln(C) scales, which are ln(C) / sqrt(2) deviations.
    """
    return visible(protocol, num_records) > 1 + math.log(protocol.ballot.num_classes) / math.sqrt(2)
