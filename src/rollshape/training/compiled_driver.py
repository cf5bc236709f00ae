"""Training in functional environments: collecting and learning are one program, several updates per call."""

from __future__ import annotations

import time
from collections.abc import Hashable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rollshape.algorithms.base import Rollout
from rollshape.algorithms.parallel import REPLICATED
from rollshape.compiler_options import training_options
from rollshape.envs.functional import Episode, FunctionalEnv, start
from rollshape.geometry.plan import Plan
from rollshape.training.driver import STATE_SPEC, Driver, RunState, Times, UpdateKeys, UpdateMetrics
from rollshape.training.evaluate import OnScore, Score, score_policy
from rollshape.training.programs import find_or_compile
from rollshape.training.rollout import collect
from rollshape.training.spec import Spec
from rollshape.training.stagger import stagger_episodes
from rollshape.training.streams import stream_key

TIMING_PERIOD = 64  # updates after which one collection is repeated to time it


class CompiledDriver(Driver):
    """Drives functional environments; `run` is pure in the state."""

    env: FunctionalEnv

    def __init__(self, spec: Spec, plan: Plan, env: FunctionalEnv, interval: int = 1, network: Any = None) -> None:
        super().__init__(spec, plan, env, interval, network)
        self._collect_alone: Any = jax.jit(
            lambda state: _touch(self.collect(state)[1]), compiler_options=training_options()
        )
        self._rows: _Rows | None = None
        self._collect_seconds = 0.0
        self._updates_until_timing = 0
        # Inlined functions: a program that uses one several times traces it once.
        self._collect_part: Any = jax.jit(self._collect, inline=True)
        self._train_part: Any = jax.jit(self.train_on_rollout, inline=True)

    def initial_state(self, seed: Array) -> RunState:
        env = self.env
        episodes = jax.vmap(partial(start, env))(jax.random.split(stream_key(seed, "env"), self.plan.num_envs))
        episodes = stagger_episodes(self.spec.stagger, env, episodes, stream_key(seed, "env", 2**31 - 1))
        return self.new_state(seed, jax.tree.map(jnp.copy, episodes))  # no buffer may be donated twice

    @property
    def env_key(self) -> Hashable:
        return self.env

    def _find_program(self, state: Any) -> _Program:
        arguments = (state, np.int32(0), np.bool_(True))

        def compile_program() -> _Program:
            program = (
                jax.jit(self.run, donate_argnums=0, compiler_options=training_options()).lower(*arguments).compile()
            )
            assert self._rows is not None  # lowering has traced `run`
            return _Program(program, self._rows)

        return find_or_compile(self.program_key(), compile_program)

    def advance(self, state: RunState, count: int) -> tuple[RunState, UpdateMetrics, Times]:
        self.compile()
        if self._updates_until_timing <= 0:
            self._updates_until_timing = TIMING_PERIOD
            self._collect_seconds = self._time_collection(state)
        self._updates_until_timing -= count
        began = time.perf_counter()
        state, rows = self._program.run(state, np.int32(count), np.bool_(True))
        metrics = self._program.rows.unpack(np.asarray(rows)[:count])  # waits for the result
        seconds = time.perf_counter() - began
        rollout = min(seconds, count * self._collect_seconds)
        return state, metrics, Times(rollout, seconds - rollout)

    def _time_collection(self, state: RunState) -> float:
        """Return the seconds of one collection, whose result is discarded."""
        if self.algorithm.uses_replay:  # a copy of the state would copy the replay buffer
            bare = state._replace(learner=self.algorithm.acting_state(state.learner))
            self._collect_alone(bare).block_until_ready()
            began = time.perf_counter()
            self._collect_alone(bare).block_until_ready()
            return time.perf_counter() - began
        copy = jax.tree.map(lambda x: jax.device_put(x, x.sharding, may_alias=False), state)  # compiles nothing
        began = time.perf_counter()
        np.asarray(self._program.run(copy, np.int32(1), np.bool_(False))[1])  # waits
        return time.perf_counter() - began

    def score(
        self,
        state: RunState,
        seed: int,
        episodes: int,
        max_steps: int | None = None,  # noqa: ARG002
        on_score: OnScore | None = None,  # noqa: ARG002
    ) -> Score:
        return score_policy(self.env, self.policy(state), stream_key(seed, "eval", int(state.update)), episodes)

    def run(self, state: RunState, count: Array, learning: Array) -> tuple[RunState, Array]:
        """Make the next `count` ≤ interval updates in one call: the state after them, and a row of metrics for each.

        The count is an argument of the program, so that the last, shorter interval needs no compilation.
        Without `learning` it only collects, to time that; the results are meaningless then.
        """
        mapped = self.parallel.shard_map(self._updates, (STATE_SPEC, REPLICATED, REPLICATED), (STATE_SPEC, REPLICATED))
        result: tuple[RunState, Array] = mapped(state, count, learning)
        return result

    def _updates(self, state: RunState, count: Array, learning: Array) -> tuple[RunState, Array]:
        keys = self.update_keys(state, self.interval)

        def update(state: RunState, i: Array) -> tuple[RunState, UpdateMetrics]:
            turn_keys: UpdateKeys = jax.tree.map(lambda key: key[i], keys)
            episodes, rollout = self._collect_part(state, turn_keys)
            collected = state._replace(episodes=episodes)
            if self.algorithm.uses_replay:  # a branch would copy the replay buffer
                trained: tuple[RunState, UpdateMetrics] = self._train_part(
                    collected, rollout, turn_keys, i == count - 1
                )
                return trained
            return self._train_if(learning, collected, rollout, turn_keys, i == count - 1)

        metrics = self._rows = _Rows(jax.eval_shape(update, state, count)[1])

        def one(i: Array, carry: tuple[RunState, Array]) -> tuple[RunState, Array]:
            state, rows = carry
            state, row = update(state, i)
            return state, rows.at[i].set(metrics.pack(row))  # one row, and not one array per metric

        result: tuple[RunState, Array] = jax.lax.fori_loop(
            0, count, one, (state, jnp.zeros((self.interval, metrics.width)))
        )
        return result

    def _train_if(
        self, learning: Array, state: RunState, rollout: Rollout, keys: UpdateKeys, is_last: Array
    ) -> tuple[RunState, UpdateMetrics]:
        blank = _zeros_like(jax.eval_shape(self._train_part, state, rollout, keys, is_last)[1])
        result: tuple[RunState, UpdateMetrics] = jax.lax.cond(
            learning,
            self._train_part,
            lambda state, rollout, *_: (state, blank._replace(episodes=_touch(rollout))),
            state,
            rollout,
            keys,
            is_last,
        )
        return result

    def collect(self, state: RunState) -> tuple[Episode, Rollout]:
        """Collect the rollout of the next update, without learning from it."""
        return self._collect(state, jax.tree.map(lambda key: key[0], self.update_keys(state, 1)))

    def _collect(self, state: RunState, keys: UpdateKeys) -> tuple[Episode, Rollout]:
        moments = state.normalizer.observations
        return collect(self.env, self.algorithm, state.learner, moments, state.episodes, (keys.policy, keys.env))


