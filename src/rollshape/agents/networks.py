"""Actor and critic networks as pytrees; they take batches of observations.

Orthogonal initialization: gain √2 inside, .01 for the policy's head, 1 for the value's (Andrychowicz et al. 2020).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from rollshape.agents.activations import ACTIVATIONS, Activation, ActivationName, tanh
from rollshape.agents.arrays import namespace
from rollshape.agents.products import multiply
from rollshape.envs.spaces import Action, Continuous, Discrete, Observation
from rollshape.geometry.network import picture_layers

IMAGE_AXES = 3


class Dense(eqx.Module):
    """y = x·W + b, W of shape [in, out]."""

    weight: Array
    bias: Array

    def __call__(self, x: Array) -> Array:
        return multiply(x, self.weight) + self.bias


def new_dense(key: Array, inputs: int, outputs: int, gain: float) -> Dense:
    return Dense(jax.nn.initializers.orthogonal(gain)(key, (inputs, outputs)), jnp.zeros(outputs))


class Tower(eqx.Module):
    """Hidden layers with an activation, and a linear head."""

    layers: tuple[Dense, ...]
    activation: Activation = eqx.field(static=True, default=tanh)

    def __call__(self, x: Array) -> Array:
        return apply_layers([(layer.weight, layer.bias) for layer in self.layers], self.activation, x)


def apply_layers(layers: Sequence[tuple[Array, Array]], activation: Activation, x: Array) -> Array:
    """Apply the (W, b) of each layer, with the activation between layers."""
    for weight, bias in layers[:-1]:
        x = activation(multiply(x, weight) + bias)
    weight, bias = layers[-1]
    return multiply(x, weight) + bias


def new_tower(key: Array, sizes: tuple[int, ...], head_gain: float) -> Tower:
    keys = jax.random.split(key, len(sizes) - 1)
    gains = [math.sqrt(2)] * (len(sizes) - 2) + [head_gain]
    return Tower(
        tuple(new_dense(k, a, b, gain) for k, a, b, gain in zip(keys, sizes[:-1], sizes[1:], gains, strict=True))
    )


class ImageEncoder(eqx.Module):
    """The usual small CNN, channels last. It scales uint8 images itself.

    A convolution is a matrix product with its patches: in a loop on a CPU, XLA's convolution runs at a twentieth of
    that speed (84 × 84 × 4, 256 samples, forward and backward: 4.5 s against .2 s).
    """

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
        self.head = new_dense(head_key, height * width * channels, features, math.sqrt(2))

    @property
    def features(self) -> int:
        return int(self.head.bias.shape[0])

    def __call__(self, images: Array) -> Array:
        """Return features [M, …] of images [M, height, width, channels]."""
        x = images.astype(jnp.float32) / (255.0 if images.dtype == jnp.uint8 else 1.0)
        for kernel, bias, stride in zip(self.kernels, self.biases, self.strides, strict=True):
            x = jax.nn.relu(patches(x, kernel.shape[0], stride) @ kernel.reshape(-1, kernel.shape[-1]) + bias)
        return jax.nn.relu(self.head(x.reshape(x.shape[0], -1)))


def patches(x: Array, kernel: int, stride: int) -> Array:
    """Return the patches of an unpadded convolution, [M, H, W, C] → [M, H′, W′, kernel·kernel·C]."""
    height, width = ((side - kernel) // stride * stride + 1 for side in x.shape[1:3])
    shifts = itertools.product(range(kernel), repeat=2)
    return jnp.concatenate([x[:, i : i + height : stride, j : j + width : stride] for i, j in shifts], axis=-1)


class TwinTowers(eqx.Module):
    """Actor and critic side by side: two towers over one input whose layers share a matrix product each.

    At 128 samples that takes two thirds of the time of separate products. Hidden weights are [2, in, out]; index 0 is
    the actor's.
    """

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    actor_head: Dense
    critic_head: Dense
    activation: Activation = eqx.field(static=True)

    def __init__(self, actor: Tower, critic: Tower, activation: Activation = tanh) -> None:
        self.activation = activation
        *pairs, (self.actor_head, self.critic_head) = zip(actor.layers, critic.layers, strict=True)
        self.weights = tuple(jnp.stack([a.weight, c.weight]) for a, c in pairs)
        self.biases = tuple(jnp.stack([a.bias, c.bias]) for a, c in pairs)

    def tower(self, index: int) -> Tower:
        """The actor (0) or the critic (1) by itself."""
        hidden = (Dense(weight[index], bias[index]) for weight, bias in zip(self.weights, self.biases, strict=True))
        return Tower((*hidden, self.critic_head if index else self.actor_head), self.activation)

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """[M, in] → (the actor's outputs [M, …], the critic's [M, 1])."""
        if not self.weights:
            return self.actor_head(x), self.critic_head(x)
        h = jnp.broadcast_to(x, (2, *x.shape))
        for weight, bias in zip(self.weights, self.biases, strict=True):
            h = self.activation(multiply(h, weight) + bias[:, None])
        outputs = multiply(h, self._head_weights())
        return outputs[0] + self.actor_head.bias, outputs[1, :, :1] + self.critic_head.bias

    def _head_weights(self) -> Array:
        """Return the weights of both heads, [2, in, outputs], the critic's with columns of zeros."""
        actor, critic = self.actor_head.weight, self.critic_head.weight
        return jnp.stack([actor, jnp.pad(critic, ((0, 0), (0, actor.shape[1] - 1)))])


