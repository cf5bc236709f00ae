"""Observation and action spaces."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

UNLIMITED = 1000  # assumed episode length of environments without a time limit


@dataclass(frozen=True, slots=True)
class Observation:
    """Shape (three axes for an image) and dtype of one observation."""

    shape: tuple[int, ...]
    dtype: str = "float32"


@dataclass(frozen=True, slots=True)
class Discrete:
    """One of n actions."""

    n: int


@dataclass(frozen=True, slots=True)
class MultiDiscrete:
    """Several discrete actions at once, with the number of choices of each."""

    choices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Continuous:
    """A vector of `dim` numbers; actions are clipped to the bounds, the policy itself is unbounded."""

    dim: int
    low: float = -inf
    high: float = inf


Action = Discrete | MultiDiscrete | Continuous
