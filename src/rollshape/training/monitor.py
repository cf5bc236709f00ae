"""Gradient statistics of a rollout, measured while training: `train --monitor-gradients`.

Measured on the last rollout of every logging interval, at the parameters before its update, from a few steps of some
environments. With s_e the sum of an environment's c_e sampled gradients g = A·∇log π, every mean is over pairs:

u = (|Σs_e|² − Σ|s_e|²)/((Σc_e)² − Σc_e²)    pairs of different environments: |G|²
p = (Σ|s_e|² − Σ|g|²)/Σc_e(c_e − 1)          different steps of one environment
q = Σ|g|²/Σc_e                               a step with itself

Steps are sampled at random, independently per environment, so p is that of all T steps: sampling adds no bias.
σ² = q − u, tr Var(row) = q/T + (1 − 1/T)·p − u, and from these the statistics of `gradients.variance`.
Advantages are centered by a constant where training normalizes them; a scale changes none of the numbers.

There is no signal where u is below 2.36 standard deviations, by a jackknife over 8 groups of environments.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from rollshape.agents.distributions import ActionDistribution
from rollshape.agents.networks import ActorCritic
from rollshape.algorithms.base import Algorithm, Rollout, State
from rollshape.algorithms.shuffle import permutation
from rollshape.geometry.plan import Plan
from rollshape.gradients.gram import CHUNK, reshape_traces, rows, scale_traces, step_norms, window_norms
from rollshape.gradients.traces import policy_traces

GROUPS, SIGNAL = 8, 2.36  # Student's 97.5 % quantile for 8 groups
MOST_SAMPLES, FEWEST_STEPS, MOST_STEPS = 4096, 8, 64
SHARE = 64  # one in this many of the samples that the interval trains on is measured


class GradientSignals(NamedTuple):
    """Quality of a rollout's policy gradient; NaN where no signal is detected."""

    noise_scale: Array  # clustered, in transitions at the run's T
    effective_sample_size: Array  # of the rollout
    gradient_snr: Array  # |G|²/tr Var(G_B) of the rollout's gradient


def no_signals() -> GradientSignals:
    return GradientSignals(*[jnp.asarray(jnp.nan, jnp.float32)] * 3)


class Sampling(NamedTuple):
    """Samples that are measured, per shard."""

    groups: int
    envs: int  # per group
    steps: int


