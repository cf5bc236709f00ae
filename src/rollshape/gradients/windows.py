"""Statistics of windows of many lengths T, all cut from one long rollout.

All T share the passes through the network and the inner products of scores, because
|Σ A_t ψ_t|² = Σ A_t A_s ⟨ψ_t, ψ_s⟩ for the advantages A of any T.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from rollshape.gradients.gram import (
    Trace,
    Traces,
    einsum,
    layer_gram,
    prefers_products,
    reshape_traces,
    sum_outer_products,
)
from rollshape.gradients.intervals import Floats, estimate_squared_norm
from rollshape.quick_jit import quick_jit


@dataclass(frozen=True, slots=True)
class References:
    """What windows are compared with, over the same number of steps."""

    gram: Floats  # [N₀, N₀] of rows by the reference, λ = 1 without truncation
    estimator_gram: Floats  # [N₀, N₀] of rows at long T minus the reference's: estimator bias
    gradient: Floats  # [P] the reference's mean

    @property
    def has_signal(self) -> bool:
        """Whether the reference gradient is significantly different from zero."""
        return estimate_squared_norm(self.gram).low > 0


@dataclass(frozen=True, slots=True)
class Windows:
    """Statistics of windows of T steps in a long rollout of N₀ environments."""

    num_steps: int
    window_norms: Floats  # [N₀] mean |window mean|² over the environment's windows
    row_gram: Floats  # [N₀, N₀] of each environment's mean over all its windows
    bias_gram: Floats  # [N₀, N₀] of row minus reference row: total bias
    window_bias_gram: Floats  # [N₀, N₀] of row minus long-T row at the same λ: window bias
    references: References


@dataclass(frozen=True)
class Weights:
    """Factors of the steps' scores, [N₀, S]. S ≤ T₀ is the number of steps that fill whole windows of T."""

    num_steps: int
    windowed: Any  # of windows of T
    long: Any  # with the same λ, without truncation
    reference: Any  # with λ = 1, without truncation

    @property
    def size(self) -> int:
        return int(self.windowed.shape[1])


def stack_weights(weights: Sequence[Weights], steps: int) -> NDArray[np.float32]:
    """Stack the weights for `sum_windows`, [N₀, K, T₀], padded with zeros: those of every T, followed by the reference
    and long weights for every number of steps."""
    sizes = {w.size: w for w in weights}
    parts = [w.windowed for w in weights] + [x for w in sizes.values() for x in (w.reference, w.long)]
    return np.stack([np.pad(np.asarray(x, np.float32), ((0, 0), (0, steps - x.shape[1]))) for x in parts], 1)


def sum_windows(scores: Traces, weights: ArrayLike, lengths: tuple[int, ...]) -> tuple[Array, Array]:
    """Return Σ |window sum|² over the windows of every environment, [N₀, K], and sums over all its steps, [N₀, K′, P].

    Scores are traces [N₀, T₀, …], `weights` [N₀, K′, T₀]; the first K are cut into windows of `lengths`, the rest are
    only summed.
    """
    layers = [_layer(trace, lengths, jnp.asarray(weights)) for trace in scores]
    squares = jnp.stack([sum(layer[0][k] for layer in layers) for k in range(len(lengths))], 1)
    return squares, jnp.concatenate([jnp.stack(layer[1], 1) for layer in layers], 2)


_sum_windows = quick_jit(sum_windows, static_argnums=2)


def windows(scores: Traces, weights: Sequence[Weights]) -> list[Windows]:
    """Return the statistics of windows of every T, from score traces [N₀, T₀, …]."""
    lengths = tuple(w.num_steps for w in weights)
    stack = stack_weights(weights, scores[0].inputs.shape[1])
    return summarize_windows(weights, *_sum_windows(scores, stack, lengths))


def summarize_windows(weights: Sequence[Weights], squares: ArrayLike, sums: ArrayLike) -> list[Windows]:
    """Turn the result of `sum_windows` for stacked weights into means over windows and Gram matrices."""
    squares, sums = np.asarray(squares, np.float64), np.asarray(sums)
    index = len(weights)
    by_size: dict[int, tuple[Any, Any, References]] = {}
    for size in {w.size: None for w in weights}:
        reference, long = (sums[:, i] / np.float32(size) for i in (index, index + 1))
        mean = np.asarray(reference.mean(0, dtype=np.float64))
        by_size[size] = reference, long, References(products(reference), products(long - reference), mean)
        index += 2
    result = []
    for k, w in enumerate(weights):
        reference, long, references = by_size[w.size]
        rows, norms = sums[:, k] / np.float32(w.size), squares[:, k] / (w.size * w.num_steps)
        row_gram, bias, window_bias = (products(x) for x in (rows, rows - reference, rows - long))
        result.append(Windows(w.num_steps, norms, row_gram, bias, window_bias, references))
    return result


def products(rows: ArrayLike) -> Floats:
    """Return the Gram matrix of rows [N, P], without a copy of them in double precision."""
    rows = np.asarray(rows)
    return np.asarray(rows @ rows.T, np.float64)


