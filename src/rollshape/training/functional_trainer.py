"""Training in functional environments: collecting and learning are one program, compiled some updates at a time."""

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

from rollshape.agents.policy import Policy
from rollshape.envs.functional import FunctionalEnv, start
from rollshape.geometry.plan import Plan
from rollshape.training.evaluate import Score, evaluate
from rollshape.training.loop import LAYOUT, Metrics, RunState, Times, Trainer, on_one_device
from rollshape.training.release import release
from rollshape.training.rollout import Rollout, collect
from rollshape.training.shards import TOGETHER
from rollshape.training.spec import Spec
from rollshape.training.stagger import staggered
from rollshape.training.streams import stream_key

TIMED = 16  # one collection in so many updates is repeated to tell how long it takes
PROGRAMS = 4  # that a process keeps, the newest

Program = Callable[[RunState, Array, Array], tuple[RunState, Metrics]]
_programs: dict[tuple[Hashable, ...], Program] = {}


class FunctionalTrainer(Trainer):
    """Its `run` is pure in the state."""

    env: FunctionalEnv

    def __init__(self, spec: Spec, plan: Plan, env: FunctionalEnv, interval: int = 1) -> None:
        super().__init__(spec, plan, env, interval)
        self._run: Program | None = None
        self._collecting = 0.0  # seconds that a collection took when it was last timed
        self._due = 0  # updates until it is timed again

    def start(self) -> RunState:
        seed, env = self.spec.seed, self.env
        episodes = jax.vmap(partial(start, env))(jax.random.split(stream_key(seed, "env"), self.plan.num_envs))
        episodes = staggered(self.spec.stagger, env, episodes, stream_key(seed, "env", 2**31 - 1))
        return self._begin(jax.tree.map(jnp.copy, episodes))  # a state that is its own observation is donated once

    def compile(self, state: RunState) -> None:
        """Runs that differ only in their seed share one program: the seed is a part of the state."""
        key = self.env, repr(replace(self.spec, seed=0)), repr(self.plan), self.interval
        if key not in _programs:
            arguments = (state, jnp.asarray(0, jnp.int32), jnp.asarray(True))
            made: Any = jax.jit(self.run, donate_argnums=0).lower(*arguments).compile()
            while len(_programs) >= PROGRAMS:
                del _programs[next(iter(_programs))]
            _programs[key] = made
            release()
        self._run = _programs[key]

    def advance(self, state: RunState, count: int) -> tuple[RunState, Metrics, Times]:
        """One call of the program. Collecting is timed apart by a repeat of it, in one of some updates."""
        if self._run is None:
            self.compile(state)
        assert self._run is not None
        if self._due <= 0:
            self._due, copy = TIMED, jax.tree.map(jnp.copy, state)
            began = time.perf_counter()
            np.asarray(self._run(copy, jnp.asarray(1, jnp.int32), jnp.asarray(False))[1].episodes)  # waits
            self._collecting = time.perf_counter() - began
        self._due -= count
        began = time.perf_counter()
        state, metrics = self._run(state, jnp.asarray(count, jnp.int32), jnp.asarray(True))
        metrics = jax.tree.map(lambda x: np.asarray(x)[:count], metrics)  # waits for the result
        seconds = time.perf_counter() - began
        rollout = min(seconds, count * self._collecting)
        return state, metrics, Times(rollout, seconds - rollout)

    def score(self, state: RunState, seed: int, episodes: int) -> Score:
        model, moments = on_one_device(state)
        key = stream_key(seed, "eval", int(state.update))
        return evaluate(self.env, self.policy, model, moments, key, episodes)

    def run(self, state: RunState, count: Array, learning: Array) -> tuple[RunState, Metrics]:
        """The next `count` ≤ interval updates in one call: the state after them, and metrics [interval, …].

        How many are made is no part of the program, so that the last, shorter interval needs no compilation of its own.
        Without `learning` it only collects: all is thrown away then, but it tells the seconds that collecting takes.
        """
        spread = self.shards.spread(self._updates, (LAYOUT, TOGETHER, TOGETHER), (LAYOUT, TOGETHER))
        made: tuple[RunState, Metrics] = spread(state, count, learning)
        return made

    def _updates(self, state: RunState, count: Array, learning: Array) -> tuple[RunState, Metrics]:
        update = partial(self._update, learning)
        blank = _blank(jax.eval_shape(update, state, learning)[1])

        def one(state: RunState, i: Array) -> tuple[RunState, Metrics]:
            made: tuple[RunState, Metrics] = jax.lax.cond(
                i < count, update, lambda state, _: (state, blank), state, i == count - 1
            )
            return made

        return jax.lax.scan(one, state, jnp.arange(self.interval))

    def _update(self, learning: Array, state: RunState, watched: Array) -> tuple[RunState, Metrics]:
        number = self.shards.number()
        policy_key, env_key = (
            jax.random.fold_in(stream_key(state.seed, stream, state.update + 1), number) for stream in ("policy", "env")
        )
        episodes, rollout = collect(
            self.env, Policy(state.learner.model, state.observations, self.policy), state.episodes,
            (policy_key, env_key), self.plan.num_steps,
        )  # fmt: skip
        moved = state._replace(episodes=episodes)
        blank = _blank(jax.eval_shape(self.absorbed, moved, rollout, watched)[1])
        made: tuple[RunState, Metrics] = jax.lax.cond(
            learning, self.absorbed, lambda state, rollout, _: (state, _reading(blank, rollout)), moved, rollout,
            watched,
        )  # fmt: skip
        return made


def _blank(like: Any) -> Any:
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), like)


def _reading(metrics: Metrics, rollout: Rollout) -> Metrics:
    """Blank metrics that depend on the whole rollout, so that collecting it is not optimised away."""
    read = sum((leaf.sum().astype(jnp.float32) for leaf in jax.tree.leaves(rollout)), jnp.zeros(()))
    return metrics._replace(episodes=read)