def plan_sampling(plan: Plan, num_shards: int, interval: int) -> Sampling | None:
    """Return what to measure: at most 4096 samples, and one in 64 of the samples that the interval trains on.

    As many environments as possible with 8 steps each; at least 8 environments with 8 to 64 steps, None where there
    are fewer. Environments that do not fill the groups are left out.
    """
    groups = -(-GROUPS // num_shards)
    budget = min(interval * plan.num_epochs * plan.rollout_size // SHARE, MOST_SAMPLES)
    fewest = min(plan.num_steps, FEWEST_STEPS)
    most = min(plan.num_envs, max(budget // fewest, groups * num_shards))
    envs = most // (groups * num_shards)
    if envs == 0:
        return None
    steps = budget // (groups * envs * num_shards)
    return Sampling(groups, envs, min(plan.num_steps, max(steps, fewest), MOST_STEPS))


def measure_signals(
    algorithm: Algorithm, sampling: Sampling, state: State, rollout: Rollout, key: Array
) -> GradientSignals:
    """Measure the policy gradient of a shard's rollout [T, N/S, …]."""
    groups, envs, steps = sampling
    policy = algorithm.policy(state)
    observation, action, weight, valid = _sample_steps(algorithm, rollout, key, groups * envs, steps)
    shape = (groups, envs, steps)
    parts = (x.reshape(*shape, *x.shape[2:]) for x in (observation, action, weight))
    sums, norms, squares = _sums(policy.network, policy.distribution, *parts)
    count = valid.reshape(shape).sum(-1).astype(jnp.float32)
    columns = jnp.stack([norms.sum(1), squares.sum(1), count.sum(1), (count**2).sum(1)], axis=1)
    every = algorithm.parallel.gather(jnp.concatenate([columns, sums], axis=1))  # one exchange for all
    gram = jnp.matmul(every[:, 4:], every[:, 4:].T, precision=jax.lax.Precision.HIGHEST)
    return _signals(algorithm.plan, gram, *every[:, :4].T)


def _sample_steps(
    algorithm: Algorithm, rollout: Rollout, key: Array, envs: int, steps: int
) -> tuple[Array, Array, Array, Array]:
    """Return (observations, actions, weights, valid) of random steps of the first environments, [envs, steps, …]."""
    some: Rollout = jax.tree.map(lambda x: x[:envs] if x.ndim == 1 else x[:, :envs], rollout)  # one is [N]
    estimate = algorithm.advantages(some)[0]
    valid = jnp.ones_like(some.terminated) if some.valid is None else some.valid
    if algorithm.spec.normalize_advantages != "off" or algorithm.centers_advantages:
        total = algorithm.parallel.sum(jnp.stack([(estimate * valid).sum(), valid.sum().astype(jnp.float32)]))
        estimate = estimate - total[0] / jnp.maximum(total[1], 1.0)
    time = jax.vmap(lambda key: permutation(key, estimate.shape[0])[:steps])(jax.random.split(key, envs))
    at = (time, jnp.arange(envs)[:, None])
    return some.observation[at], some.action[at], (estimate * valid)[at], valid[at]


def _sums(
    model: ActorCritic, policy: ActionDistribution, observation: Array, action: Array, weight: Array
) -> tuple[Array, Array, Array]:
    """Of groups [G, E, M, …]: Σs_e [G, P], |s_e|² [G, E] and Σ|g|² [G, E]. What does not fit a chunk comes one
    environment at a time."""

    def whole(observation: Array, action: Array, weight: Array) -> tuple[Array, Array, Array]:
        groups, envs, steps = weight.shape
        traces = reshape_traces(
            scale_traces(policy_traces(model, policy, observation, action), weight), 3, (groups * envs, steps)
        )
        sums = rows(reshape_traces(traces, 2, (groups, envs * steps))) * (envs * steps)
        norms, squares = window_norms(traces) * steps**2, step_norms(traces).sum(1)
        return sums, norms.reshape(groups, envs), squares.reshape(groups, envs)

    shapes = jax.eval_shape(lambda *x: policy_traces(model, policy, *x), observation, action)
    if sum(math.prod(x.shape) for x in jax.tree.leaves(shapes)) <= CHUNK:
        return whole(observation, action, weight)
    sizes = jax.eval_shape(whole, observation, action, weight)[0].shape

    def add(total: Array, env: tuple[Array, Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        sums, norms, squares = whole(*(x[None, None] for x in env))
        return total + sums[0], (norms[0, 0], squares[0, 0])

    sums, (norms, squares) = jax.lax.map(
        lambda group: jax.lax.scan(add, jnp.zeros(sizes[1]), group), (observation, action, weight)
    )
    return sums, norms, squares


def _signals(
    plan: Plan, gram: Array, norms: Array, squares: Array, count: Array, count_squares: Array
) -> GradientSignals:
    """From sums over groups: their Gram matrix [G, G]; and Σ|s_e|², Σ|g|², Σc_e, Σc_e², each [G]."""
    groups = gram.shape[0]
    total, sums, diagonal = gram.sum(), gram.sum(1), jnp.diag(gram)
    norm = (total - norms.sum()) / (count.sum() ** 2 - count_squares.sum())
    left_out = (total - 2 * sums + diagonal - norms.sum() + norms) / (
        (count.sum() - count) ** 2 - count_squares.sum() + count_squares
    )
    deviation = jnp.sqrt((groups - 1) * left_out.var())
    step = squares.sum() / count.sum()
    pairs = count_squares.sum() - count.sum()
    along = jnp.where(pairs > 0, (norms.sum() - squares.sum()) / jnp.maximum(pairs, 1.0), 0.0)
    row = step / plan.num_steps + (1 - 1 / plan.num_steps) * along
    variance, step_variance = row - norm, step - norm  # of an environment's window mean, of a step

    def only(condition: Array, value: Array) -> Array:
        return jnp.where(condition, value, jnp.nan)

    has_noise = (variance > 0) & (step_variance > 0)
    has_signal = has_noise & (norm > SIGNAL * deviation)
    return GradientSignals(
        noise_scale=only(has_signal, plan.num_steps * variance / norm),
        effective_sample_size=only(has_noise, plan.num_envs * step_variance / variance),
        gradient_snr=only(has_signal, plan.num_envs * norm / variance),
    )
