"""Losses of a minibatch, as functions of arrays [M]; means over its samples."""

from __future__ import annotations

from typing import Literal, NamedTuple

import jax.numpy as jnp
from jax import Array

Normalise = Literal["minibatch", "rollout", "off"]


class PolicyLoss(NamedTuple):
    """The loss and what it tells of the policy's drift from the one that collected the data."""

    loss: Array
    approx_kl: Array  # mean((r − 1) − log r), Schulman's estimator
    clip_fraction: Array
    ratio_ess: Array  # (Σr)²/(M·Σr²): 1 while the policy is the collector's


def normalised(advantages: Array) -> Array:
    """Advantages with mean 0 and deviation 1; of a single one, itself."""
    return (advantages - advantages.mean()) / (advantages.std() + 1e-8) if advantages.size > 1 else advantages


def ppo_policy_loss(log_prob: Array, old_log_prob: Array, advantages: Array, clip_range: float) -> PolicyLoss:
    """−mean min(r·A, clip(r, 1−ε, 1+ε)·A), r = π/π_old (Schulman et al. 2017)."""
    log_ratio = log_prob - old_log_prob
    ratio = jnp.exp(log_ratio)
    clipped = jnp.clip(ratio, 1.0 - clip_range, 1.0 + clip_range)
    return PolicyLoss(
        loss=-jnp.minimum(ratio * advantages, clipped * advantages).mean(),
        approx_kl=((ratio - 1.0) - log_ratio).mean(),
        clip_fraction=(jnp.abs(ratio - 1.0) > clip_range).mean(),
        ratio_ess=ratio.sum() ** 2 / (ratio.size * (ratio**2).sum()),
    )


def policy_gradient_loss(log_prob: Array, advantages: Array) -> Array:
    """−mean log π·A: A2C and REINFORCE."""
    return -(log_prob * advantages).mean()


def value_loss(values: Array, returns: Array) -> Array:
    """mean (V − R)²."""
    return ((values - returns) ** 2).mean()


def clipped_value_loss(values: Array, old_values: Array, returns: Array, clip_range: float) -> Array:
    """mean max((V − R)², (V_clipped − R)²), V kept within ε of the collector's."""
    near = old_values + jnp.clip(values - old_values, -clip_range, clip_range)
    return jnp.maximum((values - returns) ** 2, (near - returns) ** 2).mean()


def explained_variance(values: Array, returns: Array) -> Array:
    """1 − Var(R − V)/Var(R); NaN where returns do not vary."""
    spread = returns.var()
    return jnp.where(spread > 0, 1.0 - (returns - values).var() / spread, jnp.nan)
