"""Actor and critic networks as pytrees; unbatched, the caller adds vmap.

Orthogonal initialisation: gain √2 inside, .01 for the policy's head, 1 for the value's (Andrychowicz et al. 2020).
"""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from rollshape.envs.spaces import Action, Continuous, Discrete, Observation
from rollshape.geometry.memory import picture_layers

PICTURE_AXES = 3


class Dense(eqx.Module):
    """y = x·W + b, W of shape [in, out]."""

    weight: Array
    bias: Array

    def __init__(self, key: Array, inputs: int, outputs: int, gain: float) -> None:
        self.weight = jax.nn.initializers.orthogonal(gain)(key, (inputs, outputs))
        self.bias = jnp.zeros(outputs)

    def __call__(self, x: Array) -> Array:
        return x @ self.weight + self.bias


class Tower(eqx.Module):
    """Hidden layers with tanh, and a linear head."""

    layers: tuple[Dense, ...]

    def __init__(self, key: Array, sizes: tuple[int, ...], head_gain: float) -> None:
        keys = jax.random.split(key, len(sizes) - 1)
        gains = [math.sqrt(2)] * (len(sizes) - 2) + [head_gain]
        self.layers = tuple(
            Dense(k, a, b, gain) for k, a, b, gain in zip(keys, sizes[:-1], sizes[1:], gains, strict=True)
        )

    def __call__(self, x: Array) -> Array:
        for layer in self.layers[:-1]:
            x = jnp.tanh(layer(x))
        return self.layers[-1](x)


class PictureEncoder(eqx.Module):
    """The usual small CNN, channels last; uint8 is scaled here and not before."""

    kernels: tuple[Array, ...]
    biases: tuple[Array, ...]
    head: Dense
    strides: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, key: Array, shape: tuple[int, ...]) -> None:
        height, width, channels = shape
        layers, features = picture_layers(height, width)
        *keys, head_key = jax.random.split(key, len(layers) + 1)
        kernels, biases, strides = [], [], []
        for k, (filters, kernel, stride) in zip(keys, layers, strict=True):
            matrix = jax.nn.initializers.orthogonal(math.sqrt(2))(k, (kernel * kernel * channels, filters))
            kernels.append(matrix.reshape(kernel, kernel, channels, filters))
            biases.append(jnp.zeros(filters))
            strides.append(stride)
            height, width = (height - kernel) // stride + 1, (width - kernel) // stride + 1
            channels = filters
        self.kernels, self.biases, self.strides = tuple(kernels), tuple(biases), tuple(strides)
        self.head = Dense(head_key, height * width * channels, features, math.sqrt(2))

    @property
    def features(self) -> int:
        return int(self.head.bias.shape[0])

    def __call__(self, picture: Array) -> Array:
        x = picture[None].astype(jnp.float32) / (255.0 if picture.dtype == jnp.uint8 else 1.0)
        for kernel, bias, stride in zip(self.kernels, self.biases, self.strides, strict=True):
            x = jax.lax.conv_general_dilated(
                x, kernel, (stride, stride), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            x = jax.nn.relu(x + bias)
        return jax.nn.relu(self.head(x.reshape(-1)))


class ActorCritic(eqx.Module):
    """Policy outputs and value of an observation: two towers, or two heads on one picture encoder.

    A Gaussian's deviations do not depend on the state: they are a parameter of their own.
    """

    encoder: PictureEncoder | None
    actor: Tower
    critic: Tower
    log_std: Array | None

    def __init__(
        self, key: Array, observation: Observation, action: Action, hidden: tuple[int, ...] = (64, 64)
    ) -> None:
        actor_key, critic_key, encoder_key = jax.random.split(key, 3)
        self.encoder, inputs, layers = None, math.prod(observation.shape), hidden
        if len(observation.shape) == PICTURE_AXES:
            self.encoder = PictureEncoder(encoder_key, observation.shape)
            inputs, layers = self.encoder.features, ()
        outputs = _policy_width(action)
        self.actor = Tower(actor_key, (inputs, *layers, outputs), 0.01)
        self.critic = Tower(critic_key, (inputs, *layers, 1), 1.0)
        self.log_std = jnp.zeros(action.dim) if isinstance(action, Continuous) else None

    def features(self, observation: Array) -> Array:
        return self.encoder(observation) if self.encoder is not None else observation.reshape(-1)

    def __call__(self, observation: Array) -> tuple[Array, Array]:
        """(outputs for the action's distribution, value)."""
        x = self.features(observation)
        return self._outputs(x), self.critic(x)[0]

    def value(self, observation: Array) -> Array:
        return self.critic(self.features(observation))[0]

    def _outputs(self, x: Array) -> Array:
        outputs = self.actor(x)
        return outputs if self.log_std is None else jnp.concatenate([outputs, self.log_std])


def _policy_width(action: Action) -> int:
    if isinstance(action, Discrete):
        return action.n
    return action.dim if isinstance(action, Continuous) else sum(action.choices)
