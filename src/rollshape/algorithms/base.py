"""What an algorithm is: a few functions of arrays that the drivers in `training` call.

    init(key)                          → state          parameters, optimizer, anything carried
    act_fn(state)                      → act            act(observation, noise) → action, extras for the rollout
    update(state, rollout, key)        → state, info    all epochs and minibatches of one update
    advantages(rollout, gae_lambda)    → A, targets     what weighs the scores; also what the gradient lab uses

State is what is carried from one update to the next; Info is what one update reports, a type of its own for every
algorithm. A run of S shards calls these functions inside S devices, each with its own environments (see `parallel`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np
from jax import Array

from rollshape.agents.distributions import ActionDistribution
from rollshape.agents.normalizer import Moments
from rollshape.agents.policy import Act, Policy
from rollshape.algorithms.parallel import Parallel
from rollshape.algorithms.settings import CommonSettings
from rollshape.envs.spaces import Action, Observation
from rollshape.geometry.plan import Plan

State = Any  # each algorithm has its own NamedTuple
Info = Any
_absent: Any = None


class Rollout(NamedTuple):
    """N environments × T steps, time-major [T, N, …], and the value after the last step, [N].

    Algorithms with a critic fill log_prob and the values, when all steps are collected; those with a replay buffer
    fill final_observation and store true rewards. The fields of the others are None.
    """

    observation: Array  # as the network reads it
    action: Array
    reward: Array
    terminated: Array
    truncated: Array
    steps: Array  # of the episode before the action: its phase
    episode_return: Array  # where the episode ends
    episode_length: Array
    outputs: Array = _absent  # of the policy, as long as log_prob is not computed from them
    log_prob: Array = _absent
    value: Array = _absent
    final_value: Array = _absent  # V(final observation) where truncated, else 0
    last_value: Array = _absent  # [N]
    final_observation: Array = _absent  # where the action led; read where an episode ends
    raw_observation: Array | None = None  # as the environment gave it, where observations are normalized
    valid: Array | None = None  # False where a host environment only reset: no transition. None: all are valid


class Algorithm(ABC):
    """An algorithm at one plan."""

    Settings: ClassVar[type[CommonSettings]]
    uses_replay: ClassVar[bool] = False  # rollouts hold final observations and true rewards, and no values
    reports: ClassVar[tuple[str, ...]]  # the metrics of `summarize`
    must_stay_finite: tuple[str, ...]  # reported losses; a run whose losses are not finite has diverged
    has_critic: bool  # whether a value function is trained
    gae_lambda: float = 1.0  # λ of the advantages; returns to go are λ = 1
    depends_on_past: bool = False  # whether advantages depend on rewards before their step
    centers_advantages: bool = False  # whether the mean of all advantages is subtracted before anything else
    parallel: Parallel
    distribution: ActionDistribution

    def __init__(self, spec: Any, plan: Plan, observation: Observation, action: Action) -> None:
        self.spec, self.plan, self.observation, self.action = spec, plan, observation, action

    @abstractmethod
    def init(self, key: Array) -> State:
        """Return the state before the first update."""

    @abstractmethod
    def act_fn(self, state: State) -> Act:
        """Return a function (observations [N, …], noise) → (actions, what else the rollout stores of this step).

        It is called at every step of a rollout; what does not depend on the step is computed here, once.
        """

    @abstractmethod
    def update(self, state: State, rollout: Rollout, key: Array) -> tuple[State, Info]:
        """Train on one rollout (this shard's environments)."""

    @abstractmethod
    def policy(self, state: State, moments: Moments | None = None) -> Policy:
        """Return the policy that acts, with the observations' moments."""

    @abstractmethod
    def summarize(self, info: Info) -> dict[str, Any]:
        """Return what a metrics row reports of an interval: `info` is stacked over its updates, [count, …]."""

    def advantages(self, rollout: Rollout, gae_lambda: float | Array | None = None) -> tuple[Array, Array]:
        """Return (advantages, value targets), each [T, N]; a λ that is given replaces the run's."""
        raise NotImplementedError(f"{type(self).__name__} learns from a replay buffer: a rollout has no advantages.")

    def complete(self, state: State, rollout: Rollout, last_observation: Array) -> Rollout:
        """Fill in what the network says of all steps; `last_observation` [N, …] is as the network reads it."""
        del state, last_observation
        return rollout

    def check(self, state: State, info: Info, is_last: bool) -> None:  # noqa: B027
        """Raise a RunError where it is pointless to continue."""

    def derived_settings(self) -> dict[str, Any]:
        """Return settings that were computed from others, for the run's record."""
        return {}

    def acting_state(self, state: State) -> State:
        """Return the part of the state that `act_fn` reads: a host driver passes it to a program at every step."""
        return state

    def forget_episodes(self, state: State) -> State:
        """Return the state after the running episodes were lost: a resume could not restore the environments."""
        return state


def flatten_steps(tree: Any) -> Any:
    """Merge the time and environment axes: [T, N, …] → [T·N, …]."""
    return jax.tree.map(lambda x: x.reshape(x.shape[0] * x.shape[1], *x.shape[2:]), tree)


def mean_of(values: Any) -> float | None:
    """Return the mean as a float, None where it is not finite: a metrics row holds no NaN."""
    number = float(np.mean(values)) if np.size(values) else math.nan
    return number if math.isfinite(number) else None


def mean_of_finite(values: Any) -> float | None:
    """Return the mean of the finite values, None where there are none."""
    numbers = np.asarray(values)
    return mean_of(numbers[np.isfinite(numbers)])


def means_by_epoch(values: Any) -> list[float | None]:
    """Return the mean over updates of each epoch: [count, epochs] → [epochs]."""
    return [mean_of(column) for column in np.asarray(values).T]
