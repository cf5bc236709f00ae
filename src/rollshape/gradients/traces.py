"""The traces of an ActorCritic: every layer's inputs and errors, by one forward and one backward pass over all steps.

A zero "tap" is added to each layer's output before its activation; the derivative by the taps is the layer's error. The
scores are traced, not the loss: `scaled` by the advantages they are the policy's gradients Σ A·∇log π (ascent), by
2(V − R) the gradients of (V − R)². One pass so serves every estimator of the advantage.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

from rollshape.agents.distributions import ActionDistribution
from rollshape.agents.networks import ActorCritic, ImageEncoder, Tower, patches
from rollshape.gradients.gram import Trace


def policy_traces(
    model: ActorCritic, policy: ActionDistribution, observations: Array, actions: Array
) -> tuple[Trace, ...]:
    """Traces of ∇log π(a|s) by the encoder, the actor and log_std, for observations [..., *shape] and actions."""
    lead, observations = _flattened(model, observations)
    actions = jnp.reshape(actions, (math.prod(lead), *actions.shape[len(lead) :]))

    def log_prob(tape: _Tape) -> Array:
        outputs = tape.tower(model.actor, tape.features(model.encoder, observations))
        if model.log_std is not None:
            outputs = jnp.concatenate([outputs, tape.parameter(model.log_std, outputs.shape[0])], axis=-1)
        return policy.log_prob(outputs, actions).sum()

    return _traces(log_prob, lead)


def value_traces(model: ActorCritic, observations: Array) -> tuple[Trace, ...]:
    """Traces of ∇V(s) by the encoder and the critic, for observations [..., *shape]."""
    lead, observations = _flattened(model, observations)
    return _traces(lambda tape: tape.tower(model.critic, tape.features(model.encoder, observations)).sum(), lead)


class _Tape:
    """The networks of `agents.networks` on a whole batch, with a tap at each layer; remembers what layers saw."""

    def __init__(self, taps: list[Array] | None) -> None:
        self._taps = taps
        self.inputs: list[Array] = []
        self.outputs: list[Array] = []

    def _tap(self, inputs: Array, outputs: Array) -> Array:
        tap = jnp.zeros(()) if self._taps is None else self._taps[len(self.inputs)]
        self.inputs.append(inputs)
        self.outputs.append(outputs)
        return outputs + tap

    def tower(self, tower: Tower, x: Array) -> Array:
        for layer in tower.layers[:-1]:
            x = jnp.tanh(self._tap(x, layer(x)))
        return self._tap(x, tower.layers[-1](x))

    def features(self, encoder: ImageEncoder | None, x: Array) -> Array:
        if encoder is None:
            return x.reshape(x.shape[0], -1)
        x = x.astype(jnp.float32) / (255.0 if x.dtype == jnp.uint8 else 1.0)
        for kernel, bias, stride in zip(encoder.kernels, encoder.biases, encoder.strides, strict=True):
            seen = patches(x, kernel.shape[0], stride)
            x = jax.nn.relu(self._tap(seen, seen @ kernel.reshape(-1, kernel.shape[-1]) + bias))
        x = x.reshape(x.shape[0], -1)
        return jax.nn.relu(self._tap(x, encoder.head(x)))

    def parameter(self, value: Array, steps: int) -> Array:
        """A parameter that sees no input, repeated for each step."""
        return self._tap(jnp.zeros((steps, 0)), jnp.broadcast_to(value, (steps, *value.shape)))


def _traces(total: Callable[[_Tape], Array], lead: tuple[int, ...]) -> tuple[Trace, ...]:
    """Traces of each step's share of a total."""

    def tapped(taps: list[Array] | None) -> tuple[Array, tuple[list[Array], list[Array]]]:
        tape = _Tape(taps)
        return total(tape), (tape.inputs, tape.outputs)

    shapes = jax.eval_shape(lambda: tapped(None))[1][1]
    errors, (inputs, _) = jax.grad(tapped, has_aux=True)([jnp.zeros(s.shape, s.dtype) for s in shapes])

    def trace(a: Array, delta: Array) -> Trace:
        shared = a.ndim > 2  # [B, H, W, in]: a convolution's patches
        positions = (math.prod(a.shape[1:-1]),) if shared else ()
        return Trace(
            a.reshape(*lead, *positions, a.shape[-1]), delta.reshape(*lead, *positions, delta.shape[-1]), shared=shared
        )

    return tuple(trace(a, delta) for a, delta in zip(inputs, errors, strict=True))


def _flattened(model: ActorCritic, observations: Array) -> tuple[tuple[int, ...], Array]:
    """The leading axes, and observations [B, *shape] with those axes made one."""
    axes = 3 if model.encoder is not None else 1
    lead = observations.shape[: observations.ndim - axes]
    return lead, jnp.reshape(observations, (math.prod(lead), *observations.shape[observations.ndim - axes :]))
