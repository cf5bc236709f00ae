"""Training in functional environments: collecting and learning are one program, several updates per call."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rollshape.algorithms.base import Rollout
from rollshape.algorithms.parallel import REPLICATED
from rollshape.envs.functional import Episode, FunctionalEnv, start
from rollshape.geometry.plan import Plan
from rollshape.training.driver import STATE_SPEC, Driver, RunState, Times, UpdateMetrics
from rollshape.training.evaluate import Score, evaluate
from rollshape.training.rollout import collect
from rollshape.training.spec import Spec
from rollshape.training.stagger import stagger_episodes
from rollshape.training.streams import stream_key
from rollshape.training.trim import trim_memory

TIMING_PERIOD = 16  # updates after which one collection is repeated to time it
CACHED_PROGRAMS = 4  # that a process keeps, the newest

Program = Callable[[RunState, Array, Array], tuple[RunState, UpdateMetrics]]
_programs: dict[tuple[Hashable, ...], Program] = {}


class CompiledDriver(Driver):
    """Drives functional environments; `run` is pure in the state."""

    env: FunctionalEnv

    def __init__(self, spec: Spec, plan: Plan, env: FunctionalEnv, interval: int = 1, network: Any = None) -> None:
        super().__init__(spec, plan, env, interval, network)
        self._is_cacheable = network is None
        self._program: Program | None = None
        self._collect_alone: Any = jax.jit(lambda state: _touch(self._collect(state)[1]))
        self._collect_seconds = 0.0
        self._updates_until_timing = 0

    def start(self) -> RunState:
        seed, env = self.spec.seed, self.env
        episodes = jax.vmap(partial(start, env))(jax.random.split(stream_key(seed, "env"), self.plan.num_envs))
        episodes = stagger_episodes(self.spec.stagger, env, episodes, stream_key(seed, "env", 2**31 - 1))
        return self.new_state(jax.tree.map(jnp.copy, episodes))  # no buffer may be donated twice

    def compile(self, state: RunState) -> None:
        """Runs that differ only in their seed share one program: the seed is a part of the state."""
        key = self.env, repr(replace(self.spec, seed=0)), repr(self.plan), self.interval
        program = _programs.get(key) if self._is_cacheable else None
        if program is None:
            arguments = (state, jnp.asarray(0, jnp.int32), jnp.asarray(True))
            compiled: Any = jax.jit(self.run, donate_argnums=0).lower(*arguments).compile()
            program = compiled
            trim_memory()
        if self._is_cacheable:
            _programs[key] = program
            while len(_programs) > CACHED_PROGRAMS:
                del _programs[next(iter(_programs))]
        self._program = program

    def advance(self, state: RunState, count: int) -> tuple[RunState, UpdateMetrics, Times]:
        if self._program is None:
            self.compile(state)
        assert self._program is not None
        if self._updates_until_timing <= 0:
            self._updates_until_timing = TIMING_PERIOD
            self._collect_seconds = self._time_collection(state)
        self._updates_until_timing -= count
        began = time.perf_counter()
        state, metrics = self._program(state, jnp.asarray(count, jnp.int32), jnp.asarray(True))
        metrics = jax.tree.map(lambda x: np.asarray(x)[:count], metrics)  # waits for the result
        seconds = time.perf_counter() - began
        rollout = min(seconds, count * self._collect_seconds)
        return state, metrics, Times(rollout, seconds - rollout)

    def _time_collection(self, state: RunState) -> float:
        """Return the seconds of one collection, whose result is discarded."""
        assert self._program is not None
        if self.algorithm.uses_replay:  # a copy of the state would copy the replay buffer
            bare = state._replace(learner=self.algorithm.acting_state(state.learner))
            self._collect_alone(bare).block_until_ready()
            began = time.perf_counter()
            self._collect_alone(bare).block_until_ready()
            return time.perf_counter() - began
        copy = jax.tree.map(jnp.copy, state)
        began = time.perf_counter()
        np.asarray(self._program(copy, jnp.asarray(1, jnp.int32), jnp.asarray(False))[1].episodes)  # waits
        return time.perf_counter() - began

    def score(self, state: RunState, seed: int, episodes: int) -> Score:
        return evaluate(self.env, self.policy(state), stream_key(seed, "eval", int(state.update)), episodes)

    def run(self, state: RunState, count: Array, learning: Array) -> tuple[RunState, UpdateMetrics]:
        """Make the next `count` ≤ interval updates in one call: the state after them, and metrics [interval, …].

        The count is an argument of the program, so that the last, shorter interval needs no compilation.
        Without `learning` it only collects, to time that; the results are meaningless then.
        """
        updates = self._updates_in_place if self.algorithm.uses_replay else self._updates
        mapped = self.parallel.shard_map(updates, (STATE_SPEC, REPLICATED, REPLICATED), (STATE_SPEC, REPLICATED))
        result: tuple[RunState, UpdateMetrics] = mapped(state, count, learning)
        return result

    def _updates(self, state: RunState, count: Array, learning: Array) -> tuple[RunState, UpdateMetrics]:
        update = partial(self._update, learning)
        blank = _zeros_like(jax.eval_shape(update, state, learning)[1])

        def one(state: RunState, i: Array) -> tuple[RunState, UpdateMetrics]:
            result: tuple[RunState, UpdateMetrics] = jax.lax.cond(
                i < count, update, lambda state, _: (state, blank), state, i == count - 1
            )
            return result

        return jax.lax.scan(one, state, jnp.arange(self.interval))

    def _update(self, learning: Array, state: RunState, is_last: Array) -> tuple[RunState, UpdateMetrics]:
        episodes, rollout = self._collect(state)
        collected = state._replace(episodes=episodes)
        blank = _zeros_like(jax.eval_shape(self.train_on_rollout, collected, rollout, is_last)[1])
        result: tuple[RunState, UpdateMetrics] = jax.lax.cond(
            learning,
            self.train_on_rollout,
            lambda state, rollout, _: (state, blank._replace(episodes=_touch(rollout))),
            collected,
            rollout,
            is_last,
        )
        return result

    def _updates_in_place(self, state: RunState, count: Array, learning: Array) -> tuple[RunState, UpdateMetrics]:
        """The same as a loop of `count` turns and without a branch, which would copy the replay buffer."""
        del learning

        def update(state: RunState, is_last: Array) -> tuple[RunState, UpdateMetrics]:
            episodes, rollout = self._collect(state)
            return self.train_on_rollout(state._replace(episodes=episodes), rollout, is_last)

        def one(i: Array, carry: tuple[RunState, UpdateMetrics]) -> tuple[RunState, UpdateMetrics]:
            state, collected = carry
            state, metrics = update(state, i == count - 1)
            return state, jax.tree.map(lambda rows, row: rows.at[i].set(row), collected, metrics)

        shapes = jax.eval_shape(update, state, jnp.zeros((), bool))[1]
        blank = jax.tree.map(lambda leaf: jnp.zeros((self.interval, *leaf.shape), leaf.dtype), shapes)
        result: tuple[RunState, UpdateMetrics] = jax.lax.fori_loop(0, count, one, (state, blank))
        return result

    def _collect(self, state: RunState) -> tuple[Episode, Rollout]:
        keys = (self._stream(state, "policy"), self._stream(state, "env"))
        return collect(self.env, self.algorithm, state.learner, state.normalizer.observations, state.episodes, keys)

    def _stream(self, state: RunState, name: Any) -> Array:
        """Return the key of a stream at the next update, for this shard."""
        key = stream_key(state.seed, name, state.update + 1)
        return key if self.algorithm.uses_replay else jax.random.fold_in(key, self.parallel.index())


def _zeros_like(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), tree)


def _touch(rollout: Rollout) -> Array:
    """Return a number that depends on the whole rollout, so that collecting it is not optimized away."""
    return sum((leaf.sum().astype(jnp.float32) for leaf in jax.tree.leaves(rollout)), jnp.zeros(()))
