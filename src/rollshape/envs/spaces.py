"""What an environment shows and takes."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

UNLIMITED = 1000  # steps that stand for an episode where the environment has no time limit


@dataclass(frozen=True, slots=True)
class Observation:
    """One observation: its shape (three axes are a picture) and its dtype."""

    shape: tuple[int, ...]
    dtype: str = "float32"


@dataclass(frozen=True, slots=True)
class Discrete:
    """One choice of n."""

    n: int


@dataclass(frozen=True, slots=True)
class MultiDiscrete:
    """Several choices at once, each of its own number."""

    choices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Continuous:
    """A vector; bounds are for clipping, the policy itself is unbounded."""

    dim: int
    low: float = -inf
    high: float = inf


Action = Discrete | MultiDiscrete | Continuous