def _zeros_like(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), tree)


def _touch(rollout: Rollout) -> Array:
    """Return a number that depends on all that is computed for a rollout, so that nothing is optimized away."""
    ends = (rollout.reward, rollout.log_prob, rollout.value, rollout.last_value, rollout.final_value)
    return sum((x.sum() for x in ends if x is not None), jnp.zeros(()))


class _Rows:
    """Metrics of an update as one row of float32; counts in them are exact up to 2²⁴."""

    def __init__(self, shapes: UpdateMetrics) -> None:
        leaves, self._structure = jax.tree.flatten(shapes)
        self._leaves: list[Any] = leaves
        self._ends = np.cumsum([leaf.size for leaf in leaves])
        self.width = int(self._ends[-1])

    def pack(self, metrics: UpdateMetrics) -> Array:
        return jnp.concatenate([jnp.ravel(leaf).astype(jnp.float32) for leaf in jax.tree.leaves(metrics)])

    def unpack(self, rows: Any) -> UpdateMetrics:
        """Return the metrics of rows [count, width], each [count, …]; NumPy's, so that nothing is compiled for it."""
        parts = np.split(rows, self._ends[:-1], axis=1)
        leaves = [
            part.reshape(-1, *leaf.shape).astype(leaf.dtype) for part, leaf in zip(parts, self._leaves, strict=True)
        ]
        metrics: UpdateMetrics = jax.tree.unflatten(self._structure, leaves)
        return metrics


class _Program(NamedTuple):
    """The compiled `run`, and how its rows are unpacked."""

    run: Any
    rows: _Rows
