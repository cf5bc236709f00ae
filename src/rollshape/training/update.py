"""Learning from a rollout: advantages, minibatches, gradient steps. Sizes come from the Plan."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from rollshape.agents.distributions import Policy
from rollshape.agents.losses import (
    clipped_value_loss,
    normalised,
    policy_gradient_loss,
    ppo_policy_loss,
    value_loss,
)
from rollshape.agents.networks import ActorCritic
from rollshape.agents.returns import gae, next_values, rewards_to_go
from rollshape.geometry.plan import Plan
from rollshape.training.rollout import Rollout
from rollshape.training.shuffle import permutation
from rollshape.training.spec import Spec

LOWEST_RATE, HIGHEST_RATE, RATE_STEP = 1e-6, 1e-2, 1.5  # of a KL-adaptive learning rate, as rl_games and RSL-RL have it


class Samples(NamedTuple):
    """What a gradient step reads, one row a sample."""

    observation: Array
    action: Array
    log_prob: Array
    value: Array
    advantage: Array
    returns: Array


class Learner(NamedTuple):
    """What gradient steps change."""

    model: ActorCritic
    optimizer: Any
    rate: Array  # the learning rate, where it adapts
    stopped: Array  # target_kl was exceeded in this update


class Report(NamedTuple):
    """What a gradient step tells."""

    policy_loss: Array
    value_loss: Array
    entropy: Array
    approx_kl: Array
    clip_fraction: Array
    ratio_ess: Array
    grad_norm: Array


def adam(spec: Spec) -> optax.GradientTransformation:
    """Adam with ε = 1e-5 behind a clip of the global norm; the learning rate is applied by `gradient_step`."""
    clip = optax.identity() if spec.max_grad_norm is None else optax.clip_by_global_norm(spec.max_grad_norm)
    return optax.chain(clip, optax.scale_by_adam(eps=1e-5))


def advantages(spec: Spec, rollout: Rollout) -> tuple[Array, Array]:
    """(advantages, value targets), each [T, N].

    REINFORCE without a critic cuts the return of an episode off where the window or a time limit ends it; with the
    value baseline it bootstraps there.
    """
    ended = rollout.terminated | rollout.truncated
    following = jax.vmap(next_values, (1, 0, 1, 1), 1)(
        rollout.value, rollout.last_value, rollout.truncated, rollout.final_value
    )
    if spec.algo != "reinforce":
        estimate = jax.vmap(gae, (1, 1, 1, 1, 1, None, None), 1)(
            rollout.reward, rollout.value, following, rollout.terminated, ended, spec.gamma, spec.gae_lambda
        )
        return estimate, estimate + rollout.value
    rest = following if spec.baseline == "value" else jnp.zeros_like(following)
    returns = jax.vmap(rewards_to_go, (1, 1, 1, 1, None), 1)(
        rollout.reward, rest, rollout.terminated, ended, spec.gamma
    )
    if spec.baseline == "value":
        return returns - rollout.value, returns
    return (returns - returns.mean() if spec.baseline == "mean" else returns), returns


def learn(
    spec: Spec, plan: Plan, policy: Policy, learner: Learner, rollout: Rollout, rate: Array, key: Array
) -> tuple[Learner, Report, Array]:
    """All epochs on one rollout: (learner, reports [epochs, minibatches], value targets [T, N])."""
    estimate, returns = advantages(spec, rollout)
    if spec.normalise_advantages == "rollout":
        estimate = normalised(estimate)
    rows = Samples(rollout.observation, rollout.action, rollout.log_prob, rollout.value, estimate, returns)
    rows = jax.tree.map(lambda x: x.reshape(plan.rollout_size, *x.shape[2:]), rows)
    used = plan.num_minibatches * plan.minibatch_size

    def epoch(learner: Learner, key: Array) -> tuple[Learner, Report]:
        order = permutation(key, plan.rollout_size)[:used] if plan.num_minibatches > 1 else jnp.arange(used)
        cut = jax.tree.map(lambda x: x[order].reshape(plan.num_minibatches, plan.minibatch_size, *x.shape[1:]), rows)
        return jax.lax.scan(lambda state, part: gradient_step(spec, policy, state, part, rate), learner, cut)

    learner = learner._replace(stopped=jnp.zeros((), bool))
    learner, reports = jax.lax.scan(epoch, learner, jax.random.split(key, plan.num_epochs))
    return learner, reports, returns


def gradient_step(
    spec: Spec, policy: Policy, learner: Learner, samples: Samples, rate: Array
) -> tuple[Learner, Report]:
    """One step on a minibatch; none where target_kl has stopped the update."""
    (_, report), gradient = eqx.filter_value_and_grad(_loss, has_aux=True)(learner.model, spec, policy, samples)
    report = report._replace(grad_norm=optax.tree.norm(gradient))
    if spec.adaptive_kl is not None:
        too_far, too_near = report.approx_kl > 2 * spec.adaptive_kl, report.approx_kl < spec.adaptive_kl / 2
        factor = jnp.where(too_far, 1 / RATE_STEP, jnp.where(too_near, RATE_STEP, 1.0))
        learner = learner._replace(rate=jnp.clip(learner.rate * factor, LOWEST_RATE, HIGHEST_RATE))
        rate = learner.rate
    direction, optimizer = adam(spec).update(gradient, learner.optimizer)
    model = eqx.apply_updates(learner.model, jax.tree.map(lambda d: -rate * d, direction))
    moved = learner._replace(model=model, optimizer=optimizer)
    if spec.target_kl is None:
        return moved, report
    stopped = learner.stopped | (report.approx_kl > spec.target_kl)
    kept = jax.tree.map(lambda old, new: jnp.where(stopped, old, new), learner, moved)
    return kept._replace(stopped=stopped), report


def _loss(model: ActorCritic, spec: Spec, policy: Policy, samples: Samples) -> tuple[Array, Report]:
    outputs, values = jax.vmap(model)(samples.observation)
    log_prob, entropy = policy.log_prob(outputs, samples.action), policy.entropy(outputs).mean()
    advantage = normalised(samples.advantage) if spec.normalise_advantages == "minibatch" else samples.advantage
    drift = ppo_policy_loss(log_prob, samples.log_prob, advantage, spec.clip_range)
    policy_loss = drift.loss if spec.algo == "ppo" else policy_gradient_loss(log_prob, advantage)
    if spec.clip_value:
        critic_loss = clipped_value_loss(values, samples.value, samples.returns, spec.clip_range)
    else:
        critic_loss = value_loss(values, samples.returns)
    coefficient = 0.0 if spec.algo == "reinforce" and spec.baseline != "value" else spec.value_coef
    total = policy_loss + coefficient * critic_loss - spec.entropy_coef * entropy
    report = Report(
        policy_loss, critic_loss, entropy, drift.approx_kl, drift.clip_fraction, drift.ratio_ess, jnp.zeros(())
    )
    return total, report
