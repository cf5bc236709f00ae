"""Environments that run on the host, N at once, NumPy arrays in and out: one protocol for every backend."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rollshape.envs.gymnasium_spaces import acted, action_of, observation_of
from rollshape.envs.spaces import UNLIMITED, Action, Continuous, Discrete
from rollshape.errors import RequestError, RunError

if TYPE_CHECKING:
    from gymnasium import Space

Values = NDArray[Any]
Flags = NDArray[np.bool_]
Snapshot = dict[str, Values]
SUCCESS = ("is_success", "success")  # as goal environments and MetaWorld call it


class EnvironmentFailure(RunError):
    """The user's environment failed while it ran; the step counts vector steps since the reset."""

    def __init__(self, name: str, step: int, problem: str) -> None:
        super().__init__("environment", f"{name} failed at step {step}: {problem}", "Mend the environment.")


class OneFailed(RuntimeError):
    """`environment 3: ZeroDivisionError: …`, which one of the N it was; one text, for it may come from a process."""


class HostStep(NamedTuple):
    """What one vector step led to, [N, …].

    `observation` is what to act on next and `final_observation` is where the action really led: one array, unless an
    episode ended and was reset within the same step. Where `valid` is False the backend only reset the environment:
    there was no transition, and the reward is 0.
    """

    observation: Values
    reward: NDArray[np.float32]
    terminated: Flags
    truncated: Flags  # an episode that terminates at its last allowed step is not truncated
    final_observation: Values
    valid: Flags
    true_reward: NDArray[np.float32]  # of the step itself; `reward` is another where it is told only at the end
    success: Flags | None = None  # whether the goal is reached, where the environment tells


def success_of(info: Mapping[str, Any], ended: Flags) -> Flags | None:
    """What `is_success` or `success` says of each environment; of one that was reset within the step, its last word."""
    last = info.get("final_info", {})
    for name in SUCCESS:
        if name in info or name in last:
            now, final = (np.asarray(each.get(name, np.zeros(ended.shape)), float) > 0 for each in (info, last))
            return np.where(ended, final, now) if name in last else now
    return None


