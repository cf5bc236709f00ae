"""The loop: a run is a pure function of (spec, plan, seed), compiled some updates at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from rollshape.agents.distributions import Policy, policy_for
from rollshape.agents.networks import ActorCritic
from rollshape.envs.functional import Episode, FunctionalEnv, start
from rollshape.geometry.plan import Plan
from rollshape.training.layout import layout
from rollshape.training.normaliser import Moments, joined, moments_of, no_moments, scale
from rollshape.training.rollout import Rollout, collect
from rollshape.training.shards import APART, TOGETHER, Shards
from rollshape.training.spec import Spec
from rollshape.training.stagger import staggered
from rollshape.training.streams import stream_key
from rollshape.training.update import Learner, Report, learn, new_learner

PHASE_BINS = 16


class RunState(NamedTuple):
    """Everything that an identical continuation needs; random keys follow from the seed and `update`."""

    seed: Array  # carried, not compiled in: all seeds of a shape share one program
    update: Array
    learner: Learner
    episodes: Episode
    observations: Moments | None
    rewards: Moments | None
    discounted: Array  # running discounted return of each environment, for normalised rewards


class Metrics(NamedTuple):
    """What one update tells; sums over finished episodes come with their number."""

    episodes: Array
    return_sum: Array
    length_sum: Array
    policy_loss: Array
    value_loss: Array
    entropy: Array
    approx_kl: Array  # [epochs]
    clip_fraction: Array
    ratio_ess: Array  # [epochs]
    explained_variance: Array
    grad_norm: Array
    learning_rate: Array
    reset_phase_entropy: Array


LAYOUT = RunState(
    seed=TOGETHER, update=TOGETHER, learner=TOGETHER, episodes=APART, observations=TOGETHER, rewards=TOGETHER,
    discounted=APART,
)  # fmt: skip


class Trainer:
    """A spec made executable; its methods are pure in the state."""

    def __init__(self, spec: Spec, plan: Plan, env: FunctionalEnv, interval: int = 1) -> None:
        self.spec, self.plan, self.env, self.interval = spec, plan, env, interval
        self.policy: Policy = policy_for(env.action)
        self.layout = layout(spec, plan)
        self.shards = Shards(self.layout.num_shards)

    def compiled(self, state: RunState) -> Callable[[RunState, Array, Array], tuple[RunState, Metrics]]:
        """`run`, compiled ahead of time; the state that it is called with is used up."""
        arguments = (state, jnp.asarray(0, jnp.int32), jnp.asarray(True))
        compiled: Any = jax.jit(self.run, donate_argnums=0).lower(*arguments).compile()
        return compiled  # type: ignore[no-any-return]

    def start(self) -> RunState:
        """The state before the first update."""
        spec, plan, env = self.spec, self.plan, self.env
        model = ActorCritic(stream_key(spec.seed, "init"), env.observation, env.action, spec.hidden_sizes)
        episodes = jax.vmap(partial(start, env))(jax.random.split(stream_key(spec.seed, "env"), plan.num_envs))
        episodes = staggered(spec.stagger, env, episodes, stream_key(spec.seed, "env", 2**31 - 1))
        state = RunState(
            seed=jnp.asarray(spec.seed, jnp.uint32),
            update=jnp.zeros((), jnp.int32),
            learner=new_learner(spec, model),
            episodes=jax.tree.map(jnp.copy, episodes),  # a state that is its own observation must not be donated twice
            observations=no_moments(env.observation.shape) if spec.normalise_observations else None,
            rewards=no_moments(()) if spec.normalise_rewards else None,
            discounted=jnp.zeros(plan.num_envs),
        )
        return self.placed(state)

    def placed(self, state: RunState) -> RunState:
        """The state on the devices that compute it."""
        return self.shards.placed(state, LAYOUT)

    def run(self, state: RunState, count: Array, learning: Array) -> tuple[RunState, Metrics]:
        """The next `count` ≤ interval updates in one call: the state after them, and metrics [interval, …].

        How many are made is no part of the program, so that the last, shorter interval needs no compilation of its own.
        Without `learning` it only collects: what is thrown away then, but tells the seconds that collecting takes.
        """
        spread = self.shards.spread(self._updates, (LAYOUT, TOGETHER, TOGETHER), (LAYOUT, TOGETHER))
        return spread(state, count, learning)

    def _updates(self, state: RunState, count: Array, learning: Array) -> tuple[RunState, Metrics]:
        update = partial(self._update, learning)
        blank = _blank(jax.eval_shape(update, state)[1])

        def one(state: RunState, i: Array) -> tuple[RunState, Metrics]:
            made: tuple[RunState, Metrics] = jax.lax.cond(i < count, update, lambda state: (state, blank), state)
            return made

        return jax.lax.scan(one, state, jnp.arange(self.interval))

    def _update(self, learning: Array, state: RunState) -> tuple[RunState, Metrics]:
        policy_key, env_key = (stream_key(state.seed, stream, state.update + 1) for stream in ("policy", "env"))

        number = self.shards.number()
        keys = (jax.random.fold_in(policy_key, number), jax.random.fold_in(env_key, number))
        episodes, rollout = collect(
            self.env, self.policy, state.learner.model, state.observations, state.episodes, keys, self.plan.num_steps
        )
        moved = state._replace(episodes=episodes)
        blank = _blank(jax.eval_shape(self.absorbed, moved, rollout)[1])
        made: tuple[RunState, Metrics] = jax.lax.cond(
            learning, self.absorbed, lambda state, rollout: (state, _reading(blank, rollout)), moved, rollout
        )
        return made

    def absorbed(self, state: RunState, rollout: Rollout) -> tuple[RunState, Metrics]:
        """What a shard's rollout [T, N/S, …] teaches: the state after the update, and its metrics."""
        spec, shards = self.spec, self.shards
        learned_from, rewards, discounted = self._scaled(state, rollout)
        rate = self._rate(state)
        key = stream_key(state.seed, "shuffle", state.update + 1)
        learner, reports, returns = learn(
            spec, self.plan, self.layout, shards, self.policy, state.learner, learned_from, rate, key
        )
        observations = state.observations
        if observations is not None:
            observations = joined(observations, moments_of(shards, rollout.raw_observation, (0, 1), rollout.valid))
        following = RunState(state.seed, state.update + 1, learner, state.episodes, observations, rewards, discounted)
        return following, self._metrics(rollout, reports, returns, rate if spec.adaptive_kl is None else learner.rate)

    def _rate(self, state: RunState) -> Array:
        if self.spec.adaptive_kl is not None:
            return state.learner.rate
        left = 1.0 - state.update / (self.plan.num_updates or 1) if self.spec.anneal_lr else 1.0
        return jnp.asarray(self.spec.learning_rate * left, jnp.float32)

    def _scaled(self, state: RunState, rollout: Rollout) -> tuple[Rollout, Moments | None, Array]:
        """Rewards divided by the deviation of the discounted return, as far as it is known."""
        if state.rewards is None:
            return rollout, None, state.discounted

        def along(total: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
            total = self.spec.gamma * total + step[0]
            return jnp.where(step[1], 0.0, total), total

        ended = rollout.terminated | rollout.truncated
        discounted, totals = jax.lax.scan(along, state.discounted, (rollout.reward, ended))
        moments = joined(state.rewards, moments_of(self.shards, totals, (0, 1), rollout.valid))
        return rollout._replace(reward=scale(moments, rollout.reward)), moments, discounted

    def _metrics(self, rollout: Rollout, reports: Report, returns: Array, rate: Array) -> Metrics:
        sums = self.shards.total(self._sums(rollout))
        spread, unexplained = (
            moments_of(self.shards, x, (0, 1), rollout.valid).variance for x in (returns, returns - rollout.value)
        )
        return Metrics(
            episodes=sums[0],
            return_sum=sums[1],
            length_sum=sums[2],
            policy_loss=reports.policy_loss.mean(),
            value_loss=reports.value_loss.mean(),
            entropy=reports.entropy.mean(),
            approx_kl=reports.approx_kl.mean(1),
            clip_fraction=reports.clip_fraction.mean(),
            ratio_ess=reports.ratio_ess.mean(1),
            explained_variance=jnp.where(spread > 0, 1.0 - unexplained / spread, jnp.nan),
            grad_norm=reports.grad_norm.mean(),
            learning_rate=rate,
            reset_phase_entropy=entropy_of(sums[3:]),
        )

    def _sums(self, rollout: Rollout) -> Array:
        """Of a shard: number, returns and lengths of the episodes that ended, and the histogram of phases."""
        ended = rollout.terminated | rollout.truncated
        valid = jnp.ones_like(ended) if rollout.valid is None else rollout.valid
        phase = jnp.clip(rollout.steps * PHASE_BINS // self.env.horizon, 0, PHASE_BINS - 1)
        phases = jnp.zeros(PHASE_BINS).at[phase.reshape(-1)].add(valid.reshape(-1).astype(jnp.float32))
        finished = (ended, jnp.where(ended, rollout.episode_return, 0.0), jnp.where(ended, rollout.episode_length, 0))
        return jnp.concatenate([jnp.stack([x.sum().astype(jnp.float32) for x in finished]), phases])


def entropy_of(counts: Array) -> Array:
    """Entropy of a histogram, 1 when all its bins are alike and 0 when there is one.

    Of episode steps in a batch it is the reset-phase entropy: phases are equal parts of the environment's horizon.
    """
    share = counts / jnp.maximum(counts.sum(), 1.0)
    return -jnp.sum(jnp.where(share > 0, share * jnp.log(jnp.maximum(share, 1e-12)), 0.0)) / jnp.log(counts.size)


def _blank(like: Any) -> Any:
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), like)


def _reading(metrics: Metrics, rollout: Rollout) -> Metrics:
    """Blank metrics that depend on the whole rollout, so that collecting it is not optimised away."""
    read = sum((leaf.sum().astype(jnp.float32) for leaf in jax.tree.leaves(rollout)), jnp.zeros(()))
    return metrics._replace(episodes=read)
