"""Rows of metrics.jsonl, typed: where in the run a row stands, and its metrics by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rollshape.typed import check_types

Value = float | None | list[float | None]  # a metric, or one of every epoch
LARGEST = 1e150  # magnitude of a metric: its square is finite


def check_metric(value: Any, name: str) -> None:
    """Raise a ValueError if a value is no metric."""
    check_types(value, Value, name)
    for item in value if isinstance(value, list) else [value]:
        if item is not None and abs(item) > LARGEST:
            raise ValueError(f"{name} is {item:g}, which is too large to compute with")


@dataclass(frozen=True, slots=True)
class MetricsRow:
    """One logging interval of a run. Which metrics exist depends on the algorithm; a missing one is None."""

    update: int
    timesteps: int
    sps: float | None  # environment steps per second in this interval; None if a log of another library has none
    values: Mapping[str, Any]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> MetricsRow:
        """Read a row; a ValueError names a value that is no metric."""
        for name, value in values.items():
            check_metric(value, name)
        kinds: dict[str, Any] = {"update": int, "timesteps": int, "sps": float | None}
        for name, kind in kinds.items():
            check_types(values[name], kind, name)
        return cls(values["update"], values["timesteps"], values["sps"], values)

    def metric(self, name: str) -> float | None:
        """Return a metric's value in this interval."""
        value = self.values.get(name)
        return None if isinstance(value, list) else value

    def epoch_metric(self, name: str) -> Sequence[float | None]:
        """Return a metric that is logged for every epoch of an update, first epoch first."""
        value = self.values.get(name)
        return value if isinstance(value, list) else ()

    @property
    def score(self) -> float | None:
        """The return on fresh episodes where it was measured, else the training return."""
        score = self.metric("eval_return")
        return self.metric("episodic_return") if score is None else score
