"""What an update does with a rollout, whatever collected it; and what a run carries from one to the next."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from rollshape.agents.distributions import ActionDistribution, distribution_for
from rollshape.agents.networks import ActorCritic
from rollshape.agents.normalizer import Moments, compute_moments, empty_moments, merge_moments, scale_reward
from rollshape.envs.functional import FunctionalEnv
from rollshape.envs.host import HostEnv, Snapshot
from rollshape.geometry.plan import Plan
from rollshape.training.evaluate import Score
from rollshape.training.layout import layout
from rollshape.training.monitor import Signals, no_signals, sampling, signals_of
from rollshape.training.rollout import Rollout
from rollshape.training.shards import APART, TOGETHER, Shards
from rollshape.training.spec import Spec
from rollshape.training.streams import stream_key
from rollshape.training.update import Learner, Report, learn, new_learner

PHASE_BINS = 16


class RunState(NamedTuple):
    """Everything that an identical continuation needs; random keys follow from the seed and `update`."""

    seed: Array  # carried, not compiled in: all seeds of a shape share one program
    update: Array
    learner: Learner
    episodes: Any  # functional environments: the running Episodes; host: the running episodes' returns so far
    observations: Moments | None
    rewards: Moments | None
    discounted: Array  # running discounted return of each environment, for normalised rewards
    replay: Any = None  # of RRD and SAC


class ReplayMetrics(NamedTuple):
    """What learning from a replay tells beside the rest; means over an iteration's gradient steps."""

    gradient_steps: Array  # made in the iteration: none while it warms up
    q_loss: Array
    temperature: Array
    reward_loss: Array
    reward_correlation: Array


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
    unsound: Array  # rewards and observations that are not finite
    noise_scale: Array  # this and the next two: NaN but where monitored
    effective_sample_size: Array
    gradient_snr: Array
    replay: ReplayMetrics | None = None


class Times(NamedTuple):
    """Seconds of an interval."""

    rollout: float
    update: float


_layout: Any = RunState
LAYOUT: RunState = _layout(
    seed=TOGETHER, update=TOGETHER, learner=TOGETHER, episodes=APART, observations=TOGETHER, rewards=TOGETHER,
    discounted=APART, replay=TOGETHER,
)  # fmt: skip


# Weights are drawn by one program: by themselves its operations are dozens, which a cold start would compile.
_new_model: Any = jax.jit(ActorCritic, static_argnums=(1, 2, 3))


