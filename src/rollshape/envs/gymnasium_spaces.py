"""Conversion of Gymnasium spaces, observations and actions; EnvPool uses the same spaces."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from gymnasium.spaces.utils import flatdim, flatten
from numpy.typing import NDArray

from rollshape.envs.spaces import Action, Continuous, Discrete, MultiDiscrete, Observation
from rollshape.errors import RequestError


def observation_from_space(space: Space[Any], env_id: str) -> Observation:
    """Return the observation of a space: a Box keeps its shape, other spaces are flattened, discrete ones one-hot.

    uint8 stays uint8; all other dtypes become float32.
    """
    if isinstance(space, spaces.Box):
        return Observation(space.shape or (1,), "uint8" if space.dtype == np.uint8 else "float32")
    try:
        return Observation((flatdim(space),))
    except (NotImplementedError, ValueError):
        raise RequestError(
            "environment",
            f"The observation space of {env_id} has no fixed size: {type(space).__name__}.",
            "Wrap the environment, or use --obs-shape.",
        ) from None


def action_from_space(space: Space[Any], env_id: str) -> Action:
    """Return the action of a space; the bounds of a Box are its widest, `to_env_actions` clips each dimension."""
    match space:
        case spaces.Discrete():
            return Discrete(int(space.n))
        case spaces.MultiDiscrete():
            return MultiDiscrete(tuple(int(n) for n in space.nvec.ravel()))
        case spaces.MultiBinary():
            return MultiDiscrete((2,) * math.prod(space.shape))
        case spaces.Box() if np.issubdtype(space.dtype, np.floating):
            return Continuous(math.prod(space.shape), float(space.low.min()), float(space.high.max()))
    raise RequestError(
        "environment",
        f"The action space of {env_id} is not supported: {space}.",
        "Wrap the environment: use Discrete, MultiDiscrete, MultiBinary or a Box of floats.",
    )


def to_env_actions(space: Space[Any], action: NDArray[Any]) -> NDArray[Any]:
    """Return actions [N] or [N, dim] as the environments expect them: clipped, with their shape, dtype and offset."""
    actions = np.asarray(action).reshape(-1, *(space.shape or ()))
    if isinstance(space, spaces.Box):
        actions = np.clip(actions, space.low, space.high)
    elif isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
        actions = actions + space.start
    return actions.astype(space.dtype)


def encode_observations(space: Space[Any], target: Observation, batch: Any) -> NDArray[Any]:
    """Return a batch of observations as [N, *target.shape] with target.dtype."""
    if not isinstance(space, spaces.Box):
        return _flatten_batch(space, batch)
    values = np.asarray(batch)
    if values.shape[1:] != space.shape:
        raise ValueError(f"observation of shape {values.shape[1:]}, but the space has {space.shape}")
    with np.errstate(over="ignore"):  # values beyond float32 become infinite and are reported
        return values.astype(target.dtype, copy=False).reshape(-1, *target.shape)


def encode_observation(space: Space[Any], target: Observation, one: Any) -> NDArray[Any]:
    """Return a single observation with target.shape and target.dtype."""
    if isinstance(space, spaces.Box):
        return np.asarray(encode_observations(space, target, np.asarray(one)[None])[0])
    return np.asarray(flatten(space, one), np.float32)


def _flatten_batch(space: Space[Any], batch: Any) -> NDArray[np.float32]:
    """Return a batch as [N, flatdim(space)], in the order of Gymnasium's `flatten`."""
    match space:
        case spaces.Box() | spaces.MultiBinary():
            values = np.asarray(batch, np.float32)
            return values.reshape(len(values), -1)
        case spaces.Discrete():
            return _one_hot(int(space.n), np.asarray(batch).reshape(-1) - space.start)
        case spaces.MultiDiscrete():
            choices = (np.asarray(batch) - space.start).reshape(len(batch), -1)
            columns = zip(space.nvec.ravel(), choices.T, strict=True)
            return np.concatenate([_one_hot(int(n), column) for n, column in columns], axis=1)
        case spaces.Dict():
            return np.concatenate([_flatten_batch(part, batch[name]) for name, part in space.spaces.items()], axis=1)
        case spaces.Tuple():
            return np.concatenate([_flatten_batch(part, batch[i]) for i, part in enumerate(space.spaces)], axis=1)
    return np.stack([np.asarray(flatten(space, one), np.float32) for one in batch])


def _one_hot(n: int, choices: NDArray[Any]) -> NDArray[np.float32]:
    return np.asarray(choices[:, None] == np.arange(n), np.float32)
