"""A run and its checkpoints, as the probes see them: the only module of this package that knows the drivers."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jax import Array

from rollshape.agents.normalizer import Moments
from rollshape.agents.policy import Policy
from rollshape.agents.soft import Network
from rollshape.algorithms.base import Algorithm, Rollout
from rollshape.algorithms.replay import ReplayBuffer, has_finished_episode
from rollshape.envs.functional import FunctionalEnv
from rollshape.envs.host import HostEnv
from rollshape.errors import RequestError
from rollshape.files import output_directory
from rollshape.geometry.algorithms import RULES
from rollshape.geometry.plan import Plan
from rollshape.training import checkpoint as checkpoints
from rollshape.training.driver import Driver, RunState
from rollshape.training.rundir import RunDirectory
from rollshape.training.setup import new_driver, trusted_spec, use_compilation_cache
from rollshape.training.spec import Spec

RunOrPath = str | os.PathLike[str]  # a Run is a path, too


@dataclass(frozen=True)
class Estimator:
    """How an algorithm estimates advantages. Hashable by its settings, as a static argument of a compiled function."""

    spec: Spec  # without env_kwargs, which cannot be hashed
    algorithm: Algorithm = field(compare=False, repr=False)

    @property
    def gamma(self) -> float:
        return self.spec.gamma

    @property
    def gae_lambda(self) -> float:
        """λ of GAE; rewards-to-go are GAE with λ = 1."""
        return self.algorithm.gae_lambda

    @property
    def has_critic(self) -> bool:
        """Whether a critic is trained, and its values are part of the advantages."""
        return self.algorithm.has_critic

    @property
    def centers_advantages(self) -> bool:
        """Whether the mean of all advantages is subtracted from them."""
        return self.algorithm.centers_advantages

    @property
    def depends_on_past(self) -> bool:
        """Whether an advantage depends on rewards before its step."""
        return self.algorithm.depends_on_past

    def advantages(self, rollout: Rollout, gae_lambda: float | Array | None = None) -> tuple[Array, Array]:
        """Return (advantages, value targets) [T, N], neither centered nor normalized; a given λ replaces the run's."""
        return self.algorithm.advantages(rollout, gae_lambda)


class Checkpoint:
    """A run at one of its checkpoints, on one device."""

    def __init__(self, driver: Driver, state: RunState) -> None:
        self.spec: Spec = driver.spec
        self.plan: Plan = driver.plan
        self.env: FunctionalEnv | HostEnv = driver.env
        self.estimator = Estimator(replace(driver.spec, env_kwargs=None), driver.algorithm)
        self.update = int(state.update)
        self._driver, self._state = driver, state

    @cached_property
    def policy(self) -> Policy:
        return self._driver.policy(self._state)

    @cached_property
    def reward_moments(self) -> Moments | None:
        """Moments of the discounted return, by which the run scales rewards; None where it does not."""
        return _on_one_device(self._state.normalizer.rewards)  # type: ignore[no-any-return]

    @cached_property
    def episodes(self) -> Any:
        """The running episodes of the run's own functional environments."""
        return _on_one_device(self._state.episodes)

    def is_finite(self) -> bool:
        return all(bool(np.isfinite(leaf).all()) for leaf in jax.tree.leaves(self.policy.network))

    def reward_model(self) -> tuple[Network, ReplayBuffer]:
        """Return the reward network of RRD and the replay it learns from, or raise a RequestError."""
        learner = self._state.learner
        if not learns_rewards(self.spec) or not bool(has_finished_episode(learner.buffer)):
            raise RequestError(
                "run",
                f"After {self.update:,} updates this run of {self.spec.algo} has no reward network with finished "
                "episodes.",
                "Use a run of --algo rrd and a checkpoint after its first episode.",
            )
        return learner.agent.reward, learner.buffer


class ProbedRun:
    """A run directory opened for measurement. The run is planned once, and each checkpoint is loaded once."""

    def __init__(self, run: RunOrPath, *, trust: bool = False, env: Any = None) -> None:
        use_compilation_cache()
        self.path = output_directory(os.fspath(run))
        self._directory = RunDirectory(self.path)
        self.spec = trusted_spec(self._directory, trust, env)
        self._checkpoints: dict[int, Checkpoint] = {}

    def __enter__(self) -> ProbedRun:
        return self

    def __exit__(self, *_: object) -> None:
        if "_driver" in self.__dict__:
            self._driver.close()

    @property
    def plan(self) -> Plan:
        return self._driver.plan

    @property
    def has_diverged(self) -> bool:
        return bool(self._directory.read()["status"] == "diverged")

    @cached_property
    def updates(self) -> list[int]:
        """Updates whose checkpoints are stored, in ascending order."""
        return [checkpoints.update_of(path) for path in checkpoints.stored(self._directory.checkpoints)]

    def find_update(self, update: int | None) -> int:
        """Return the update of a stored checkpoint (default: the latest), or raise a RequestError listing them."""
        return checkpoints.update_of(checkpoints.find(self._directory.checkpoints, update))

    def checkpoint(self, update: int) -> Checkpoint:
        """Load the checkpoint of an update, unless it is loaded already."""
        if update not in self._checkpoints:
            path = checkpoints.find(self._directory.checkpoints, update)
            checkpoint = Checkpoint(self._driver, checkpoints.load(path, self._template).state)
            if not checkpoint.is_finite():
                raise RequestError(
                    "checkpoint",
                    f"The parameters after update {update} are not finite.",
                    f"Choose another --checkpoint: {', '.join(map(str, self.updates))}.",
                )
            self._checkpoints[update] = checkpoint
        return self._checkpoints[update]

    @cached_property
    def _driver(self) -> Driver:
        return new_driver(self.spec, self._directory.plan())

    @cached_property
    def _template(self) -> RunState:
        """A state of the structure that the checkpoints have."""
        return self._driver.template()


def learns_from_replay(spec: Spec) -> bool:
    """Whether updates draw from a replay buffer, so that there is no rollout of N × T to measure."""
    return RULES[spec.algo].uses_replay


def learns_rewards(spec: Spec) -> bool:
    """Whether the run trains a reward network, which `probe_rewards` measures."""
    return RULES[spec.algo].uses_subsequences


def _on_one_device(tree: Any) -> Any:
    return jax.device_put(tree, jax.local_devices()[0])
