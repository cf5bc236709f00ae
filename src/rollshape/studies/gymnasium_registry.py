"""Facts that Gymnasium's registry holds about an environment: its reward threshold and its time limit."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def _registered_spec(env_id: str) -> Any:
    import gymnasium

    name = env_id.partition(":")[2] or env_id
    return gymnasium.registry.get(name)


def reward_threshold(env_id: str) -> float | None:
    """Return the return at which the environment counts as solved, or None."""
    spec = _registered_spec(env_id)
    return None if spec is None or spec.reward_threshold is None else float(spec.reward_threshold)


def max_episode_steps(env_id: str) -> int | None:
    """Return the time limit of an episode, or None."""
    spec = _registered_spec(env_id)
    return None if spec is None or spec.max_episode_steps is None else int(spec.max_episode_steps)
