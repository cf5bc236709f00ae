"""Settings of a race, as a study file holds them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

Objective = Literal["return", "seconds", "auc"]
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)
DEFAULT_BUDGET = 0.15


@dataclass(frozen=True)
class RaceSettings:
    """How much a race may cost and what it compares.

    `budget` is a share of the timesteps of training every candidate with every seed to the end. Candidates are compared
    by the return at the end of the budget, by the return after equal seconds on this machine, or by the area under the
    learning curve.
    """

    budget: float = DEFAULT_BUDGET
    objective: Objective = "return"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
