"""Environments of EnvPool: C++ threads step all N environments; seeds are fixed when the pool is created.

EnvPool resets an environment in the step after its episode ended, which has no transition. The observation returned
with `done` is the final one. `truncated` means that the time limit is reached: an episode that also terminates in that
step is reported as truncated.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from rollshape.envs.failures import creation_errors
from rollshape.envs.gymnasium_spaces import encode_observations
from rollshape.envs.host import Flags, HostStep, SpaceEnv, Values, env_seeds, read_success
from rollshape.envs.spaces import Observation
from rollshape.errors import RequestError, did_you_mean

NO_LIMIT = 2**31 - 1
IMAGE_AXES = 3


class EnvPoolEnv(SpaceEnv):
    """A synchronous pool. Its random generators are not accessible, so snapshots cannot be restored."""

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
        self._raw_observation = self.observation
        self._channels_first = _channels_first(self._raw_observation)
        if self._channels_first:
            channels, height, width = self._raw_observation.shape
            self.observation = Observation((height, width, channels), self._raw_observation.dtype)
        self._needs_reset = np.zeros(self.num_envs, bool)  # ended, and reset by the next step

    def _reset(self, seed: int) -> Values:
        import envpool

        self._close()
        self._needs_reset = np.zeros(self.num_envs, bool)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # bounds that lose precision in float32
            seeds = env_seeds(seed, self.num_envs)
            self._pool = envpool.make(self._id, env_type="gymnasium", **self._options, seed=seeds)
            return self._encode(self._pool.reset()[0])

    def _restart(self, mask: Flags) -> Values:
        self._needs_reset = self._needs_reset & ~mask
        observation, _ = self._pool.reset(np.flatnonzero(mask).astype(np.int32))  # in the order of the indices
        return self._encode(observation)

    def _step(self, action: Values) -> HostStep:
        batch, reward, terminated, truncated, info = self._pool.step(action)
        observation, valid = self._encode(batch), ~self._needs_reset
        self._needs_reset = terminated | truncated
        reward = reward.astype(np.float32)
        success = read_success(info, self._needs_reset)
        return HostStep(observation, reward, terminated, truncated, observation, valid, reward, success)

    def _encode(self, batch: Any) -> Values:
        observation = encode_observations(self._observation_space, self._raw_observation, batch)
        return np.moveaxis(observation, 1, -1) if self._channels_first else observation  # a view, not a copy

    def _close(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None


def make_envpool(name: str, num_envs: int, **options: Any) -> EnvPoolEnv:
    """Create `num_envs` environments of an EnvPool id; options such as num_threads are passed to `envpool.make`."""
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
            f"Unknown EnvPool environment {name!r}.",
            f"{did_you_mean(name, known)}envpool.list_all_envs() lists all {len(known):,}.",
        )
    fixed = {"num_envs", "batch_size", "seed", "env_seed", "max_num_players"} & set(options)
    if fixed:
        raise RequestError("environment", f"{', '.join(sorted(fixed))} cannot be set as an option.", "Leave it out.")
    options = {**options, "num_envs": num_envs}
    with warnings.catch_warnings(), creation_errors(f"envpool:{name}"):
        warnings.simplefilter("ignore")
        try:
            spec = envpool.make_spec(name, **options)
        except TypeError as error:
            text = str(error).split("\n")[0]
            raise RequestError(
                "environment", f"Invalid options for envpool:{name}: {text}.", "Check --env-kwargs."
            ) from None
        if spec.config.max_num_players > 1:
            raise RequestError(
                "environment",
                f"envpool:{name} has several players, which is not supported.",
                "Use another environment.",
            )
        return EnvPoolEnv(name, spec, options)


def _channels_first(observation: Observation) -> bool:
    shape = observation.shape
    return len(shape) == IMAGE_AXES and shape[0] < min(shape[1:])
