"""Windows of many lengths T, cut from one long rollout: the passes through the network are shared by all T, and so are
the inner products of scores, for |Σ A_t ψ_t|² = Σ A_t A_s ⟨ψ_t, ψ_s⟩ whatever the advantages A are at that T."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from rollshape.gradients.gram import Trace, Traces, by_products, einsum, layer_gram, reshaped, scaled, summed
from rollshape.gradients.intervals import Floats, norm_estimate


@dataclass(frozen=True, slots=True)
class References:
    """What windows are measured against, over as many steps as they take."""

    gram: Floats  # [N₀, N₀] of rows by the reference, λ = 1 without truncation
    estimator_gram: Floats  # [N₀, N₀] of rows at long T minus the reference's: estimator bias
    gradient: Floats  # [P] the reference's mean

    @property
    def has_signal(self) -> bool:
        """Whether the reference gradient can be told from zero."""
        return norm_estimate(self.gram).low > 0


@dataclass(frozen=True, slots=True)
class Windows:
    """What a long rollout of N₀ environments says of windows of T steps."""

    num_steps: int
    window_norms: Floats  # [N₀] mean |window mean|² over the environment's windows
    row_gram: Floats  # [N₀, N₀] of each environment's mean over all its windows
    bias_gram: Floats  # [N₀, N₀] of row minus reference row: total bias
    window_bias_gram: Floats  # [N₀, N₀] of row minus long-T row at the same λ: window bias
    references: References


@dataclass(frozen=True)
class Weights:
    """What the scores of steps are multiplied by, [N₀, S]: at windows of T, at long T with the same λ, and by the
    reference, λ = 1 without truncation. S ≤ T₀ steps: as many as whole windows of T take."""

    num_steps: int
    here: Any
    long: Any
    reference: Any

    @property
    def size(self) -> int:
        return int(self.here.shape[1])


def stacked(weights: Sequence[Weights], steps: int) -> NDArray[np.float32]:
    """All weights that `cut` needs, [N₀, K, T₀], zero behind the steps that they have: those of every T, and behind
    them reference and long T for every number of steps."""
    sizes = {each.size: each for each in weights}
    needed = [each.here for each in weights] + [x for each in sizes.values() for x in (each.reference, each.long)]
    whole = [np.pad(np.asarray(x, np.float32), ((0, 0), (0, steps - x.shape[1]))) for x in needed]
    return np.stack(whole, 1)


@partial(jax.jit, static_argnums=1)
def cut(scores: Traces, lengths: tuple[int, ...], weights: ArrayLike) -> tuple[Array, Array]:
    """Σ |window sum|² over each environment's windows, [N₀, K], and sums over all its steps, [N₀, K′, P].

    Scores are traces [N₀, T₀, …], `weights` [N₀, K′, T₀]; the first K are cut into windows of `lengths`, and the rest
    are only summed.
    """
    found = [_layer(trace, lengths, jnp.asarray(weights)) for trace in scores]
    squares = jnp.stack([sum(each[0][k] for each in found) for k in range(len(lengths))], 1)
    return squares, jnp.concatenate([jnp.stack(each[1], 1) for each in found], 2)


def windows(scores: Traces, weights: Sequence[Weights]) -> list[Windows]:
    """What score traces [N₀, T₀, …] say of windows of every T."""
    lengths = tuple(each.num_steps for each in weights)
    return gathered(weights, *cut(scores, lengths, stacked(weights, scores[0].inputs.shape[1])))


def gathered(weights: Sequence[Weights], squares: ArrayLike, sums: ArrayLike) -> list[Windows]:
    """What `cut` found of `stacked` weights, as means of windows and Gram matrices."""
    squares, sums = np.asarray(squares, np.float64), np.asarray(sums)
    behind = len(weights)
    known: dict[int, tuple[Any, Any, References]] = {}
    for size in {each.size: None for each in weights}:
        true, long = (sums[:, i] / np.float32(size) for i in (behind, behind + 1))
        mean = np.asarray(true.mean(0, dtype=np.float64))
        known[size] = true, long, References(products(true), products(long - true), mean)
        behind += 2
    found = []
    for k, each in enumerate(weights):
        true, long, references = known[each.size]
        here, norms = sums[:, k] / np.float32(each.size), squares[:, k] / (each.size * each.num_steps)
        row, bias, window_bias = (products(x) for x in (here, here - true, here - long))
        found.append(Windows(each.num_steps, norms, row, bias, window_bias, references))
    return found


def products(rows: ArrayLike) -> Floats:
    """Gram matrix of rows [N, P], without a copy of them in double precision; NumPy's computes one half of it only."""
    rows = np.asarray(rows)
    return np.asarray(rows @ rows.T, np.float64)


