"""Exact inner products of per-step gradients, from the inputs and errors of every layer; no such gradient is stored.

A layer y = a·W + b contributes a ⊗ δ to the gradient of one step, δ being the derivative by y, so
⟨g_i, g_j⟩ = Σ_layers (a_i·a_j + 1)(δ_i·δ_j), the 1 standing for the bias. All functions take JAX or NumPy arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from rollshape.agents.products import weight_gradient

CHUNK = 1 << 25  # floats of one layer's gradients held at once
SHORT = 32  # number of terms up to which their products are faster than a sum of outer products, for any layer

_PRECISION = jax.lax.Precision.HIGHEST  # an accelerator's default keeps three digits
einsum = partial(jnp.einsum, precision=_PRECISION)
sum_outer_products = partial(weight_gradient, precision=_PRECISION)  # Σ a ⊗ δ of a [..., S, in] and δ [..., S, out]


class Trace(eqx.Module):
    """The inputs a [..., in] and errors δ [..., out] of one layer, for every step.

    A layer whose weights are `shared` by P positions (a convolution) has inputs [..., P, in] (its patches) and errors
    [..., P, out]. A parameter without input, such as log_std, is a bias alone: its inputs are [..., 0].
    """

    inputs: Array
    errors: Array
    bias: bool = eqx.field(static=True, default=True)
    shared: bool = eqx.field(static=True, default=False)

    @property
    def size(self) -> int:
        """Number of parameters of the layer."""
        return int((self.inputs.shape[-1] + self.bias) * self.errors.shape[-1])

    @property
    def positions(self) -> int:
        return int(self.inputs.shape[-2]) if self.shared else 1


Traces = Sequence[Trace]


class LayerGradient(NamedTuple):
    """The gradient of one layer: weight [in, out] and bias [out], zero where there is none."""

    weight: Array
    bias: Array


def scale_traces(traces: Traces, weights: Array) -> tuple[Trace, ...]:
    """Multiply the losses of the steps by weights [...]: scores ∇log π become gradients A·∇log π."""
    weights = jnp.asarray(weights)

    def scale(trace: Trace) -> Trace:
        factor = weights.reshape(*weights.shape, *[1] * (jnp.ndim(trace.errors) - weights.ndim))
        return Trace(trace.inputs, trace.errors * factor, trace.bias, trace.shared)

    return tuple(scale(trace) for trace in traces)


def reshape_traces(traces: Traces, axes: int, shape: tuple[int, ...]) -> tuple[Trace, ...]:
    """Reshape the first `axes` axes, for instance [N, T] into windows [N·T/W, W]."""

    def reshape(x: Array) -> Array:
        return jnp.reshape(x, (*shape, *x.shape[axes:]))

    return tuple(Trace(reshape(t.inputs), reshape(t.errors), t.bias, t.shared) for t in traces)


def gram(left: Traces, right: Traces) -> Array:
    """Return ⟨g_i, g_j⟩ of all steps of two sets, traces [S, …] and [R, …] → [S, R]."""
    return _sum(layer_gram(a, b) for a, b in zip(left, right, strict=True))


def gram_blocks(traces: Traces) -> Array:
    """Return ⟨g_t, g_s⟩ of all pairs of steps of the same environment, traces [N, T, …] → [N, T, T].

    Layers whose step gradients must be built (see `layer_gram`) are processed one environment at a time.
    """

    def block(trace: Trace) -> Array:
        return layer_gram(trace, trace)

    return _sum(jax.lax.map(block, t) if t.shared else jax.vmap(block)(t) for t in traces)


def rows(traces: Traces) -> Array:
    """Return the mean gradient of every window, traces [N, T, …] → [N, P]; per layer weights, then bias."""
    return jnp.concatenate([_window_gradients(trace) for trace in traces], axis=1)


def row_gram(left: Traces, right: Traces | None = None) -> Array:
    """Return ⟨w_e, w_f⟩ of window means, traces [N, T, …] and [M, T, …] → [N, M], without storing the rows."""

    def layer(a: Trace, b: Trace) -> Array:
        parts = zip(_slices(a), _slices(b), strict=True)
        return _sum(einsum("np,mp->nm", _window_gradients(x), _window_gradients(y)) for x, y in parts)

    return _sum(layer(a, b) for a, b in zip(left, left if right is None else right, strict=True))


def prefers_products(trace: Trace, num_steps: int) -> bool:
    """Whether the norm of a window is cheaper from the products of its steps than from its gradient."""
    terms, inputs, outputs = num_steps * trace.positions, trace.inputs.shape[-1], trace.errors.shape[-1]
    return bool(terms <= SHORT or terms**2 * (inputs + outputs) <= (terms + 1) * inputs * outputs)


def window_norms(traces: Traces) -> Array:
    """Return |window mean|² of many windows, traces [W, T, …] → [W]; per layer the cheaper of Gram and gradient."""

    def layer(trace: Trace) -> Array:
        if prefers_products(trace, trace.inputs.shape[1]):
            return jax.vmap(lambda t: layer_gram(t, t).mean())(trace)
        chunk = max(1, CHUNK // trace.size)
        norms: Array = jax.lax.map(lambda t: (_window_gradient(t) ** 2).sum(), trace, batch_size=chunk)
        return norms

    return _sum(layer(trace) for trace in traces)


def step_norms(traces: Traces) -> Array:
    """Return |g_i|² of every step, traces [S, T, …] → [S, T]: Σ_layers (|a|² + 1)·|δ|²."""

    def layer(trace: Trace) -> Array:
        if trace.shared:
            lead: tuple[int, ...] = trace.inputs.shape[:2]
            return window_norms(reshape_traces([trace], 2, (math.prod(lead), 1))).reshape(lead)
        return ((trace.inputs**2).sum(-1) + trace.bias) * (trace.errors**2).sum(-1)

    return _sum(layer(trace) for trace in traces)


def mean_gradient(traces: Traces) -> tuple[LayerGradient, ...]:
    """Return the mean gradient of all steps, by layer."""

    def layer(trace: Trace) -> LayerGradient:
        inputs, errors = _flat(trace.inputs), _flat(trace.errors)
        steps = inputs.shape[0] // trace.positions
        bias = errors.sum(0) if trace.bias else jnp.zeros(errors.shape[1])
        return LayerGradient(sum_outer_products(inputs, errors) / steps, bias / steps)

    return tuple(layer(trace) for trace in traces)


def squared_norm(gradient: Sequence[LayerGradient]) -> Array:
    """Return |G|² of one gradient."""
    return _sum((layer.weight**2).sum() + (layer.bias**2).sum() for layer in gradient)


def dots(traces: Traces, gradient: Sequence[LayerGradient]) -> Array:
    """Return ⟨g_i, G⟩ = a·W_G·δ + b_G·δ of every step with one direction: traces [..., …] → [...]."""

    def layer(trace: Trace, direction: LayerGradient) -> Array:
        along = einsum("...i,io->...o", jnp.asarray(trace.inputs), direction.weight) + direction.bias
        product = (along * trace.errors).sum(-1)
        return product.sum(-1) if trace.shared else product

    return _sum(layer(t, d) for t, d in zip(traces, gradient, strict=True))


def minibatch_rows(traces: Traces, indices: Array) -> Array:
    """Return the mean gradients of minibatches: traces [N, T, …], indices of steps [R, M] into N·T → [R, P]."""

    def gather(x: Array) -> Array:
        return jnp.reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:]))[indices]

    return rows([Trace(gather(t.inputs), gather(t.errors), t.bias, t.shared) for t in traces])


def layer_gram(left: Trace, right: Trace) -> Array:
    """Return the contribution of one layer to ⟨g_i, g_j⟩, [S, …] × [R, …] → [S, R].

    With P positions it is Σ_pq (a_ip·a_jq + 1)(δ_ip·δ_jq), which costs P² products per pair; building the step
    gradients of the layer costs in·out per pair. The cheaper one is used.
    """
    if not left.shared:
        inputs = einsum("si,ri->sr", left.inputs, right.inputs)
        return (inputs + left.bias) * einsum("so,ro->sr", left.errors, right.errors)
    (s, p, i), r, o = left.inputs.shape, right.inputs.shape[0], left.errors.shape[-1]
    if s * r * p**2 * (i + o) <= (s + r) * p * i * o + s * r * i * o:
        inputs = einsum("spi,rqi->sprq", left.inputs, right.inputs)
        return einsum("sprq,sprq->sr", inputs + left.bias, einsum("spo,rqo->sprq", left.errors, right.errors))
    return einsum("sx,rx->sr", jax.vmap(sum_outer)(left), jax.vmap(sum_outer)(right))


def sum_outer(trace: Trace) -> Array:
    """Return Σ a ⊗ δ over all leading axes, flattened, followed by Σ δ if there is a bias."""
    inputs, errors = _flat(trace.inputs), _flat(trace.errors)
    weight = sum_outer_products(inputs, errors).reshape(-1)
    return jnp.concatenate([weight, errors.sum(0)]) if trace.bias else weight


def _window_gradient(trace: Trace) -> Array:
    """Return the mean gradient of a window [T, …] for one layer, flattened."""
    return sum_outer(trace) / trace.inputs.shape[0]


_window_gradients: Callable[[Trace], Array] = jax.vmap(_window_gradient)


def _slices(trace: Trace) -> Iterator[Trace]:
    """Split the layer along its outputs, so that the gradients of all windows for one part fit into a chunk."""
    outputs = trace.errors.shape[-1]
    width = max(1, CHUNK // (trace.inputs.shape[0] * (trace.inputs.shape[-1] + 1)))
    for first in range(0, outputs, width):
        yield Trace(trace.inputs, trace.errors[..., first : first + width], trace.bias, trace.shared)


def _flat(x: Array) -> Array:
    return jnp.reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))


def _sum(parts: Iterator[Array]) -> Array:
    total = next(parts)
    for part in parts:
        total = total + part
    return total