class ActorCritic(eqx.Module):
    """Policy outputs and values of observations: twin towers, or two heads on one picture encoder.

    A Gaussian's deviations do not depend on the state: they are a separate parameter.
    """

    encoder: ImageEncoder | None
    towers: TwinTowers
    log_std: Array | None
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(
        self, key: Array, observation: Observation, action: Action, hidden: tuple[int, ...] = (64, 64),
        activation: ActivationName = "tanh",
    ) -> None:  # fmt: skip
        actor_key, critic_key, encoder_key = jax.random.split(key, 3)
        self.shape = observation.shape
        self.encoder, inputs, layers = None, math.prod(observation.shape), hidden
        if len(observation.shape) == IMAGE_AXES:
            self.encoder = ImageEncoder(encoder_key, observation.shape)
            inputs, layers = self.encoder.features, ()
        outputs = _policy_width(action)
        self.towers = TwinTowers(
            new_tower(actor_key, (inputs, *layers, outputs), 0.01),
            new_tower(critic_key, (inputs, *layers, 1), 1.0),
            ACTIVATIONS[activation],
        )
        self.log_std = jnp.zeros(action.dim) if isinstance(action, Continuous) else None

    @property
    def shares_layers(self) -> bool:
        """Whether actor and critic share an encoder."""
        return self.encoder is not None

    @property
    def activation(self) -> Activation:
        """The activation of the hidden layers; an image encoder's is always ReLU."""
        return self.towers.activation

    @property
    def actor(self) -> Tower:
        return self.towers.tower(0)

    @property
    def critic(self) -> Tower:
        return self.towers.tower(1)

    def features(self, observations: Array) -> Array:
        """[..., *shape] → [M, in], the leading axes as one."""
        return rows_of(self.encoder, self.shape, observations)

    def __call__(self, observations: Array) -> tuple[Array, Array]:
        """(outputs for the action's distribution, values) of observations [..., *shape]."""
        leading = _leading(self.shape, observations)
        outputs, values = self.towers(self.features(observations))
        return with_deviations(self.log_std, outputs.reshape(*leading, -1)), values.reshape(leading)

    def actor_fn(self) -> Callable[[Array], Array]:
        """The policy's half by itself: observations → outputs; NumPy's where the network's arrays are.

        Everything is looked up beforehand: that takes longer in a Module than the arithmetic of 64 observations.
        """
        layers = [(layer.weight, layer.bias) for layer in self.actor.layers]
        encoder, shape, log_std, activation = self.encoder, self.shape, self.log_std, self.activation
        return lambda observations: with_deviations(
            log_std,
            apply_layers(layers, activation, rows_of(encoder, shape, observations)).reshape(
                *_leading(shape, observations), -1
            ),
        )

    def value(self, observations: Array) -> Array:
        return self.critic(self.features(observations)).reshape(_leading(self.shape, observations))


def rows_of(encoder: ImageEncoder | None, shape: tuple[int, ...], observations: Array) -> Array:
    """Observations [..., *shape] as the towers take them, [M, in]."""
    rows = observations.reshape(-1, *shape)
    return encoder(rows) if encoder is not None else rows.reshape(rows.shape[0], -1)


def with_deviations(log_std: Array | None, outputs: Array) -> Array:
    """A Gaussian's means followed by the logarithms of its deviations; other outputs as they are."""
    if log_std is None:
        return outputs
    xp = namespace(outputs)
    both: Array = xp.concatenate([outputs, xp.broadcast_to(log_std, outputs.shape)], axis=-1)
    return both


def _leading(shape: tuple[int, ...], observations: Array) -> tuple[int, ...]:
    return observations.shape[: observations.ndim - len(shape)]


def _policy_width(action: Action) -> int:
    if isinstance(action, Discrete):
        return action.n
    return action.dim if isinstance(action, Continuous) else sum(action.choices)
