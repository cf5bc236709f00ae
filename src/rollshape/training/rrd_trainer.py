"""Training from a replay, SAC and RRD on it: collect `steps_per_iteration` steps, then make `train_batches` gradient
steps in one compiled call.

The replay is part of the state, and so of every checkpoint: without it a resumed run would not be the same run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rollshape.agents.sac import Network, SoftPolicy, new_agent, random_actions, soft_policy
from rollshape.envs.functional import Episode, FunctionalEnv, step_and_reset
from rollshape.envs.host import HostEnv, Snapshot, Values
from rollshape.errors import RunError
from rollshape.geometry.plan import Plan
from rollshape.training.functional_trainer import TIMED, FunctionalTrainer
from rollshape.training.host_trainer import HostTrainer
from rollshape.training.layout import Layout
from rollshape.training.loop import Metrics, ReplayMetrics, RunState, Times, Trainer, entropy_of
from rollshape.training.monitor import Signals
from rollshape.training.release import release
from rollshape.training.replay import Chunk, cut_off, finished, new_replay, stored, too_long, transitions
from rollshape.training.replay_update import StepReport, learn, new_replay_learner
from rollshape.training.shards import Shards
from rollshape.training.spec import Spec
from rollshape.training.streams import stream_key


class ReplayTrainer(Trainer):
    """What both kinds of environments share: the state, and what a chunk of steps teaches."""

    losses = ("policy_loss", "q_loss", "grad_norm")

    def __init__(self, spec: Spec, plan: Plan, env: Any, interval: int = 1) -> None:
        assert plan.replay is not None
        super().__init__(spec, plan, env, interval)
        self.soft: SoftPolicy = soft_policy(env.action)
        self.policy = self.soft
        self.layout, self.shards = Layout(1, plan.minibatch_size), Shards(1)
        self.warm_up = plan.replay.learning_starts // plan.rollout_size  # iterations that only collect

    def _begin(self, episodes: Any) -> RunState:
        spec, env = self.spec, self.env
        key = stream_key(spec.seed, "init")
        fresh = partial(
            new_agent, observation=env.observation, action=env.action, hidden=spec.hidden_sizes,
            reward=spec.algo == "rrd",
        )  # fmt: skip
        agent = jax.jit(fresh)(key)
        return self.placed(
            RunState(
                seed=jnp.asarray(spec.seed, jnp.uint32),
                update=jnp.zeros((), jnp.int32),
                learner=new_replay_learner(spec, agent),
                episodes=episodes,
                observations=None,
                rewards=None,
                discounted=jnp.zeros(self.plan.num_envs),
                replay=new_replay(self.plan, env),
            )
        )

    def noise(self, seed: Array, update: Array) -> Array:
        """The policy's, for an iteration: [T, N, …]."""
        key = stream_key(seed, "policy", update + 1)
        return self.soft.noise(key, (self.plan.num_steps, self.plan.num_envs))

    def acted(self, actor: Network, update: Array, seen: Array, noise: Array) -> Array:
        """Actions for observations [N, …]: at random while it warms up, then the policy's."""
        chosen = self.soft.choose(actor(seen)[0], noise)
        return jnp.where(update < self.warm_up, random_actions(self.soft, noise), chosen)

    def learned(self, state: RunState, chunk: Chunk) -> tuple[RunState, Metrics]:
        """The state behind an iteration that collected the chunk, and its metrics."""
        replay, number = stored(state.replay, chunk), state.update + 1
        enough = finished(replay) if self.spec.algo == "rrd" else transitions(replay)
        key = stream_key(state.seed, "shuffle", number)
        ready = (number > self.warm_up) & enough
        nothing = StepReport(*[jnp.full((), jnp.nan)] * len(StepReport._fields))
        learner, report = jax.lax.cond(
            ready,
            lambda learner: learn(self.spec, self.plan, self.soft, learner, replay, key),
            lambda learner: (learner, nothing),
            state.learner,
        )
        steps = jnp.where(ready, self.plan.num_minibatches, 0)
        following = state._replace(update=number, learner=learner, replay=replay)
        return following, self._told(chunk, report, steps)

    def _told(self, chunk: Any, report: StepReport, steps: Array) -> Metrics:
        sums, absent = self._sums(chunk), jnp.full((), jnp.nan)
        return Metrics(
            episodes=sums[0],
            return_sum=sums[1],
            length_sum=sums[2],
            policy_loss=report.policy_loss,
            value_loss=absent,
            entropy=report.entropy,
            approx_kl=absent[None],
            clip_fraction=absent,
            ratio_ess=absent[None],
            explained_variance=absent,
            grad_norm=report.grad_norm,
            learning_rate=jnp.asarray(self.spec.learning_rate),
            reset_phase_entropy=entropy_of(sums[3:-1]),
            unsound=sums[-1],
            **Signals(absent, absent, absent)._asdict(),
            replay=ReplayMetrics(
                steps, report.q_loss, report.temperature, report.reward_loss, report.reward_correlation
            ),
        )

    def check(self, state: RunState, metrics: Metrics) -> None:
        """An episode that outgrew the replay, or a run at whose end nothing was learned."""
        if self.spec.algo != "rrd":
            return
        assert self.plan.replay is not None
        if bool(too_long(state.replay)):
            raise RunError(
                "replay-length",
                f"An episode of {self.spec.env} is longer than the {self.plan.replay.slots_per_env:,} places that the "
                "replay has for its environment: RRD needs it as a whole. The checkpoint before is kept.",
                "Use a larger --buffer-size or fewer --num-envs.",
            )
        made = metrics.replay is not None and bool(metrics.replay.gradient_steps.any())
        if int(state.update) == self.plan.num_updates and not made and not bool(finished(state.replay)):
            raise RunError(
                "zero-updates",
                f"No episode of {self.spec.env} ended within {self.plan.actual_timesteps:,} timesteps, and RRD learns "
                "from finished ones: there was no gradient step.",
                "Use a larger --total-timesteps, or fewer --num-envs.",
            )