class HostEnv(ABC):
    """N environments of one id that reset themselves. `reset` comes before anything else."""

    replays = False  # whether a snapshot restores bit for bit

    def __init__(
        self, name: str, num_envs: int, observation: Space[Any], action: Space[Any], max_steps: int | None
    ) -> None:
        self.name, self.num_envs, self.max_steps = name, num_envs, max_steps
        self.observation = observation_of(observation, name)
        self.action: Action = action_of(action, name)
        self.steps = 0  # vector steps since the reset
        self.elapsed = np.zeros(num_envs, np.int64)  # steps of each running episode
        self.current: Values  # what to act on next
        self._judged = self._succeeded = 0  # episodes that ended and told whether they were a success
        self._observation_space, self._action_space = observation, action
        self._seed = 0

    @property
    def horizon(self) -> int:
        """Steps of the longest episode that is looked at."""
        return self.max_steps or UNLIMITED

    def bounded(self, action: Values) -> Values:
        """The policy's actions [N] or [N, dim] as the backend takes them: clipped, in its dtype and counting."""
        return acted(self._action_space, action)

    def reset(self, seed: int) -> Values:
        """Fresh episodes everywhere; everything random follows from the seed."""
        self._seed, self.steps = seed, 0
        with self._watched():
            observation = self._reset(seed)
        self._begin(observation, np.zeros(self.num_envs, np.int64))
        return self.current

    def step(self, action: Values) -> HostStep:
        """One step of every environment with `bounded` actions."""
        self.steps += 1
        with self._watched():
            outcome = self._step(action)
        self._check("reward", outcome.reward, action)
        self._check("observation", outcome.final_observation, action)
        if outcome.final_observation is not outcome.observation:
            self._check("observation", outcome.observation)
        self.current = outcome.observation
        ended = outcome.terminated | outcome.truncated
        self.elapsed = np.where(ended | ~outcome.valid, 0, self.elapsed + 1)
        if outcome.success is not None:
            self._judged += int(ended.sum())
            self._succeeded += int((outcome.success & ended).sum())
        return outcome

    def success_rate(self) -> float | None:
        """Share of successes among the episodes that ended since the last call; None where none told."""
        judged, succeeded = self._judged, self._succeeded
        self._judged = self._succeeded = 0
        return succeeded / judged if judged else None

    def restart(self, chosen: Flags) -> Values:
        """Fresh episodes in the chosen environments alone; all observations."""
        with self._watched():
            fresh = self._restart(chosen)
        observation = self.current.copy()
        observation[chosen] = fresh
        self._begin(observation, np.where(chosen, 0, self.elapsed))
        return self.current

    def snapshot(self) -> Snapshot:
        """What `restore` needs, as arrays."""
        return {"seed": np.asarray(self._seed), "steps": np.asarray(self.steps)}

    def restore(self, snapshot: Snapshot) -> bool:
        """Go on from a snapshot; False where that cannot be, and then all episodes are fresh ones.

        What to act on is `current` in either case.
        """
        entropy = [int(snapshot["seed"]), int(snapshot["steps"])]  # not the episodes that the run began with
        self.reset(int(np.random.SeedSequence(entropy).generate_state(1)[0]))
        return False

    def frame(self) -> NDArray[np.uint8]:
        """A picture of the first environment, which was made with `render_mode="rgb_array"`."""
        raise RequestError("environment", f"{self.name} cannot be drawn.", "Gymnasium's that draw themselves can.")

    @abstractmethod
    def close(self) -> None:
        """Give back what the backend holds."""

    @abstractmethod
    def _reset(self, seed: int) -> Values:
        """All observations after a reset."""

    @abstractmethod
    def _step(self, action: Values) -> HostStep:
        """One step of the backend."""

    @abstractmethod
    def _restart(self, chosen: Flags) -> Values:
        """The observations of the chosen environments after their reset."""

    def _begin(self, observation: Values, elapsed: NDArray[np.int64]) -> None:
        self._check("observation", observation)
        self.current, self.elapsed = observation, elapsed

    def _check(self, what: str, values: Values, action: Values | None = None) -> None:
        if values.dtype == np.uint8 or np.isfinite(values).all():
            return
        index = int(np.argmin(np.isfinite(values).reshape(self.num_envs, -1).all(1)))
        blame = "" if action is None or np.isfinite(action[index]).all() else ", and neither was the action"
        raise EnvironmentFailure(self.name, self.steps, f"environment {index}: the {what} is not finite{blame}.")

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            yield
        except (EnvironmentFailure, RequestError):
            raise
        except Exception as error:  # an environment is the user's code and may raise anything
            problem = str(error) if isinstance(error, OneFailed) else told(error)
            raise EnvironmentFailure(self.name, self.steps, problem) from error


def told(error: Exception) -> str:
    """An exception of the user's code in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


@contextlib.contextmanager
def making(env_id: str) -> Iterator[None]:
    """Whatever is raised before a run starts, as one message."""
    try:
        yield
    except RequestError:
        raise
    except EnvironmentFailure as error:
        raise RequestError("environment", error.message, error.fix) from None
    except Exception as error:
        raise RequestError("environment", f"{env_id} fails: {told(error)}", "Mend the environment.") from None


def seeds_of(seed: int, num_envs: int) -> list[int]:
    """A seed for each environment, 31 bits; more environments do not change the first ones."""
    return [int(word >> 1) for word in np.random.SeedSequence(seed).generate_state(num_envs)]


def staggered_host(mode: str, env: HostEnv, rng: np.random.Generator) -> Values:
    """Spread the phases of environments that were just reset; what to act on.

    `burn-in`: with a phase pᵢ of its own, uniform in [0, horizon), each environment takes its last pᵢ steps after a
    reset that it alone gets; actions are random.
    """
    if mode == "none":
        return env.current
    if mode != "burn-in":
        raise RequestError(
            "environment",
            f"{env.name} counts its steps itself: --stagger {mode} cannot set them.",
            "Use --stagger burn-in.",
        )
    phases = rng.integers(0, env.horizon, env.num_envs)
    for left in range(int(phases.max()), -1, -1):
        if (chosen := phases == left).any():
            env.restart(chosen)
        if left:
            env.step(env.bounded(random_actions(env, rng)))
    return env.current


def random_actions(env: HostEnv, rng: np.random.Generator) -> Values:
    """An action for every environment, uniform within its bounds; between −1 and 1 where there are none."""
    action, count = env.action, env.num_envs
    if isinstance(action, Discrete):
        return rng.integers(0, action.n, count)
    if isinstance(action, Continuous):
        low = action.low if isfinite(action.low) else -1.0
        high = action.high if isfinite(action.high) else 1.0
        return rng.uniform(low, high, (count, action.dim))
    return rng.integers(0, action.choices, (count, len(action.choices)))
