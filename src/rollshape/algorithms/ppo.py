"""Proximal policy optimization (Schulman et al. 2017).

One update: advantages by GAE, then `num_epochs` passes over the rollout. Each pass shuffles the samples into
minibatches, and each minibatch is one step of Adam on

    −min(r·A, clip(r, 1−ε, 1+ε)·A) + value_coef·(V − R)² − entropy_coef·H,      r = π(a|s)/π_old(a|s).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from rollshape.agents.losses import clipped_value_loss, ppo_policy_loss, value_loss
from rollshape.agents.normalizer import standardize
from rollshape.algorithms.actor_critic import ActorCriticAlgorithm, OnPolicySettings, Samples, gradient_norm
from rollshape.algorithms.base import Rollout, mean_of, mean_of_finite, means_by_epoch
from rollshape.algorithms.parallel import FlatParameters, flatten
from rollshape.algorithms.settings import CommonSettings
from rollshape.errors import RequestError
from rollshape.geometry.values import POSITIVE

MEANS = ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction", "ratio_ess", "grad_norm")
LOWEST_RATE, HIGHEST_RATE, RATE_FACTOR = 1e-6, 1e-2, 1.5  # of an adaptive learning rate, as in rl_games


@dataclass(frozen=True, kw_only=True)
class ClipSettings(OnPolicySettings):
    """What PPO and PPO-EWMA share."""

    clip_range: Annotated[float, "PPO: clip range ε of the probability ratio", POSITIVE] = 0.2


@dataclass(frozen=True, kw_only=True)
class PPOSettings(ClipSettings):
    """Settings of PPO only."""

    clip_value: Annotated[bool, "PPO: clip the value loss by ε, too"] = False
    target_kl: Annotated[float | None, "PPO: stop the epochs of an update when approx_kl exceeds this", POSITIVE] = None
    adaptive_kl: Annotated[float | None, "PPO: adapt the learning rate per minibatch towards this KL", POSITIVE] = None


class PPOState(NamedTuple):
    """What is carried from one update to the next."""

    network: Any
    optimizer: Any
    learning_rate: Array  # of the next gradient step, where it is adapted to the KL
    updates: Array


class Learner(NamedTuple):
    """What gradient steps change within an update."""

    parameters: FlatParameters
    optimizer: Any
    learning_rate: Array
    stopped: Array  # target_kl was exceeded


class PPOMetrics(NamedTuple):
    """Per sample in a minibatch; then their means."""

    policy_loss: Array
    value_loss: Array
    entropy: Array
    approx_kl: Array  # (r − 1) − log r
    clip_fraction: Array
    ratio: Array
    ratio_squared: Array


class PPOInfo(NamedTuple):
    """What one update reports: means over its gradient steps, some per epoch."""

    policy_loss: Array
    value_loss: Array
    entropy: Array
    approx_kl: Array  # [epochs]
    clip_fraction: Array
    ratio_ess: Array  # [epochs] (Σr)²/(M·Σr²): 1 while the policy is the one that collected the data
    explained_variance: Array
    grad_norm: Array  # before clipping
    learning_rate: Array


class PPO(ActorCriticAlgorithm):
    Settings: ClassVar[type[CommonSettings]] = PPOSettings
    reports = (*MEANS, "approx_kl_epochs", "ratio_ess_epochs", "explained_variance", "learning_rate")
    must_stay_finite = ("policy_loss", "value_loss", "grad_norm")

    def __init__(self, spec: Any, *args: Any, **options: Any) -> None:
        super().__init__(spec, *args, **options)
        if spec.anneal_lr and spec.adaptive_kl is not None:
            raise RequestError(
                "contradiction", "anneal_lr and adaptive_kl both set the learning rate.", "Leave one of them out."
            )

    def init(self, key: Array) -> PPOState:
        network = self.new_network(key)
        optimizer = self.optimizer.init(flatten(network).vector)
        return PPOState(network, optimizer, jnp.asarray(self.spec.learning_rate), jnp.zeros((), jnp.int32))

    def update(self, state: PPOState, rollout: Rollout, key: Array) -> tuple[PPOState, PPOInfo]:
        advantages, returns = self.advantages(rollout)
        samples = self.samples(rollout, advantages, returns)
        rate = state.learning_rate if self.spec.adaptive_kl is not None else self.learning_rate(state.updates)
        learner = Learner(flatten(state.network), state.optimizer, rate, stopped=jnp.zeros((), bool))
        learner, steps, norms = self.train_epochs(learner, samples, key)
        info = self.info(steps, norms, self.explained_variance(rollout, returns), learner.learning_rate)
        return PPOState(learner.parameters.network, learner.optimizer, learner.learning_rate, state.updates + 1), info

    def train_epochs(self, learner: Any, samples: Samples, key: Array) -> tuple[Any, PPOMetrics, Array]:
        """Return the learner after all epochs, and metrics and gradient norms of its steps, [epochs, minibatches]."""

        def epoch(learner: Any, salts: Array) -> tuple[Any, Array]:
            indices = self.parallel.minibatch_indices(salts, self.plan)  # [K, M]
            advantages = self.minibatch_advantages(samples, indices)

            def minibatch(learner: Any, chosen: tuple[Array, Array]) -> tuple[Any, Array]:
                batch: Samples = jax.tree.map(lambda x: x[chosen[0]], samples)
                learner, metrics, norm = self.gradient_step(learner, batch._replace(advantage=chosen[1]))
                return learner, jnp.stack([*metrics, norm])  # the loop stores one row

            return jax.lax.scan(minibatch, learner, (indices, advantages))

        salts = self.parallel.shuffle_salts(jax.random.split(key, self.plan.num_epochs))
        learner, rows = jax.lax.scan(epoch, learner, salts)
        *columns, norms = jnp.moveaxis(rows, -1, 0)
        return learner, PPOMetrics(*columns), norms

    def minibatch_advantages(self, samples: Samples, indices: Array) -> Array:
        """Return the advantages of each minibatch [K, M], normalized within it (one exchange between shards)."""
        advantages = samples.advantage[indices]
        if self.spec.normalize_advantages != "minibatch":
            return advantages
        valid = None if samples.valid is None else samples.valid[indices]
        moments = self.parallel.moments(advantages, (1,), valid)
        return standardize(jax.tree.map(lambda x: x[:, None], moments), advantages)

    def gradient_step(self, learner: Learner, batch: Samples) -> tuple[Learner, PPOMetrics, Array]:
        """Make one step of Adam on a minibatch, none once target_kl has stopped the update; return also its metrics
        and gradient norm."""
        gradient, metrics = self.parallel.mean_gradient(self.loss, learner.parameters, batch)
        norm = gradient_norm(gradient)
        rate = self.adapted_rate(learner.learning_rate, metrics.approx_kl)
        parameters, optimizer = self.adam_step(learner.parameters, learner.optimizer, gradient, rate)
        stepped = Learner(parameters, optimizer, rate, learner.stopped)
        if self.spec.target_kl is None:
            return stepped, metrics, norm
        stopped = learner.stopped | (metrics.approx_kl > self.spec.target_kl)
        kept: Learner = jax.tree.map(lambda old, new: jnp.where(stopped, old, new), learner, stepped)
        return kept._replace(stopped=stopped), metrics, norm

    def loss(self, network: Any, batch: Samples) -> tuple[Array, PPOMetrics]:
        """Return the loss of each sample, and what is reported of it."""
        spec = self.spec
        outputs, values = network(batch.observation)
        log_prob = self.distribution.log_prob(outputs, batch.action)
        entropy = self.distribution.entropy(outputs)
        policy = ppo_policy_loss(log_prob, batch.log_prob, batch.advantage, spec.clip_range)
        critic = (
            clipped_value_loss(values, batch.value, batch.returns, spec.clip_range)
            if spec.clip_value
            else value_loss(values, batch.returns)
        )
        losses = policy.loss + spec.value_coef * critic - spec.entropy_coef * entropy
        return losses, PPOMetrics(
            policy.loss, critic, entropy, policy.approx_kl, policy.clipped, policy.ratio, policy.ratio**2
        )

    def adapted_rate(self, rate: Array, approx_kl: Array) -> Array:
        """Return the learning rate divided by 1.5 above twice the target KL, multiplied by 1.5 below half of it."""
        target = self.spec.adaptive_kl
        if target is None:
            return rate
        factor = jnp.where(approx_kl > 2 * target, 1 / RATE_FACTOR, jnp.where(approx_kl < target / 2, RATE_FACTOR, 1.0))
        return jnp.clip(rate * factor, LOWEST_RATE, HIGHEST_RATE)

    def info(self, steps: PPOMetrics, norms: Array, explained_variance: Array, rate: Array) -> PPOInfo:
        ratio_ess = steps.ratio**2 / jnp.maximum(steps.ratio_squared, 1e-12)
        return PPOInfo(
            policy_loss=steps.policy_loss.mean(),
            value_loss=steps.value_loss.mean(),
            entropy=steps.entropy.mean(),
            approx_kl=steps.approx_kl.mean(1),
            clip_fraction=steps.clip_fraction.mean(),
            ratio_ess=ratio_ess.mean(1),
            explained_variance=explained_variance,
            grad_norm=norms.mean(),
            learning_rate=rate,
        )

    def summarize(self, info: PPOInfo) -> dict[str, Any]:
        return {
            **{name: mean_of(getattr(info, name)) for name in MEANS},
            "approx_kl_epochs": means_by_epoch(info.approx_kl),
            "ratio_ess_epochs": means_by_epoch(info.ratio_ess),
            "explained_variance": mean_of_finite(info.explained_variance),
            "learning_rate": mean_of(info.learning_rate[-1]),
        }
