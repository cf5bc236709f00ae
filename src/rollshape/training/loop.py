"""The loop: a run is a pure function of (spec, plan, seed), compiled some updates at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from rollshape.agents.distributions import Policy, policy_for
from rollshape.agents.losses import explained_variance
from rollshape.agents.networks import ActorCritic
from rollshape.envs.functional import Episode, FunctionalEnv, start
from rollshape.geometry.plan import Plan
from rollshape.training.normaliser import Moments, no_moments, scale, with_batch
from rollshape.training.rollout import Rollout, collect
from rollshape.training.spec import Spec
from rollshape.training.stagger import staggered
from rollshape.training.streams import stream_key
from rollshape.training.update import Learner, adam, learn

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


class Trainer:
    """A spec made executable; its methods are pure in the state."""

    def __init__(self, spec: Spec, plan: Plan, env: FunctionalEnv, interval: int = 1) -> None:
        self.spec, self.plan, self.env, self.interval = spec, plan, env, interval
        self.policy: Policy = policy_for(env.action)

    def compiled(self, state: RunState) -> Callable[[RunState, Array], tuple[RunState, Metrics]]:
        """`run`, compiled ahead of time; the state that it is called with is used up."""
        count = jnp.asarray(0, jnp.int32)
        compiled: Any = jax.jit(self.run, donate_argnums=0).lower(state, count).compile()
        return compiled  # type: ignore[no-any-return]

    def start(self) -> RunState:
        """The state before the first update."""
        spec, plan, env = self.spec, self.plan, self.env
        model = ActorCritic(stream_key(spec.seed, "init"), env.observation, env.action, spec.hidden_sizes)
        learner = Learner(
            model,
            adam(spec).init(eqx.filter(model, eqx.is_array)),
            jnp.asarray(spec.learning_rate),
            jnp.zeros((), bool),
        )
        episodes = jax.vmap(partial(start, env))(jax.random.split(stream_key(spec.seed, "env"), plan.num_envs))
        episodes = staggered(spec.stagger, env, episodes, stream_key(spec.seed, "env", 2**31 - 1))
        return RunState(
            seed=jnp.asarray(spec.seed, jnp.uint32),
            update=jnp.zeros((), jnp.int32),
            learner=learner,
            episodes=jax.tree.map(jnp.copy, episodes),  # a state that is its own observation must not be donated twice
            observations=no_moments(env.observation.shape) if spec.normalise_observations else None,
            rewards=no_moments(()) if spec.normalise_rewards else None,
            discounted=jnp.zeros(plan.num_envs),
        )

    def run(self, state: RunState, count: Array) -> tuple[RunState, Metrics]:
        """The next `count` ≤ interval updates in one call: the state after them, and metrics [interval, …].

        How many are made is no part of the program, so that the last, shorter interval needs no compilation of its own.
        """
        blank = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(self._update, state)[1])

        def one(state: RunState, i: Array) -> tuple[RunState, Metrics]:
            made: tuple[RunState, Metrics] = jax.lax.cond(i < count, self._update, lambda state: (state, blank), state)
            return made

        return jax.lax.scan(one, state, jnp.arange(self.interval))

    def _update(self, state: RunState) -> tuple[RunState, Metrics]:
        spec, plan = self.spec, self.plan
        policy_key, env_key, shuffle_key = (
            stream_key(state.seed, stream, state.update + 1) for stream in ("policy", "env", "shuffle")
        )
        episodes, rollout = collect(
            self.env, self.policy, state.learner.model, state.observations, state.episodes, (policy_key, env_key),
            plan.num_steps,
        )  # fmt: skip
        learned_from, rewards, discounted = self._scaled(state, rollout)
        rate = self._rate(state)
        learner, reports, returns = learn(spec, plan, self.policy, state.learner, learned_from, rate, shuffle_key)
        observations = state.observations and with_batch(state.observations, rollout.raw_observation)
        following = RunState(state.seed, state.update + 1, learner, episodes, observations, rewards, discounted)
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
        moments = with_batch(state.rewards, totals)
        return rollout._replace(reward=scale(moments, rollout.reward)), moments, discounted

    def _metrics(self, rollout: Rollout, reports: Any, returns: Array, rate: Array) -> Metrics:
        ended = rollout.terminated | rollout.truncated
        return Metrics(
            episodes=ended.sum(),
            return_sum=jnp.where(ended, rollout.episode_return, 0.0).sum(),
            length_sum=jnp.where(ended, rollout.episode_length, 0).sum(),
            policy_loss=reports.policy_loss.mean(),
            value_loss=reports.value_loss.mean(),
            entropy=reports.entropy.mean(),
            approx_kl=reports.approx_kl.mean(1),
            clip_fraction=reports.clip_fraction.mean(),
            ratio_ess=reports.ratio_ess.mean(1),
            explained_variance=explained_variance(rollout.value, returns),
            grad_norm=reports.grad_norm.mean(),
            learning_rate=rate,
            reset_phase_entropy=phase_entropy(rollout.steps, self.env.horizon),
        )


def phase_entropy(steps: Array, horizon: int) -> Array:
    """Entropy of the histogram of episode steps in a batch, 1 when all phases are alike and 0 when there is one.

    Phases are 16 equal parts of the environment's horizon.
    """
    phase = jnp.clip(steps * PHASE_BINS // horizon, 0, PHASE_BINS - 1)
    share = jnp.zeros(PHASE_BINS).at[phase.reshape(-1)].add(1.0) / steps.size
    return -jnp.sum(jnp.where(share > 0, share * jnp.log(jnp.maximum(share, 1e-12)), 0.0)) / jnp.log(PHASE_BINS)
