"""Learning from a rollout: advantages, minibatches, gradient steps. Sizes come from the Plan.

Every function here sees one shard's environments. A minibatch takes the same number of samples from every shard.
Parameters and gradient are one flat vector, so that a gradient step needs one sum over the shards, its report included.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.flatten_util import ravel_pytree

from rollshape.agents.distributions import ActionDistribution
from rollshape.agents.losses import clipped_value_loss, policy_gradient_loss, ppo_policy_loss, value_loss
from rollshape.agents.networks import ActorCritic
from rollshape.agents.normalizer import compute_moments, standardize
from rollshape.agents.returns import gae, next_values, rewards_to_go
from rollshape.geometry.plan import Plan
from rollshape.training.layout import Layout
from rollshape.training.rollout import Rollout
from rollshape.training.shards import Shards
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
    valid: Array | None


class Learner(NamedTuple):
    """What gradient steps change."""

    model: ActorCritic
    optimizer: Any  # of the flat parameters
    rate: Array  # the learning rate, where it adapts
    stopped: Array  # target_kl was exceeded in this update


class Report(NamedTuple):
    """What a gradient step tells: means over the minibatch."""

    policy_loss: Array
    value_loss: Array
    entropy: Array
    approx_kl: Array
    clip_fraction: Array
    ratio_ess: Array  # (Σr)²/(M·Σr²): 1 while the policy is the collector's
    grad_norm: Array


def adam(spec: Spec) -> optax.GradientTransformation:
    """Adam with ε = 1e-5 behind a clip of the global norm; the learning rate is applied by the gradient step."""
    clip = optax.identity() if spec.max_grad_norm is None else optax.clip_by_global_norm(spec.max_grad_norm)
    return optax.chain(clip, optax.scale_by_adam(eps=1e-5))


def new_learner(spec: Spec, model: ActorCritic) -> Learner:
    return Learner(model, adam(spec).init(ravel_pytree(model)[0]), jnp.asarray(spec.learning_rate), jnp.zeros((), bool))


def advantages(spec: Spec, rollout: Rollout, gae_lambda: float | Array | None = None) -> tuple[Array, Array]:
    """(advantages, value targets) of a shard, each [T, N]; REINFORCE's mean is subtracted later.

    REINFORCE without a critic cuts the return of an episode off where the window or a time limit ends it; with the
    value baseline it bootstraps there. A λ that is given stands for the spec's.
    """
    lam = spec.gae_lambda if gae_lambda is None else gae_lambda
    ended = rollout.terminated | rollout.truncated
    following = jax.vmap(next_values, (1, 0, 1, 1), 1)(
        rollout.value, rollout.last_value, rollout.truncated, rollout.final_value
    )
    if spec.algo != "reinforce":
        estimate = jax.vmap(gae, (1, 1, 1, 1, 1, None, None), 1)(
            rollout.reward, rollout.value, following, rollout.terminated, ended, spec.gamma, lam
        )
        return estimate, estimate + rollout.value
    rest = following if spec.baseline == "value" else jnp.zeros_like(following)
    returns = jax.vmap(rewards_to_go, (1, 1, 1, 1, None), 1)(
        rollout.reward, rest, rollout.terminated, ended, spec.gamma
    )
    return (returns - rollout.value if spec.baseline == "value" else returns), returns


def learn(
    spec: Spec, plan: Plan, layout: Layout, shards: Shards, policy: ActionDistribution,
    learner: Learner, rollout: Rollout, rate: Array, key: Array,
) -> tuple[Learner, Report, Array]:  # fmt: skip
    """All epochs on one rollout: (learner, reports [epochs, minibatches], value targets [T, N])."""
    estimate, returns = advantages(spec, rollout)
    if spec.algo == "reinforce" and spec.baseline == "mean":
        estimate = estimate - compute_moments(shards.total, estimate, (0, 1), rollout.valid).mean
    if spec.normalize_advantages == "rollout":
        estimate = standardize(compute_moments(shards.total, estimate, (0, 1), rollout.valid), estimate)
    rows = Samples(
        rollout.observation, rollout.action, rollout.log_prob, rollout.value, estimate, returns, rollout.valid
    )
    size = estimate.size
    rows = jax.tree.map(lambda x: x.reshape(size, *x.shape[2:]), rows)
    part = plan.minibatch_size // layout.num_shards
    used = plan.num_minibatches * part
    flat, unravel = ravel_pytree(learner.model)
    step = partial(_gradient_step, spec, policy, layout, shards, unravel, rate)

    def epoch(carry: Any, key: Array) -> tuple[Any, Report]:
        in_order = plan.num_minibatches == 1 and used == size
        order = jnp.arange(size) if in_order else permutation(jax.random.fold_in(key, shards.number()), size)[:used]
        order = order.reshape(plan.num_minibatches, part)
        advantage = rows.advantage[order]
        if spec.normalize_advantages == "minibatch":
            valid = None if rows.valid is None else rows.valid[order]
            moments = jax.tree.map(lambda x: x[:, None], compute_moments(shards.total, advantage, (1,), valid))
            advantage = standardize(moments, advantage)

        def minibatch(carry: Any, drawn: tuple[Array, Array]) -> tuple[Any, Report]:
            chosen, advantage = drawn
            samples: Samples = jax.tree.map(lambda x: x[chosen], rows)  # the next line makes one of these gathers void
            return step(carry, samples._replace(advantage=advantage))

        return jax.lax.scan(minibatch, carry, (order, advantage))

    blank: Any = None  # the model is carried as a flat vector
    carry = (flat, learner._replace(model=blank, stopped=jnp.zeros((), bool)))
    (flat, rest), reports = jax.lax.scan(epoch, carry, jax.random.split(key, plan.num_epochs))
    return rest._replace(model=unravel(flat)), reports, returns


def _gradient_step(
    spec: Spec,
    policy: ActionDistribution,
    layout: Layout,
    shards: Shards,
    unravel: Any,
    rate: Array,
    carry: Any,
    samples: Samples,
) -> tuple[Any, Report]:
    """One step on a minibatch, of which this shard has M/S samples; none where target_kl has stopped the update."""
    flat, learner = carry
    size = flat.size
    sums = shards.total(_sums(spec, policy, layout, unravel, flat, samples))
    count = jnp.maximum(sums[-1], 1.0)
    gradient = sums[:size] / count
    policy_loss, critic_loss, entropy, approx_kl, clipped, ratio, squares = sums[size:-1] / count
    ratio_ess = ratio**2 / jnp.maximum(squares, 1e-12)
    norm = jnp.sqrt(jnp.sum(gradient**2))
    report = Report(policy_loss, critic_loss, entropy, approx_kl, clipped, ratio_ess, norm)
    if spec.adaptive_kl is not None:
        too_far, too_near = approx_kl > 2 * spec.adaptive_kl, approx_kl < spec.adaptive_kl / 2
        factor = jnp.where(too_far, 1 / RATE_STEP, jnp.where(too_near, RATE_STEP, 1.0))
        learner = learner._replace(rate=jnp.clip(learner.rate * factor, LOWEST_RATE, HIGHEST_RATE))
        rate = learner.rate
    direction, optimizer = adam(spec).update(gradient, learner.optimizer)
    moved = (flat - rate * direction, learner._replace(optimizer=optimizer))
    if spec.target_kl is None:
        return moved, report
    stopped = learner.stopped | (approx_kl > spec.target_kl)
    flat, learner = jax.tree.map(lambda old, new: jnp.where(stopped, old, new), (flat, learner), moved)
    return (flat, learner._replace(stopped=stopped)), report


def _sums(spec: Spec, policy: ActionDistribution, layout: Layout, unravel: Any, flat: Array, samples: Samples) -> Array:
    """Sums over a shard's part of a minibatch, as one vector: the gradient, what a report needs, the valid samples.

    Its microbatches are added one after the other: the same gradient, from arrays that fit the cache.
    """
    gradient = jax.value_and_grad(partial(_loss, spec, policy, unravel), has_aux=True)

    def one(samples: Samples) -> Array:
        (_, told), slope = gradient(flat, samples)
        return jnp.concatenate([slope, told])

    size = samples.advantage.shape[0]
    pieces = size // layout.microbatch_size
    if pieces == 1:
        return one(samples)
    cut = jax.tree.map(lambda x: x.reshape(pieces, layout.microbatch_size, *x.shape[1:]), samples)
    first = one(jax.tree.map(lambda x: x[0], cut))
    return jax.lax.scan(lambda total, piece: (total + one(piece), None), first, jax.tree.map(lambda x: x[1:], cut))[0]


def _loss(spec: Spec, policy: ActionDistribution, unravel: Any, flat: Array, samples: Samples) -> tuple[Array, Array]:
    """(sum of the samples' losses, sums that a report needs); samples that are not valid count nothing."""
    outputs, values = unravel(flat)(samples.observation)
    log_prob, entropy = policy.log_prob(outputs, samples.action), policy.entropy(outputs)
    drift = ppo_policy_loss(log_prob, samples.log_prob, samples.advantage, spec.clip_range)
    policy_loss = drift.loss if spec.algo == "ppo" else policy_gradient_loss(log_prob, samples.advantage)
    if spec.clip_value:
        critic_loss = clipped_value_loss(values, samples.value, samples.returns, spec.clip_range)
    else:
        critic_loss = value_loss(values, samples.returns)
    coefficient = 0.0 if spec.algo == "reinforce" and spec.baseline != "value" else spec.value_coef
    losses = policy_loss + coefficient * critic_loss - spec.entropy_coef * entropy
    columns = (policy_loss, critic_loss, entropy, drift.approx_kl, drift.clipped, drift.ratio, drift.ratio**2)
    if samples.valid is None:
        count = jnp.asarray(losses.size, jnp.float32)
        return losses.sum(), jnp.stack([*(column.sum() for column in columns), count])
    counted = samples.valid.astype(jnp.float32)
    return (losses * counted).sum(), jnp.stack([*((column * counted).sum() for column in columns), counted.sum()])