def _layer(trace: Trace, lengths: tuple[int, ...], weights: Array) -> tuple[list[Array], list[Array]]:
    """One layer's share of the squares, [N] for each length, and its sums, [N, P] for each of the weights."""
    envs, count, steps = weights.shape
    squares: dict[int, Array] = {}
    for block in _blocks([t for t in lengths if by_products(trace, t)]):
        whole = -(-steps // block)
        [padded] = reshaped([_padded(trace, whole * block)], 2, (envs * whole, block))
        found = jax.vmap(lambda t: layer_gram(t, t))(padded)
        for k, length in enumerate(lengths):
            if k not in squares and by_products(trace, length) and block % length == 0:
                own = jnp.pad(weights[:, k], ((0, 0), (0, whole * block - steps))).reshape(-1, block)
                window = np.arange(block) // length
                together = found * (window[:, None] == window) * own[:, :, None] * own[:, None]
                squares[k] = together.sum((1, 2)).reshape(envs, -1).sum(1)
    known = [k for k in range(count) if k in squares or k >= len(lengths)]
    sums = dict(zip(known, jnp.moveaxis(_sums(trace, weights[:, np.array(known)]), 1, 0), strict=True))
    for k, length in enumerate(lengths):
        if k not in sums:
            size = steps // length * length
            first = Trace(trace.inputs[:, :size], trace.errors[:, :size], trace.bias, trace.shared)
            [parts] = reshaped(scaled([first], weights[:, k, :size]), 2, (envs * (size // length), length))
            gradients = jax.vmap(summed)(parts)
            squares[k] = (gradients**2).sum(1).reshape(envs, -1).sum(1)
            sums[k] = gradients.reshape(envs, size // length, -1).sum(1)
    return [squares[k] for k in range(len(lengths))], [sums[k] for k in range(count)]


def _sums(trace: Trace, weights: Array) -> Array:
    """Sums over all steps for weights [N, K, T] → [N, K, P]: one product of matrices for all K."""
    (envs, count, steps), width = weights.shape, trace.errors.shape[-1]
    terms = steps * trace.positions
    inputs = trace.inputs.reshape(envs, terms, trace.inputs.shape[-1])
    factors = jnp.repeat(jnp.swapaxes(weights, 1, 2), trace.positions, 1)
    errors = (factors[..., None] * trace.errors.reshape(envs, terms, 1, width)).reshape(envs, terms, count * width)
    by_weight = einsum("nxi,nxo->nio", inputs, errors).reshape(envs, inputs.shape[-1], count, width)
    by_bias = errors.sum(1).reshape(envs, 1, count, width)
    both = jnp.concatenate([by_weight, by_bias], 1) if trace.bias else by_weight
    return jnp.swapaxes(both, 1, 2).reshape(envs, count, trace.size)


def _blocks(lengths: Sequence[int]) -> list[int]:
    """Of which all lengths are divisors, the fewest among themselves: inner products within them serve all."""
    found: list[int] = []
    for length in sorted(set(lengths), reverse=True):
        if all(block % length for block in found):
            found.append(length)
    return found


def _padded(trace: Trace, steps: int) -> Trace:
    def pad(x: Array) -> Array:
        return jnp.pad(x, ((0, 0), (0, steps - x.shape[1]), *[(0, 0)] * (x.ndim - 2)))

    return Trace(pad(trace.inputs), pad(trace.errors), trace.bias, trace.shared)