class FunctionalReplayTrainer(ReplayTrainer, FunctionalTrainer):
    """Collecting, storing and learning are one program, some iterations a call; the replay is changed in place."""

    env: FunctionalEnv

    def __init__(self, spec: Spec, plan: Plan, env: FunctionalEnv, interval: int = 1) -> None:
        super().__init__(spec, plan, env, interval)
        self._program: Callable[[RunState, Array], tuple[RunState, Metrics]] | None = None
        self._collect_alone = jax.jit(lambda state: self.collected(state)[1].reward.sum())

    def compile(self, state: RunState) -> None:
        compiled: Any = jax.jit(self.iterations, donate_argnums=0).lower(state, jnp.asarray(0, jnp.int32)).compile()
        self._program = compiled
        release()

    def advance(self, state: RunState, count: int) -> tuple[RunState, Metrics, Times]:
        """One call of the program. Collecting is timed apart by a repeat of it, in one of some iterations."""
        if self._program is None:
            self.compile(state)
        assert self._program is not None
        if self._due <= 0:
            self._due, bare = TIMED, state._replace(replay=None)
            self._collect_alone(bare).block_until_ready()
            began = time.perf_counter()
            self._collect_alone(bare).block_until_ready()
            self._collecting = time.perf_counter() - began
        self._due -= count
        began = time.perf_counter()
        state, metrics = self._program(state, jnp.asarray(count, jnp.int32))
        metrics = jax.tree.map(lambda x: np.asarray(x)[:count], metrics)  # waits for the result
        seconds = time.perf_counter() - began
        rollout = min(seconds, count * self._collecting)
        return state, metrics, Times(rollout, seconds - rollout)

    def iterations(self, state: RunState, count: Array) -> tuple[RunState, Metrics]:
        """The next `count` ≤ interval iterations: the state after them, and metrics [interval, …].

        A loop of as many turns, and not a branch in each: a branch would copy the replay.
        """

        def one(i: Array, carry: tuple[RunState, Metrics]) -> tuple[RunState, Metrics]:
            state, told = carry
            episodes, chunk = self.collected(state)
            state, metrics = self.learned(state._replace(episodes=episodes), chunk)
            return state, jax.tree.map(lambda all_, one: all_.at[i].set(one), told, metrics)

        like = jax.eval_shape(lambda state: self.learned(state, self.collected(state)[1])[1], state)
        blank = jax.tree.map(lambda leaf: jnp.zeros((self.interval, *leaf.shape), leaf.dtype), like)
        made: tuple[RunState, Metrics] = jax.lax.fori_loop(0, count, one, (state, blank))
        return made

    def collected(self, state: RunState) -> tuple[Episode, Chunk]:
        """T steps of all environments."""
        model: Any = state.learner.model
        env, steps, num_envs = self.env, self.plan.num_steps, self.plan.num_envs
        env_key = stream_key(state.seed, "env", state.update + 1)

        def step(episodes: Episode, chance: tuple[Array, Array]) -> tuple[Episode, Chunk]:
            action = self.acted(model.actor, state.update, episodes.observation, chance[0])
            following, outcome = jax.vmap(step_and_reset, (None, 0, 0, 0))(
                env, chance[1], episodes, env.clip_action(action)
            )
            return following, Chunk(
                episodes.observation, action, outcome.true_reward, outcome.terminated, outcome.truncated,
                outcome.final_observation, episodes.steps, outcome.episode_return, outcome.episode_length,
                jnp.ones_like(outcome.terminated),
            )  # fmt: skip

        chance = (self.noise(state.seed, state.update), jax.random.split(env_key, (steps, num_envs)))
        made: tuple[Episode, Chunk] = jax.lax.scan(step, state.episodes, chance)
        return made


