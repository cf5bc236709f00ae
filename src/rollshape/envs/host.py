"""Vector environments that run on the host, with NumPy arrays: one interface for all backends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rollshape.envs.failures import EnvironmentFailure
from rollshape.envs.guard import CallGuard
from rollshape.envs.gymnasium_spaces import action_from_space, observation_from_space, to_env_actions
from rollshape.envs.spaces import UNLIMITED, Action, Continuous, Discrete, Observation
from rollshape.errors import RequestError

if TYPE_CHECKING:
    from gymnasium import Space

Values = NDArray[Any]
Flags = NDArray[np.bool_]
Snapshot = dict[str, Values]
SUCCESS = ("is_success", "success")  # names used by goal environments and MetaWorld


class HostStep(NamedTuple):
    """The result of one vector step, [N, …].

    `observation` is the input of the next action, `final_observation` the observation that this action led to. They are
    the same array unless an episode ended and was reset in this step. If `valid` is False, the backend only reset the
    environment: there was no transition, and the reward is 0.
    """

    observation: Values
    reward: NDArray[np.float32]
    terminated: Flags
    truncated: Flags  # False if the episode also terminates
    final_observation: Values
    valid: Flags
    true_reward: NDArray[np.float32]  # of the environment; `reward` differs if rewards are episodic
    success: Flags | None = None  # whether the goal is reached, if the environment reports it


def read_success(info: Mapping[str, Any], ended: Flags) -> Flags | None:
    """Return `is_success` or `success` of each environment, at the end of the episode if it was reset in this step."""
    final_info = info.get("final_info", {})
    for name in SUCCESS:
        if name in info or name in final_info:
            now, final = (np.asarray(i.get(name, np.zeros(ended.shape)), float) > 0 for i in (info, final_info))
            return np.where(ended, final, now) if name in final_info else now
    return None


class HostEnv(ABC):
    """N environments of one id with automatic reset. Call `reset` first."""

    replays = False  # whether `restore` is bitwise exact

    def __init__(
        self, name: str, num_envs: int, observation: Observation, action: Action, max_steps: int | None
    ) -> None:
        self.name, self.num_envs, self.max_steps = name, num_envs, max_steps
        self.observation, self.action = observation, action
        self.steps = 0  # vector steps since the reset
        self.elapsed = np.zeros(num_envs, np.int64)  # steps of the current episodes
        self.current: Values  # observations, the input of the next action
        self._ended_episodes = self._successful_episodes = 0  # of the episodes that report success
        self._seed = 0
        self.guard: CallGuard
        CallGuard(name).attach(self)

    @property
    def horizon(self) -> int:
        """Maximum episode length, with a default for environments without a time limit."""
        return self.max_steps or UNLIMITED

    @abstractmethod
    def clip_action(self, action: Values) -> Values:
        """Return actions [N] or [N, dim] as `step` expects them."""

    def reset(self, seed: int) -> Values:
        """Start new episodes in all environments; all randomness derives from the seed."""
        self._seed, self.steps = seed, 0
        with self.guard.doing("reset"):
            observation = self._reset(seed)
        self._set_current(observation, np.zeros(self.num_envs, np.int64))
        return self.current

    def step(self, action: Values) -> HostStep:
        """Take one step in every environment; actions must come from `clip_action`."""
        self.steps += 1
        with self.guard:
            result = self._step(action)
        self._check("reward", result.reward, action)
        self._check("observation", result.final_observation, action)
        if result.final_observation is not result.observation:
            self._check("observation", result.observation)
        self.current = result.observation
        ended = result.terminated | result.truncated
        self.elapsed = np.where(ended | ~result.valid, 0, self.elapsed + 1)
        if result.success is not None:
            self._ended_episodes += int(ended.sum())
            self._successful_episodes += int((result.success & ended).sum())
        return result

    def success_rate(self) -> float | None:
        """Return the share of successful episodes since the last call; None if no episode reported success."""
        ended, successful = self._ended_episodes, self._successful_episodes
        self._ended_episodes = self._successful_episodes = 0
        return successful / ended if ended else None

    def restart(self, mask: Flags) -> Values:
        """Start new episodes in the selected environments only; return all observations."""
        with self.guard.doing("reset"):
            new_observations = self._restart(mask)
        observation = self.current.copy()
        observation[mask] = new_observations
        self._set_current(observation, np.where(mask, 0, self.elapsed))
        return self.current

    def snapshot(self) -> Snapshot:
        """Return the state that `restore` needs, as arrays."""
        return {"seed": np.asarray(self._seed), "steps": np.asarray(self.steps)}

    def restore(self, snapshot: Snapshot) -> bool:
        """Continue from a snapshot; return False if that is not possible and all episodes are new instead.

        The observations are in `current` in both cases.
        """
        entropy = [int(snapshot["seed"]), int(snapshot["steps"])]  # so that the run does not repeat its first episodes
        self.reset(int(np.random.SeedSequence(entropy).generate_state(1)[0]))
        return False

    def render(self) -> NDArray[np.uint8]:
        """Return an image of the first environment, which must have `render_mode="rgb_array"`."""
        with self.guard.doing("render"):
            image = self._render()
        if image is None:
            raise RequestError(
                "environment",
                f"{self.name} cannot be rendered.",
                "Use a Gymnasium environment that supports rendering.",
            )
        return image

    def close(self) -> None:
        """Release the resources of the backend; environments whose call was cut short are not called again."""
        if self.guard.is_abandoned:
            self._abandon()
            return
        with self.guard.doing("close"):
            self._close()

    @abstractmethod
    def _close(self) -> None:
        """Release the resources of the backend."""

    def _abandon(self) -> None:  # noqa: B027
        """Release what can be released without calling an environment."""

    def _render(self) -> NDArray[np.uint8] | None:
        """Return an image of the first environment, if the backend can render."""
        return None

    @abstractmethod
    def _reset(self, seed: int) -> Values:
        """Reset all environments and return their observations."""

    @abstractmethod
    def _step(self, action: Values) -> HostStep:
        """Take one step of the backend."""

    @abstractmethod
    def _restart(self, mask: Flags) -> Values:
        """Reset the selected environments and return their observations."""

    def _set_current(self, observation: Values, elapsed: NDArray[np.int64]) -> None:
        self._check("observation", observation)
        self.current, self.elapsed = observation, elapsed

    def _check(self, what: str, values: Values, action: Values | None = None) -> None:
        if values.dtype == np.uint8 or np.isfinite(values).all():
            return
        index = int(np.argmin(np.isfinite(values).reshape(self.num_envs, -1).all(1)))
        cause = "" if action is None or np.isfinite(action[index]).all() else ", nor is the action"
        raise EnvironmentFailure(self.name, self.steps, f"environment {index}: the {what} is not finite{cause}.")


class SpaceEnv(HostEnv):
    """Host environments that have Gymnasium spaces."""

    def __init__(
        self, name: str, num_envs: int, observation: Space[Any], action: Space[Any], max_steps: int | None
    ) -> None:
        self._observation_space, self._action_space = observation, action
        spaces = observation_from_space(observation, name), action_from_space(action, name)
        super().__init__(name, num_envs, *spaces, max_steps)

    def clip_action(self, action: Values) -> Values:
        """Return actions [N] or [N, dim] as the backend expects them: clipped, with its dtype and offset."""
        return to_env_actions(self._action_space, action)


def env_seeds(seed: int, num_envs: int) -> list[int]:
    """Return one 31-bit seed per environment; adding environments does not change the seeds of the others."""
    return [int(word >> 1) for word in np.random.SeedSequence(seed).generate_state(num_envs)]


def stagger_host(mode: str, env: HostEnv, rng: np.random.Generator) -> Values:
    """Desynchronize environments that were just reset, and return their observations.

    `burn-in`: environment i is reset at a random time and then takes pᵢ random steps, pᵢ uniform in [0, horizon).
    """
    if mode == "none":
        return env.current
    if mode != "burn-in":
        raise RequestError(
            "environment",
            f"--stagger {mode} is not available for {env.name}: host environments count their steps themselves.",
            "Use --stagger burn-in.",
        )
    phases = rng.integers(0, env.horizon, env.num_envs)
    for left in range(int(phases.max()), -1, -1):
        if (mask := phases == left).any():
            env.restart(mask)
        if left:
            env.step(env.clip_action(random_actions(env, rng)))
    return env.current


def random_actions(env: HostEnv, rng: np.random.Generator) -> Values:
    """Return a random action per environment, uniform within the bounds, or in [−1, 1] if there are none."""
    action, count = env.action, env.num_envs
    if isinstance(action, Discrete):
        return rng.integers(0, action.n, count)
    if isinstance(action, Continuous):
        low = action.low if isfinite(action.low) else -1.0
        high = action.high if isfinite(action.high) else 1.0
        return rng.uniform(low, high, (count, action.dim))
    return rng.integers(0, action.choices, (count, len(action.choices)))
