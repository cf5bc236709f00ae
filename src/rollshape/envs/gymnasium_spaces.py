"""Gymnasium's spaces in our words, and batches in and out of them; EnvPool speaks them, too."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from gymnasium.spaces.utils import flatdim, flatten
from numpy.typing import NDArray

from rollshape.envs.spaces import Action, Continuous, Discrete, MultiDiscrete, Observation
from rollshape.errors import RequestError


def observation_of(space: Space[Any], env_id: str) -> Observation:
    """A box keeps its shape; anything else of a fixed size is laid out flat, choices one-hot.

    Bytes stay bytes; every other number becomes float32, in which networks calculate.
    """
    if isinstance(space, spaces.Box):
        return Observation(space.shape or (1,), "uint8" if space.dtype == np.uint8 else "float32")
    try:
        return Observation((flatdim(space),))
    except (NotImplementedError, ValueError):
        raise RequestError(
            "environment",
            f"{env_id} has an observation space without a fixed size: {type(space).__name__}.",
            "Wrap it, or give --obs-shape.",
        ) from None


def action_of(space: Space[Any], env_id: str) -> Action:
    """The action space; a box's bounds are those of its widest dimension, `acted` clips each by its own."""
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
        f"{env_id} has an action space that is not supported: {space}.",
        "Wrap it: Discrete, MultiDiscrete, MultiBinary or a Box of floats.",
    )


def acted(space: Space[Any], action: NDArray[Any]) -> NDArray[Any]:
    """Actions [N] or [N, dim] as the environments take them: clipped, in their shape, dtype and counting."""
    shaped = np.asarray(action).reshape(-1, *(space.shape or ()))
    if isinstance(space, spaces.Box):
        shaped = np.clip(shaped, space.low, space.high)
    elif isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
        shaped = shaped + space.start
    return shaped.astype(space.dtype)


def shown(space: Space[Any], seen: Observation, batch: Any) -> NDArray[Any]:
    """A batch of observations as [N, *seen.shape] of seen.dtype."""
    if not isinstance(space, spaces.Box):
        return _flat(space, batch)
    values = np.asarray(batch)
    if values.shape[1:] != space.shape:
        raise ValueError(f"an observation of shape {values.shape[1:]} where the space says {space.shape}")
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is reported as such
        return values.astype(seen.dtype, copy=False).reshape(-1, *seen.shape)


def shown_one(space: Space[Any], seen: Observation, one: Any) -> NDArray[Any]:
    """The same of a single observation."""
    if isinstance(space, spaces.Box):
        return np.asarray(shown(space, seen, np.asarray(one)[None])[0])
    return np.asarray(flatten(space, one), np.float32)


def _flat(space: Space[Any], batch: Any) -> NDArray[np.float32]:
    """[N, flatdim(space)], in the order of Gymnasium's own `flatten`."""
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
            return np.concatenate([_flat(part, batch[name]) for name, part in space.spaces.items()], axis=1)
        case spaces.Tuple():
            return np.concatenate([_flat(part, batch[i]) for i, part in enumerate(space.spaces)], axis=1)
    return np.stack([np.asarray(flatten(space, one), np.float32) for one in batch])


def _one_hot(n: int, choices: NDArray[Any]) -> NDArray[np.float32]:
    return np.asarray(choices[:, None] == np.arange(n), np.float32)
