"""Randomized return decomposition (Ren et al. 2022): a reward network whose mean over an episode matches its return.

For K of the T timesteps of an episode, I drawn at random, the loss is (mean_I r̂ − R/T)². Its expectation is
(mean r̂ − R/T)² + Var_I(mean_I r̂): the return-decomposition loss and a variance that pulls the rewards of an episode
together. Drawn without replacement, Var_I = S²(1 − K/T)/K with S² the episode's own variance (T − 1 below it), and
s² of the K drawn estimates S² without bias: subtracting s²(1 − K/T)/K gives the first part alone. Drawn with
replacement it is s²/K.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from rollshape.agents.soft import Network, SoftDistribution, encode_action


def predict_rewards(
    network: Network, distribution: SoftDistribution, observation: Array, action: Array, next_observation: Array
) -> Array:
    """r̂(s, a, s − s′) of transitions [M, …] → [M]; of pictures the difference is that of their features."""
    features = network.features(observation)
    change = features - network.features(next_observation)
    x = jnp.concatenate([features, encode_action(distribution, action), change], axis=-1)
    return network.head(x)[0, :, 0]


def decomposition_loss(predicted: Array, returns: Array, lengths: Array, unbiased: bool) -> Array:
    """Losses of subsequences [B]: r̂ [B, K] of episodes with returns [B] and lengths T [B]; `unbiased` needs K ≥ 2.

    An episode shorter than K had its timesteps drawn with replacement.
    """
    size = predicted.shape[-1]
    loss = (predicted.mean(-1) - returns / lengths) ** 2
    if not unbiased:
        return loss
    finite = jnp.where(lengths >= size, 1.0 - size / lengths, 1.0)
    return loss - predicted.var(-1, ddof=1) * finite / size


def draw_timesteps(key: Array, lengths: Array, size: int) -> Array:
    """`size` timesteps of episodes with lengths T [...], without replacement where there are as many → [..., size].

    Floyd's method (Bentley 1987): for j = T − K … T − 1 draw t ≤ j, and take j itself where t was taken before. Every
    set of K is as likely as any other, at a cost that does not grow with T.
    """
    draws = jax.random.uniform(key, (size, *lengths.shape))

    def next_one(taken: Array, step: tuple[Array, Array]) -> tuple[Array, None]:
        i, draw = step
        last = lengths - size + i
        chosen = jnp.minimum((draw * (last + 1)).astype(jnp.int32), last)
        repeated = (taken == chosen[..., None]).any(-1)
        return taken.at[..., i].set(jnp.where(repeated, last, chosen)), None

    none = jnp.full((*lengths.shape, size), -1, jnp.int32)
    distinct, _ = jax.lax.scan(next_one, none, (jnp.arange(size), draws))
    repeating = jnp.minimum((jnp.moveaxis(draws, 0, -1) * lengths[..., None]).astype(jnp.int32), lengths[..., None] - 1)
    return jnp.where(lengths[..., None] >= size, distinct, repeating)
