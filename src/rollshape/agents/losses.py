"""Losses per sample, arrays [M] → [M]. The caller averages: only it knows which samples count."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array


class PolicyLoss(NamedTuple):
    """PPO's loss per sample, and how far the policy is from the one that collected the data."""

    loss: Array
    approx_kl: Array  # (r − 1) − log r, Schulman's estimator
    clipped: Array  # whether |r − 1| > ε
    ratio: Array


def ppo_policy_loss(log_prob: Array, old_log_prob: Array, advantages: Array, clip_range: float) -> PolicyLoss:
    """Return −min(r·A, clip(r, 1−ε, 1+ε)·A), r = π/π_old (Schulman et al. 2017).

    The minimum is A·min(r, 1+ε) where A ≥ 0, and A·max(r, 1−ε) elsewhere: one select, and one for the derivative.
    """
    log_ratio = log_prob - old_log_prob
    ratio = jnp.exp(log_ratio)
    bound = jnp.where(advantages >= 0, 1.0 + clip_range, 1.0 - clip_range)
    is_inside = jnp.where(advantages >= 0, ratio < bound, ratio > bound)
    return PolicyLoss(
        loss=-jnp.where(is_inside, ratio, bound) * advantages,
        approx_kl=(ratio - 1.0) - log_ratio,
        clipped=(jnp.abs(ratio - 1.0) > clip_range).astype(jnp.float32),
        ratio=ratio,
    )


def policy_gradient_loss(log_prob: Array, advantages: Array) -> Array:
    """Return −log π·A, the loss of A2C and REINFORCE."""
    return -(log_prob * advantages)


def value_loss(values: Array, returns: Array) -> Array:
    """Return (V − R)²."""
    return (values - returns) ** 2


def clipped_value_loss(values: Array, old_values: Array, returns: Array, clip_range: float) -> Array:
    """Return max((V − R)², (V_clipped − R)²), where V_clipped is within ε of the old value."""
    clipped = old_values + jnp.clip(values - old_values, -clip_range, clip_range)
    return jnp.maximum((values - returns) ** 2, (clipped - returns) ** 2)
