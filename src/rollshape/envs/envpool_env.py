"""EnvPool's environments: C++ threads step all N at once; seeds are fixed when the pool is made.

An environment that is done is reset by the next step, which has no transition. What was reached is the observation
that comes with `done`. EnvPool's `truncated` means done at the time limit: an episode that terminates in that very
step is told as truncated.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from rollshape.envs.gymnasium_spaces import shown
from rollshape.envs.host import Flags, HostEnv, HostStep, Values, making, seeds_of, success_of
from rollshape.envs.spaces import Observation
from rollshape.errors import RequestError, did_you_mean

NO_LIMIT = 2**31 - 1
PICTURE_AXES = 3


class EnvPoolEnv(HostEnv):
    """A synchronous pool. Its generators are out of reach, so a snapshot cannot be replayed."""

    def __init__(self, name: str, spec: Any, options: dict[str, Any]) -> None:
        config = spec.config
        limit = getattr(config, "max_episode_steps", NO_LIMIT)
        super().__init__(
            f"envpool:{name}",
            config.num_envs,
            spec.observation_space,
            spec.action_space,
            limit if limit < NO_LIMIT else None,
        )
        self._id, self._options = name, options
        self._pool: Any = None
        self._given = self.observation
        self._channels_first = _channels_first(self._given)
        if self._channels_first:
            channels, height, width = self._given.shape
            self.observation = Observation((height, width, channels), self._given.dtype)
        self._ended = np.zeros(self.num_envs, bool)  # and not yet reset

    def _reset(self, seed: int) -> Values:
        import envpool

        self.close()
        self._ended = np.zeros(self.num_envs, bool)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of bounds that lose digits in float32
            seeds = seeds_of(seed, self.num_envs)
            self._pool = envpool.make(self._id, env_type="gymnasium", **self._options, seed=seeds)
            return self._shown(self._pool.reset()[0])

    def _restart(self, chosen: Flags) -> Values:
        self._ended = self._ended & ~chosen
        observation, _ = self._pool.reset(np.flatnonzero(chosen).astype(np.int32))  # in the order of the ids
        return self._shown(observation)

    def _step(self, action: Values) -> HostStep:
        batch, reward, terminated, truncated, info = self._pool.step(action)
        observation, valid = self._shown(batch), ~self._ended
        self._ended = terminated | truncated
        paid = reward.astype(np.float32)
        success = success_of(info, self._ended)
        return HostStep(observation, paid, terminated, truncated, observation, valid, paid, success)

    def _shown(self, batch: Any) -> Values:
        observation = shown(self._observation_space, self._given, batch)
        return np.moveaxis(observation, 1, -1) if self._channels_first else observation  # a view, not a copy

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None


def make_envpool(name: str, num_envs: int, **options: Any) -> EnvPoolEnv:
    """`num_envs` of an EnvPool id; options such as num_threads go to `envpool.make`."""
    try:
        import envpool
    except ImportError as error:
        raise RequestError(
            "environment", f"envpool cannot be imported: {error}.", "pip install 'rollshape[envpool]'."
        ) from None
    known = envpool.list_all_envs()
    if name not in known:
        raise RequestError(
            "environment",
            f"EnvPool has no {name!r}.",
            f"{did_you_mean(name, known)}envpool.list_all_envs() lists all {len(known):,}.",
        )
    fixed = {"num_envs", "batch_size", "seed", "env_seed", "max_num_players"} & set(options)
    if fixed:
        raise RequestError(
            "environment", f"{', '.join(sorted(fixed))} cannot be chosen: the run decides.", "Leave out."
        )
    options = {**options, "num_envs": num_envs}
    with warnings.catch_warnings(), making(f"envpool:{name}"):
        warnings.simplefilter("ignore")
        try:
            spec = envpool.make_spec(name, **options)
        except TypeError as error:
            text = str(error).split("\n")[0]
            raise RequestError(
                "environment", f"envpool:{name} does not take these options: {text}.", "Check --env-kwargs."
            ) from None
        if spec.config.max_num_players > 1:
            raise RequestError("environment", f"envpool:{name} is a game of several players.", "Choose another.")
        return EnvPoolEnv(name, spec, options)


def _channels_first(observation: Observation) -> bool:
    shape = observation.shape
    return len(shape) == PICTURE_AXES and shape[0] < min(shape[1:])
