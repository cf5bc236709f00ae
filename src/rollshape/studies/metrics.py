"""Rows of metrics.jsonl, typed: where in the run a row stands, and its metrics by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class MetricsRow:
    """One logging interval of a run. Which metrics exist depends on the algorithm; a missing one is None."""

    update: int
    timesteps: int
    sps: float  # environment steps per second in this interval
    values: Mapping[str, Any]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> MetricsRow:
        return cls(values["update"], values["timesteps"], values["sps"], values)

    def metric(self, name: str) -> float | None:
        """Return a metric's value in this interval."""
        return self.values.get(name)

    def epoch_metric(self, name: str) -> Sequence[float | None]:
        """Return a metric that is logged for every epoch of an update, first epoch first."""
        return self.values.get(name) or ()

    @property
    def score(self) -> float | None:
        """The return on fresh episodes where it was measured, else the training return."""
        score = self.metric("eval_return")
        return self.metric("episodic_return") if score is None else score