def _layer(trace: Trace, lengths: tuple[int, ...], weights: Array) -> tuple[list[Array], list[Array]]:
    """Return the contribution of one layer to the squares, [N] per length, and its sums, [N, P] per weight."""
    envs, count, steps = weights.shape
    squares: dict[int, Array] = {}
    sums: dict[int, Array] = {}
    for block in _blocks([t for t in lengths if prefers_products(trace, t)]):
        whole = -(-steps // block)
        [padded] = reshape_traces([_pad(trace, whole * block)], 2, (envs * whole, block))
        grams = jax.vmap(lambda t: layer_gram(t, t))(padded).reshape(envs, 1, whole, block, block)
        served = [
            k for k, t in enumerate(lengths) if k not in squares and prefers_products(trace, t) and block % t == 0
        ]
        window = np.arange(block) // np.array([lengths[k] for k in served])[:, None]
        within = (window[:, :, None] == window[:, None])[:, None]  # [K, 1, block, block]
        factors = jnp.pad(weights[:, np.array(served)], ((0, 0), (0, 0), (0, whole * block - steps)))
        factors = factors.reshape(envs, len(served), whole, block)
        products_with = einsum("nkwts,nkwt->nkws", grams * within, factors)  # XLA's sums would not be vectorized
        sums_of_squares = einsum("nkws,nkws->nk", products_with, factors)
        squares |= {k: sums_of_squares[:, i] for i, k in enumerate(served)}
    for group in _groups([t for k, t in enumerate(lengths) if k not in squares]):
        chosen = [k for k, t in enumerate(lengths) if t in group]
        parts = _sums_of_blocks(trace, weights[:, np.array(chosen)], group[0])
        for i, k in enumerate(chosen):
            num_windows, per_window = steps // lengths[k], lengths[k] // group[0]
            in_windows = parts[:, : num_windows * per_window, i].reshape(envs, num_windows, per_window, -1).sum(2)
            squares[k] = einsum("nwp,nwp->n", in_windows, in_windows)
            sums[k] = in_windows.sum(1)
    rest = [k for k in range(count) if k not in sums]
    sums |= zip(rest, jnp.moveaxis(_sums(trace, weights[:, np.array(rest)]), 1, 0), strict=True)
    return [squares[k] for k in range(len(lengths))], [sums[k] for k in range(count)]


def _sums_of_blocks(trace: Trace, weights: Array, block: int) -> Array:
    """Return the sums over blocks of steps for weights [N, K, T] → [N, B, K, P]; the last block is padded."""
    envs, count, steps = weights.shape
    num_blocks = -(-steps // block)
    [padded] = reshape_traces([_pad(trace, num_blocks * block)], 2, (envs * num_blocks, block))
    factors = jnp.pad(weights, ((0, 0), (0, 0), (0, num_blocks * block - steps)))
    factors = jnp.swapaxes(factors.reshape(envs, count, num_blocks, block), 1, 2)
    return _sums(padded, factors.reshape(envs * num_blocks, count, block)).reshape(envs, num_blocks, count, -1)


def _sums(trace: Trace, weights: Array) -> Array:
    """Return the sums over all steps for weights [N, K, T] → [N, K, P], as one matrix product for all K.

    The weights scale the narrower factor of the product; a bias is a weight whose input is 1.
    """
    (envs, count, steps), width = weights.shape, trace.errors.shape[-1]
    terms = steps * trace.positions
    errors = trace.errors.reshape(envs, terms, width)
    inputs = trace.inputs.reshape(envs, terms, trace.inputs.shape[-1])
    if trace.bias:
        inputs = jnp.concatenate([inputs, jnp.ones((envs, terms, 1), inputs.dtype)], 2)
    factors = jnp.repeat(jnp.swapaxes(weights, 1, 2), trace.positions, 1)[..., None]
    if inputs.shape[-1] < width:
        scaled = (factors * inputs[:, :, None]).reshape(envs, terms, count * inputs.shape[-1])
        return sum_outer_products(scaled, errors).reshape(envs, count, trace.size)
    scaled = (factors * errors[:, :, None]).reshape(envs, terms, count * width)
    outer = sum_outer_products(inputs, scaled).reshape(envs, inputs.shape[-1], count, width)
    return jnp.swapaxes(outer, 1, 2).reshape(envs, count, trace.size)


def _groups(lengths: Sequence[int]) -> list[list[int]]:
    """Return groups of lengths, each of which begins with the one that divides all its others."""
    groups: list[list[int]] = []
    for length in sorted(set(lengths)):
        group = next((group for group in groups if length % group[0] == 0), None)
        if group is None:
            groups.append(group := [])
        group.append(length)
    return groups


def _blocks(lengths: Sequence[int]) -> list[int]:
    """Return the fewest lengths that are multiples of all: inner products within them serve every length."""
    blocks: list[int] = []
    for length in sorted(set(lengths), reverse=True):
        if all(block % length for block in blocks):
            blocks.append(length)
    return blocks


def _pad(trace: Trace, steps: int) -> Trace:
    def pad(x: Array) -> Array:
        return jnp.pad(x, ((0, 0), (0, steps - x.shape[1]), *[(0, 0)] * (x.ndim - 2)))

    return Trace(pad(trace.inputs), pad(trace.errors), trace.bias, trace.shared)
