"""What Gymnasium's registry knows of an environment: when it counts as solved, and how long an episode may be."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def _spec(env_id: str) -> Any:
    import gymnasium

    name = env_id.partition(":")[2] or env_id
    return gymnasium.registry.get(name)


def solved_at(env_id: str) -> float | None:
    """The registered reward threshold."""
    spec = _spec(env_id)
    return None if spec is None or spec.reward_threshold is None else float(spec.reward_threshold)


def horizon(env_id: str) -> int | None:
    """The registered time limit."""
    spec = _spec(env_id)
    return None if spec is None or spec.max_episode_steps is None else int(spec.max_episode_steps)