class HostReplayTrainer(ReplayTrainer, HostTrainer):
    """The environments step on the host; an iteration's chunk crosses to the program that stores it and learns."""

    env: HostEnv

    def __init__(self, spec: Spec, plan: Plan, env: HostEnv, interval: int = 1) -> None:
        super().__init__(spec, plan, env, interval)
        self._noise = jax.jit(self.noise)
        self._act_on = jax.jit(lambda actor, update, seen, noise, t: self.acted(actor, update, seen, noise[t]))
        self._learn = jax.jit(self.learned, donate_argnums=0)
        self._broken = False  # running episodes could not be restored

    def restore(self, snapshot: Snapshot | None) -> bool:
        whole = super().restore(snapshot)
        self._broken = not whole
        return whole

    def compile(self, state: RunState) -> None:
        self._learn = self._learn.lower(state, self._blank_chunk()).compile()
        release()

    def advance(self, state: RunState, count: int) -> tuple[RunState, Metrics, Times]:
        if not self._ready:
            self.restore(None)
        if self._broken:
            self._broken, cut = False, jax.jit(cut_off, donate_argnums=0)(state.replay)
            state = state._replace(replay=cut, episodes=jnp.zeros_like(state.episodes))
        rows, rollout_s, update_s = [], 0.0, 0.0
        for _ in range(count):
            began = time.perf_counter()
            chunk, totals = self._chunk(state)
            collected = time.perf_counter()
            state, metrics = self._learn(state._replace(episodes=jnp.asarray(totals)), chunk)
            rows.append(jax.device_get(metrics))  # waits for the result
            rollout_s, update_s = rollout_s + collected - began, update_s + time.perf_counter() - collected
        stacked: Metrics = jax.tree.map(lambda *parts: np.stack(parts), *rows)
        return state, stacked, Times(rollout_s, update_s)

    def _chunk(self, state: RunState) -> tuple[Chunk, Values]:
        """(T steps of all environments as NumPy arrays, returns so far of the running episodes)."""
        env, model = self.env, state.learner.model
        actor: Any = model.actor
        noise, chunk = self._noise(state.seed, state.update), self._blank_chunk()
        totals = np.asarray(state.episodes).copy()
        for t in range(self.plan.num_steps):
            chunk.observation[t], chunk.steps[t] = env.current, env.elapsed
            action = np.asarray(self._act_on(actor, state.update, env.current, noise, t))
            outcome = env.step(env.clip_action(action))
            totals += outcome.true_reward
            chunk.action[t], chunk.reward[t], chunk.valid[t] = action, outcome.true_reward, outcome.valid
            chunk.terminated[t], chunk.truncated[t] = outcome.terminated, outcome.truncated
            chunk.final_observation[t] = outcome.final_observation
            chunk.episode_return[t], chunk.episode_length[t] = totals, chunk.steps[t] + 1
            totals[outcome.terminated | outcome.truncated] = 0.0
        return chunk, totals

    def _blank_chunk(self) -> Any:
        """A chunk to be filled."""
        seen = self.env.observation
        steps, envs = self.plan.num_steps, self.plan.num_envs
        acted = jax.eval_shape(lambda: self.soft.mode(jnp.zeros((envs, self.soft.num_outputs))))
        blank: Any = Chunk

        def column(dtype: Any, shape: tuple[int, ...] = ()) -> Values:
            return np.zeros((steps, envs, *shape), dtype)

        return blank(
            observation=column(seen.dtype, seen.shape), action=column(acted.dtype, acted.shape[1:]),
            reward=column(np.float32), terminated=column(bool), truncated=column(bool),
            final_observation=column(seen.dtype, seen.shape), steps=column(np.int32),
            episode_return=column(np.float32), episode_length=column(np.int32), valid=column(bool),
        )  # fmt: skip
