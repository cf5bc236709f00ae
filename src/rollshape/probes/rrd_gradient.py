"""Few long or many short subsequences? Variance and bias of the reward network's gradient at equal timesteps.

A reward batch of `rrd_batch_size` timesteps is B = rrd_batch_size / K subsequences of K, drawn independently from the
replay, so tr Var(G_B) = tr Var(g_K)/B with g_K the gradient of one subsequence: one sample of g_K for each K gives the
whole surface. The plain loss has a bias that depends on K, the gradient of the variance that the unbiased loss takes
off; it is the mean difference of the two on the same subsequences. Intervals are over subsequences, given the replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from rollshape.agents.sac import Network, soft_policy
from rollshape.errors import RequestError
from rollshape.gradients.intervals import Estimate, norm_estimate
from rollshape.gradients.variance import cluster_variance
from rollshape.training.loop import RunState, Trainer
from rollshape.training.replay import Replay, finished
from rollshape.training.replay_update import Subsequences, draw_subsequences, reward_network_loss

DRAWS = 256


@dataclass(frozen=True, slots=True)
class RewardGradient:
    """One way to spend a reward batch; mse = bias2 + variance is one step's."""

    rrd_sample_size: int
    num_subsequences: int
    variance: Estimate  # tr Var of the batch's gradient
    bias2: Estimate  # of the plain loss; the unbiased one has none
    squared_norm: Estimate  # |G|²

    @property
    def mse(self) -> float:
        return self.variance.value + max(self.bias2.value, 0.0)


def reward_gradient_surface(
    trainer: Trainer,
    state: RunState,
    rrd_batch_size: int,
    sample_sizes: Sequence[int],
    unbiased: bool = False,
    draws: int = DRAWS,
    seed: int = 0,
) -> list[RewardGradient]:
    """Every K that divides the batch, by rising K, from a checkpoint's replay and reward network."""
    network, replay = reward_network(trainer, state)
    for size in sample_sizes:
        if size < 2 or rrd_batch_size % size:
            raise RequestError(
                "subsequences",
                f"rrd_sample_size {size} does not cut a reward batch of {rrd_batch_size} into subsequences of two or "
                "more.",
                f"Choose divisors of {rrd_batch_size} from 2 on.",
            )
    key, rng = jax.random.key(seed), np.random.default_rng(seed)
    found = []
    for number, size in enumerate(sorted(sample_sizes)):
        plain, corrected = (
            np.asarray(part, np.float64)
            for part in _grams(trainer.env.action, network, replay, jax.random.fold_in(key, number), size, draws)
        )
        total, norm = cluster_variance(corrected if unbiased else plain[0], rng)
        count = rrd_batch_size // size
        found.append(
            RewardGradient(
                rrd_sample_size=size,
                num_subsequences=count,
                variance=_times(total, draws / count),
                bias2=Estimate(0.0, 0.0, 0.0) if unbiased else norm_estimate(plain[1]),
                squared_norm=norm,
            )
        )
    return found


def reward_network(trainer: Trainer, state: RunState) -> tuple[Network, Replay]:
    """A checkpoint's reward network and its replay; a RequestError where there is none."""
    model: Any = state.learner.model
    if trainer.spec.algo != "rrd" or not bool(finished(state.replay)):
        raise RequestError(
            "run",
            f"A run of {trainer.spec.algo} after {int(state.update):,} updates has no reward network with finished "
            "episodes.",
            "Give a run of --algo rrd, behind its first episode.",
        )
    network: Network = model.reward
    return network, state.replay


def _grams(action: Any, network: Network, replay: Replay, key: Array, size: int, draws: int) -> tuple[Array, Array]:
    """(Gram matrices [2, R, R] of the plain loss's gradients and of what the correction takes off them; [R, R] of the
    corrected ones), of R subsequences."""
    policy = soft_policy(action)
    keys = jax.random.split(key)

    def gradients(network: Network, replay: Replay, drawn: Subsequences) -> tuple[Array, Array]:
        lone = jax.tree.map(lambda x: x[None], drawn)
        plain, corrected = (
            ravel_pytree(jax.grad(reward_network_loss)(network, policy, replay, lone, unbiased))[0]
            for unbiased in (False, True)
        )
        return plain, corrected

    def grams(network: Network, replay: Replay) -> tuple[Array, Array]:
        drawn = draw_subsequences(replay, (keys[0], keys[1]), (draws,), size)
        plain, corrected = jax.lax.map(partial(gradients, network, replay), drawn)
        rows = jnp.stack([plain, plain - corrected])
        return jnp.einsum("krp,ksp->krs", rows, rows), corrected @ corrected.T

    made: tuple[Array, Array] = jax.jit(grams)(network, replay)
    return made


def _times(estimate: Estimate, factor: float) -> Estimate:
    return Estimate(estimate.value * factor, estimate.low * factor, estimate.high * factor)
