"""Traces of an ActorCritic: every layer's inputs and errors, by one forward and one backward pass over all steps.

Supported are dense towers with any elementwise activation, the built-in CNN encoder and a state-independent log_std.
Other networks have no traces; see `scores` for the fallback.

A zero "tap" is added to each layer's output before its activation; the derivative by the taps is the layer's error. The
scores are traced, not the loss: scaled by the advantages they are the policy's gradients Σ A·∇log π (ascent), scaled by
2(V − R) the gradients of (V − R)². One pass thus serves every estimator of the advantage.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from rollshape.agents.distributions import ActionDistribution
from rollshape.agents.networks import ActorCritic, ImageEncoder, Tower, patches
from rollshape.gradients.gram import Trace

Activation = Callable[[Array], Array]


def supports(network: Any) -> bool:
    """Whether the layers of a network are known here; a subclass may compute something else."""
    return type(network) is ActorCritic


def policy_traces(
    network: ActorCritic, distribution: ActionDistribution, observations: Array, actions: Array
) -> tuple[Trace, ...]:
    """Trace ∇log π(a|s) by the encoder, the actor and log_std, for observations [..., *shape] and actions."""
    lead, observations = _flatten(network, observations)
    actions = jnp.reshape(actions, (math.prod(lead), *actions.shape[len(lead) :]))

    def log_prob(tape: _Tape) -> Array:
        outputs = tape.tower(network.actor, tape.features(network.encoder, observations))
        if network.log_std is not None:
            outputs = jnp.concatenate([outputs, tape.parameter(network.log_std, outputs.shape[0])], axis=-1)
        return distribution.log_prob(outputs, actions).sum()

    return _trace(log_prob, lead, _activation(network))


def value_traces(network: ActorCritic, observations: Array) -> tuple[Trace, ...]:
    """Trace ∇V(s) by the encoder and the critic, for observations [..., *shape]."""
    lead, observations = _flatten(network, observations)

    def value(tape: _Tape) -> Array:
        return tape.tower(network.critic, tape.features(network.encoder, observations)).sum()

    return _trace(value, lead, _activation(network))


def _activation(network: ActorCritic) -> Activation:
    """Return the activation of the towers' hidden layers."""
    activation: Activation = getattr(network, "activation", jnp.tanh)
    return activation


class _Tape:
    """The networks of `agents.networks` on a whole batch, with a tap at each layer; records what every layer reads."""

    def __init__(self, taps: list[Array] | None, activation: Activation) -> None:
        self._taps, self._activation = taps, activation
        self.inputs: list[Array] = []
        self.outputs: list[Array] = []

    def _tap(self, inputs: Array, outputs: Array) -> Array:
        tap = jnp.zeros(()) if self._taps is None else self._taps[len(self.inputs)]
        self.inputs.append(inputs)
        self.outputs.append(outputs)
        return outputs + tap

    def tower(self, tower: Tower, x: Array) -> Array:
        for layer in tower.layers[:-1]:
            x = self._activation(self._tap(x, layer(x)))
        return self._tap(x, tower.layers[-1](x))

    def features(self, encoder: ImageEncoder | None, x: Array) -> Array:
        if encoder is None:
            return x.reshape(x.shape[0], -1)
        x = x.astype(jnp.float32) / (255.0 if x.dtype == jnp.uint8 else 1.0)
        for kernel, bias, stride in zip(encoder.kernels, encoder.biases, encoder.strides, strict=True):
            inputs = patches(x, kernel.shape[0], stride)
            x = jax.nn.relu(self._tap(inputs, inputs @ kernel.reshape(-1, kernel.shape[-1]) + bias))
        x = x.reshape(x.shape[0], -1)
        return jax.nn.relu(self._tap(x, encoder.head(x)))

    def parameter(self, value: Array, steps: int) -> Array:
        """Repeat a parameter that has no input for every step."""
        return self._tap(jnp.zeros((steps, 0)), jnp.broadcast_to(value, (steps, *value.shape)))


def _trace(total: Callable[[_Tape], Array], lead: tuple[int, ...], activation: Activation) -> tuple[Trace, ...]:
    """Trace every step's term of a sum over steps."""

    def run(taps: list[Array] | None) -> tuple[Array, tuple[list[Array], list[Array]]]:
        tape = _Tape(taps, activation)
        return total(tape), (tape.inputs, tape.outputs)

    shapes = jax.eval_shape(lambda: run(None))[1][1]
    errors, (inputs, _) = jax.grad(run, has_aux=True)([jnp.zeros(s.shape, s.dtype) for s in shapes])

    def trace(a: Array, delta: Array) -> Trace:
        shared = a.ndim > 2  # [B, H, W, in]: a convolution's patches
        positions = (math.prod(a.shape[1:-1]),) if shared else ()
        return Trace(
            a.reshape(*lead, *positions, a.shape[-1]), delta.reshape(*lead, *positions, delta.shape[-1]), shared=shared
        )

    return tuple(trace(a, delta) for a, delta in zip(inputs, errors, strict=True))


def _flatten(network: ActorCritic, observations: Array) -> tuple[tuple[int, ...], Array]:
    """Return the leading axes, and the observations with these axes merged into one, [B, *shape]."""
    axes = 3 if network.encoder is not None else 1
    lead = observations.shape[: observations.ndim - axes]
    return lead, jnp.reshape(observations, (math.prod(lead), *observations.shape[observations.ndim - axes :]))