class Trainer(ABC):
    """A spec made executable: a run is a function of (spec, plan, seed)."""

    losses = ("policy_loss", "value_loss", "grad_norm")  # that must stay finite

    def __init__(self, spec: Spec, plan: Plan, env: FunctionalEnv | HostEnv, interval: int) -> None:
        self.spec, self.plan, self.env, self.interval = spec, plan, env, interval
        self.policy: ActionDistribution = distribution_for(env.action)
        self.layout = layout(spec, plan, env.observation, self.policy.num_outputs)
        self.shards = Shards(self.layout.num_shards)
        self.monitored = sampling(plan, self.layout.num_shards, interval) if spec.monitor_gradients else None

    @abstractmethod
    def start(self) -> RunState:
        """The state before the first update."""

    @abstractmethod
    def compile(self, state: RunState) -> None:
        """Make ready for `advance`, ahead of time."""

    @abstractmethod
    def advance(self, state: RunState, count: int) -> tuple[RunState, Metrics, Times]:
        """The next `count` ≤ interval updates: the state after them, metrics [count, …], seconds. Uses the state up."""

    @abstractmethod
    def score(self, state: RunState, seed: int, episodes: int) -> Score:
        """The policy's score on fresh full-length episodes of the eval stream."""

    def check(self, state: RunState, metrics: Metrics) -> None:  # noqa: B027
        """Raise a RunError where what was just done makes it senseless to go on."""

    def snapshot(self) -> Snapshot | None:
        """What a resume needs beside the state."""
        return None

    def restore(self, snapshot: Snapshot | None) -> bool:  # noqa: ARG002
        """Go on from a snapshot; False where episodes had to start afresh."""
        return True

    def success_rate(self) -> float | None:
        """Share of successes among the episodes that ended since the last call, where the environment tells."""
        return self.env.success_rate() if isinstance(self.env, HostEnv) else None

    def close(self) -> None:  # noqa: B027
        """Give back what environments hold."""

    def placed(self, state: RunState) -> RunState:
        """The state on the devices that compute it."""
        placed: RunState = self.shards.placed(state, LAYOUT)
        return placed

    def _begin(self, episodes: Any) -> RunState:
        spec, env = self.spec, self.env
        model = _new_model(stream_key(spec.seed, "init"), env.observation, env.action, spec.hidden_sizes)
        return self.placed(
            RunState(
                seed=jnp.asarray(spec.seed, jnp.uint32),
                update=jnp.zeros((), jnp.int32),
                learner=new_learner(spec, model),
                episodes=episodes,
                observations=empty_moments(env.observation.shape) if spec.normalize_observations else None,
                rewards=empty_moments(()) if spec.normalize_rewards else None,
                discounted=jnp.zeros(self.plan.num_envs),
            )
        )

    def absorbed(self, state: RunState, rollout: Rollout, watched: Array) -> tuple[RunState, Metrics]:
        """What a shard's rollout [T, N/S, …] teaches: the state after the update, and its metrics.

        Where it is `watched` and the spec asks for it, also what its gradient is worth (see `monitor`).
        """
        spec, shards = self.spec, self.shards
        learned_from, rewards, discounted = self._scaled(state, rollout)
        signals = self._signals(state, learned_from, watched)
        rate = self._rate(state)
        key = stream_key(state.seed, "shuffle", state.update + 1)
        learner, reports, returns = learn(
            spec, self.plan, self.layout, shards, self.policy, state.learner, learned_from, rate, key
        )
        observations = state.observations
        if observations is not None and rollout.raw_observation is not None:
            observations = merge_moments(
                observations, compute_moments(shards.total, rollout.raw_observation, (0, 1), rollout.valid)
            )
        following = RunState(state.seed, state.update + 1, learner, state.episodes, observations, rewards, discounted)
        rate = rate if spec.adaptive_kl is None else learner.rate
        return following, self._metrics(rollout, reports, returns, rate, signals)

    def _signals(self, state: RunState, rollout: Rollout, watched: Array) -> Signals:
        if self.monitored is None:
            return no_signals()
        key = jax.random.fold_in(stream_key(state.seed, "monitor", state.update + 1), self.shards.number())
        measure = partial(signals_of, self.spec, self.plan, self.monitored, self.shards, self.policy)
        told: Signals = jax.lax.cond(
            watched, measure, lambda *_: no_signals(), state.learner.model, rollout, key
        )  # a program of its own within the program: the update is compiled as it is without it
        return told

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
        moments = merge_moments(state.rewards, compute_moments(self.shards.total, totals, (0, 1), rollout.valid))
        return rollout._replace(reward=scale_reward(moments, rollout.reward)), moments, discounted

    def _metrics(self, rollout: Rollout, reports: Report, returns: Array, rate: Array, signals: Signals) -> Metrics:
        sums = self.shards.total(self._sums(rollout))
        spread, unexplained = (
            compute_moments(self.shards.total, x, (0, 1), rollout.valid).variance
            for x in (returns, returns - rollout.value)
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
            reset_phase_entropy=entropy_of(sums[3:-1]),
            unsound=sums[-1],
            **signals._asdict(),
        )

    def _sums(self, rollout: Rollout) -> Array:
        """Of a shard: number, returns, lengths of the episodes that ended; histogram of phases; what is not finite."""
        ended = rollout.terminated | rollout.truncated
        valid = jnp.ones_like(ended) if rollout.valid is None else rollout.valid
        phases = phase_histogram(rollout.steps, self.env.horizon, valid)
        finished = (ended, jnp.where(ended, rollout.episode_return, 0.0), jnp.where(ended, rollout.episode_length, 0))
        unsound = (~jnp.isfinite(rollout.reward)).sum() + (~jnp.isfinite(rollout.observation)).sum()
        return jnp.array([*(x.sum().astype(jnp.float32) for x in finished), *phases, unsound])


def on_one_device(state: RunState) -> tuple[ActorCritic, Moments | None]:
    """The policy with its normaliser, to be used outside the shards."""
    policy: tuple[ActorCritic, Moments | None] = jax.device_put(
        (state.learner.model, state.observations), jax.local_devices()[0]
    )
    return policy


def phase_histogram(steps: Array, horizon: int, counted: Array) -> Array:
    """How many of the counted steps fall into each of 16 equal parts of the environment's horizon."""
    phase = jnp.clip(steps * PHASE_BINS // horizon, 0, PHASE_BINS - 1)
    return jnp.zeros(PHASE_BINS).at[phase.reshape(-1)].add(counted.reshape(-1).astype(jnp.float32))


def entropy_of(counts: Array) -> Array:
    """Entropy of a histogram, 1 when all its bins are alike and 0 when there is one."""
    share = counts / jnp.maximum(counts.sum(), 1.0)
    return -jnp.sum(jnp.where(share > 0, share * jnp.log(jnp.maximum(share, 1e-12)), 0.0)) / jnp.log(counts.size)
