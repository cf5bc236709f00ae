"""How data flows: a driver collects rollouts and hands them to the algorithm. `compiled_driver` does so in functional
environments, `host_driver` in Gymnasium's and EnvPool's."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rollshape.agents.policy import Policy
from rollshape.algorithms.base import Info, Rollout, State
from rollshape.algorithms.parallel import BY_ENV, REPLICATED
from rollshape.algorithms.registry import new_algorithm
from rollshape.compiler_options import quick_options
from rollshape.envs.functional import FunctionalEnv
from rollshape.envs.host import HostEnv, Snapshot
from rollshape.geometry.plan import Plan
from rollshape.training.distributed import from_first
from rollshape.training.evaluate import OnScore, Score
from rollshape.training.monitor import GradientSignals, measure_signals, no_signals, plan_sampling
from rollshape.training.normalization import (
    NORMALIZER_SPEC,
    Normalizer,
    new_normalizer,
    normalize_rewards,
    update_observations,
)
from rollshape.training.programs import find_or_compile_small, make_room
from rollshape.training.spec import Spec
from rollshape.training.streams import Stream, stream_key, stream_keys

PHASE_BINS = 16


class RunState(NamedTuple):
    """Everything that an identical continuation needs; random keys follow from the seed and `update`."""

    seed: Array  # carried, not compiled in: all seeds of a shape share one program
    update: Array
    learner: State
    normalizer: Normalizer
    episodes: Any  # functional environments: the running Episodes; host: returns so far of the running episodes


_state_spec: Any = RunState
STATE_SPEC: RunState = _state_spec(
    seed=REPLICATED, update=REPLICATED, learner=REPLICATED, normalizer=NORMALIZER_SPEC, episodes=BY_ENV
)


class UpdateMetrics(NamedTuple):
    """What one update reports; sums over finished episodes come with their number."""

    episodes: Array
    return_sum: Array
    length_sum: Array
    reset_phase_entropy: Array
    not_finite: Array  # number of rewards and observations
    info: Info  # the algorithm's
    signals: GradientSignals | None  # with --monitor-gradients


class UpdateKeys(NamedTuple):
    """Random keys of an update, for this shard; `shuffle` is the same in all shards."""

    policy: Array
    env: Array
    shuffle: Array
    monitor: Array


class Times(NamedTuple):
    """Seconds of an interval."""

    rollout: float
    update: float


class Driver(ABC):
    """Executes a spec: a run is a function of (spec, plan, seed)."""

    def __init__(
        self, spec: Spec, plan: Plan, env: FunctionalEnv | HostEnv, interval: int = 1, network: Any = None
    ) -> None:
        self.spec, self.plan, self.env, self.interval = spec, plan, env, interval
        self.algorithm = new_algorithm(spec, plan, env.observation, env.action, network)
        self.parallel, self.layout = self.algorithm.parallel, self.algorithm.parallel.layout
        self._has_built_in_network = network is None
        self._program: Any = None
        self.compile_s = 0.0
        self.monitored = plan_sampling(plan, self.layout.num_shards, interval) if spec.monitor_gradients else None

    def start(self) -> RunState:
        """Return the state before the first update, computed by one program: single operations compile one each."""
        seed: Any = np.uint32(self.spec.seed)
        if not self._has_built_in_network:
            return self.place(self.initial_state(seed))

        def compile_program() -> Any:
            return jax.jit(self.initial_state, compiler_options=quick_options()).lower(seed).compile()

        return self.place(find_or_compile_small(self.program_key("start"), compile_program)(seed))

    @property
    @abstractmethod
    def env_key(self) -> Hashable:
        """What programs depend on of the environment."""

    @abstractmethod
    def initial_state(self, seed: Array) -> RunState:
        """Return the state before the first update."""

    def template(self) -> RunState:
        """Return a state of shapes and dtypes only, which needs no program; a caller's network has to be created."""
        if not self._has_built_in_network:
            return self.start()
        state: RunState = jax.eval_shape(self.initial_state, np.uint32(self.spec.seed))
        return state

    def start_and_compile(self) -> RunState:
        """Return the state before the first update; its program and that of `advance` are compiled at the same time."""
        make_room()  # not while another thread is tracing
        with ThreadPoolExecutor(1) as other_thread:
            state = other_thread.submit(self.start)
            self.compile()
            return state.result()

    def compile(self) -> None:
        """Compile the program that `advance` needs, ahead of time."""
        if self._program is None:
            began = time.perf_counter()
            self._program = self._find_program(self.parallel.describe(self.template(), STATE_SPEC))
            self.compile_s = time.perf_counter() - began

    @abstractmethod
    def _find_program(self, state: Any) -> Any:
        """Return the compiled program for states like this one (shapes, dtypes and shardings)."""

    def program_key(self, *parts: Hashable) -> Hashable | None:
        """Return what determines the compiled program; None if it also depends on a network of the caller's.

        The seed is a part of the state, and memory and findings of the plan depend on the machine.
        """
        if not self._has_built_in_network:
            return None
        spec, plan = replace(self.spec, seed=0), replace(self.plan, memory=None, findings=())
        return type(self), repr(spec), repr(plan), self.interval, self.env_key, *parts

    @abstractmethod
    def advance(self, state: RunState, count: int) -> tuple[RunState, UpdateMetrics, Times]:
        """Make the next `count` ≤ interval updates: the state after them (the old one is used up), metrics
        [count, …], seconds."""

    @abstractmethod
    def score(
        self, state: RunState, seed: int, episodes: int, max_steps: int | None = None, on_score: OnScore | None = None
    ) -> Score:
        """Score the policy on fresh full-length episodes of the eval stream.

        Host environments report their progress; with `max_steps` they may stop early, see `scoring.stop_reason`.
        """

    def snapshot(self) -> Snapshot | None:
        """Return what a resume needs in addition to the state."""
        return None

    def restore(self, snapshot: Snapshot | None) -> bool:  # noqa: ARG002
        """Continue from a snapshot; return False where the running episodes could not be restored."""
        return True

    def success_rate(self) -> float | None:
        """Return the share of successes among the episodes since the last call, where the environment reports it."""
        return self.env.success_rate() if isinstance(self.env, HostEnv) else None

    def hurry(self) -> None:  # noqa: B027
        """Let calls into environments take only a short time from now on: a stop was requested (signal handler)."""

    def close(self) -> None:  # noqa: B027
        """Release what the environments hold."""

    def place(self, state: RunState) -> RunState:
        """Move the state to the devices that compute it."""
        placed: RunState = self.parallel.place(state, STATE_SPEC)
        return placed

    def share(self, state: RunState) -> RunState:
        """Return the first process's state in all processes."""
        return state if jax.process_count() == 1 else self.place(from_first(self.parallel.fetch(state)))

    def policy(self, state: RunState) -> Policy:
        """Return the policy on one device, to use outside the shards."""
        return self.algorithm.policy(state.learner, state.normalizer.observations).on_device()

    def new_state(self, seed: Array, episodes: Any) -> RunState:
        """Return the state before the first update, with the environments' part of it."""
        spec = self.spec
        shape = self.env.observation.shape if spec.normalize_observations else None
        return RunState(
            seed=jnp.asarray(seed, jnp.uint32),
            update=jnp.zeros((), jnp.int32),
            learner=self.algorithm.init(stream_key(seed, "init")),
            normalizer=new_normalizer(shape, spec.normalize_rewards, self.plan.num_envs),
            episodes=episodes,
        )

    def update_keys(self, state: RunState, count: int) -> UpdateKeys:
        """Return the keys of the next `count` updates, [count]."""
        streams: tuple[Stream, ...] = ("policy", "env", "shuffle", "monitor")
        keys = stream_keys(state.seed, streams, state.update + 1, count)  # [streams, count]
        by_shard = jax.vmap(jax.vmap(lambda key: jax.random.fold_in(key, self.parallel.index())))(keys)
        common, per_shard = UpdateKeys(*keys), UpdateKeys(*by_shard)
        if self.algorithm.uses_replay:  # in one shard
            return common._replace(monitor=per_shard.monitor)
        return per_shard._replace(shuffle=common.shuffle)

    def train_on_rollout(
        self, state: RunState, rollout: Rollout, keys: UpdateKeys, is_monitored: Array
    ) -> tuple[RunState, UpdateMetrics]:
        """Train on a shard's rollout [T, N/S, …]: the state after the update, and its metrics.

        Where it `is_monitored` and the spec asks for it, also measure the gradient (see `monitor`).
        """
        parallel = self.parallel
        normalizer, scaled = normalize_rewards(state.normalizer, rollout, self.spec.gamma, parallel)
        signals = self._signals(state, scaled, keys.monitor, is_monitored)
        learner, info = self.algorithm.update(state.learner, scaled, keys.shuffle)
        normalizer = update_observations(normalizer, rollout, parallel)
        following = RunState(state.seed, state.update + 1, learner, normalizer, state.episodes)
        sums = parallel.sum(self._episode_sums(rollout))
        return following, UpdateMetrics(
            episodes=sums[0],
            return_sum=sums[1],
            length_sum=sums[2],
            reset_phase_entropy=histogram_entropy(sums[3:-1]),
            not_finite=sums[-1],
            info=info,
            signals=signals,
        )

    def _signals(self, state: RunState, rollout: Rollout, key: Array, is_monitored: Array) -> GradientSignals | None:
        if self.monitored is None:
            return no_signals() if self.spec.monitor_gradients else None
        measure = partial(measure_signals, self.algorithm, self.monitored)
        signals: GradientSignals = jax.lax.cond(
            is_monitored, measure, lambda *_: no_signals(), state.learner, rollout, key
        )  # a program within the program: the update is compiled as it is without it
        return signals

    def _episode_sums(self, rollout: Rollout) -> Array:
        """Sum over a shard: number, returns and lengths of finished episodes; phase histogram; values not finite."""
        ended = rollout.terminated | rollout.truncated
        valid = jnp.ones_like(ended) if rollout.valid is None else rollout.valid
        phases = phase_histogram(rollout.steps, self.env.horizon, valid)
        observation = rollout.observation.reshape(*ended.shape, -1)
        columns = (
            ended,
            jnp.where(ended, rollout.episode_return, 0.0),
            jnp.where(ended, rollout.episode_length, 0),
            (~jnp.isfinite(rollout.reward)).astype(jnp.int32) + (~jnp.isfinite(observation)).sum(-1),
        )
        sums = jnp.stack([column.astype(jnp.float32) for column in columns]).sum((1, 2))
        return jnp.concatenate([sums[:3], phases, sums[3:]])


def phase_histogram(steps: Array, horizon: int, mask: Array) -> Array:
    """Count how many of the masked steps fall into each of 16 equal parts of the environment's horizon."""
    phase = jnp.clip(steps * PHASE_BINS // horizon, 0, PHASE_BINS - 1)
    return jnp.zeros(PHASE_BINS).at[phase.reshape(-1)].add(mask.reshape(-1).astype(jnp.float32))


def histogram_entropy(counts: Array) -> Array:
    """Return the entropy of a histogram, 1 where all bins are equal and 0 where one holds everything."""
    share = counts / jnp.maximum(counts.sum(), 1.0)
    return -jnp.sum(jnp.where(share > 0, share * jnp.log(jnp.maximum(share, 1e-12)), 0.0)) / jnp.log(counts.size)
