"""Memory estimates before launch: what a run holds at its peak, and what it transfers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from rollshape.errors import RequestError, did_you_mean
from rollshape.formatting import format_bytes
from rollshape.geometry.layout import auto_microbatch, auto_shards
from rollshape.geometry.machine import machine
from rollshape.geometry.request import Request

FLOAT = 4
PROGRAM_BYTES = 400_000_000  # measured for JAX on a CPU (benchmarks/memory.py), mostly the compiler
_DTYPE_BYTES = {
    "bool": 1, "uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "float16": 2, "bfloat16": 2,
    "uint32": 4, "int32": 4, "float32": 4, "uint64": 8, "int64": 8, "float64": 8,
}  # fmt: skip
_NATURE_SMALLEST_SIDE = 36  # smaller images have no pixels left after the strides
_PARTS = (
    "rollout_bytes", "minibatch_bytes", "parameter_bytes", "optimizer_bytes", "activation_bytes",
    "env_bytes", "replay_bytes", "copy_bytes", "program_bytes",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of one run in bytes. `peak_bytes` is held at once; `traffic_bytes` is transferred per iteration."""

    rollout_bytes: int
    minibatch_bytes: int
    parameter_bytes: int
    optimizer_bytes: int
    activation_bytes: int
    env_bytes: int
    replay_bytes: int
    copy_bytes: int  # a second copy of the rollout, in the layout that the update reads
    program_bytes: int  # compiler and runtime, independent of the shape
    peak_bytes: int
    traffic_bytes: int
    machine_bytes: int
    observation_known: bool

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Memory:
        """Return the estimate that `to_dict` wrote."""
        return cls(**{field.name: document[field.name] for field in fields(cls)})


def dtype_bytes(name: str) -> int:
    """Return the bytes of one element of a dtype."""
    try:
        return _DTYPE_BYTES[str(name).lower()]
    except KeyError:
        known = ", ".join(_DTYPE_BYTES)
        raise RequestError(
            "choice", f"Unknown obs_dtype {name!r}.", f"{did_you_mean(str(name), _DTYPE_BYTES)}Use one of {known}."
        ) from None


def observation_bytes(request: Request) -> int:
    """Return the bytes of one observation; 0 if its shape is unknown."""
    return math.prod(request.obs_shape) * dtype_bytes(request.obs_dtype) if request.obs_shape else 0


def action_bytes(request: Request) -> int:
    """Return the bytes of one action."""
    return FLOAT * (request.action_dim or 1) if request.action_kind == "continuous" else FLOAT


def picture_layers(height: int, width: int) -> tuple[tuple[tuple[int, int, int], ...], int]:
    """Return ((channels, kernel, stride) of each convolution, number of features) of the default CNN.

    It is that of Mnih et al. 2015, or a single layer for small grids such as MinAtar's 10 × 10.
    """
    if min(height, width) >= _NATURE_SMALLEST_SIDE:
        return ((32, 8, 4), (64, 4, 2), (64, 3, 1)), 512
    return ((16, 3, 1),), 128


def _encoder(obs_shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Return (parameters, activations, features) of an image encoder; a convolution also stores its input patches."""
    channels = min(obs_shape[0], obs_shape[-1])
    height, width = obs_shape[:2] if channels == obs_shape[-1] else obs_shape[1:]
    layers, features = picture_layers(height, width)
    parameters = activations = 0
    for filters, kernel, stride in layers:
        height, width = ((side - kernel) // stride + 1 for side in (max(height, kernel), max(width, kernel)))
        parameters += (kernel * kernel * channels + 1) * filters
        activations += height * width * (kernel * kernel * channels + filters)
        channels = filters
    parameters += (height * width * channels + 1) * features
    return parameters, activations + features, features


def network_size(request: Request, *heads: int) -> tuple[int, int]:
    """Return (parameters, activations per sample) of MLPs with these output sizes; they share an image encoder."""
    obs_shape = request.obs_shape or (1,)
    if len(obs_shape) == 3:
        parameters, activations, width = _encoder(obs_shape)
        return parameters + sum((width + 1) * head for head in heads), activations + sum(heads)
    parameters = activations = 0
    for head in heads:
        width = math.prod(obs_shape)
        for layer in (*request.hidden_sizes, head):
            parameters += (width + 1) * layer
            activations += layer
            width = layer
    return parameters, activations


def on_policy_memory(request: Request, num_envs: int, rollout_size: int, minibatch_size: int) -> Memory:
    """Estimate on-policy memory: the rollout, one minibatch with its activations, the network and Adam."""
    # In addition to observation and action: log π, V, reward, advantage, return, bootstrap value, two flags.
    sample = observation_bytes(request) + action_bytes(request) + 6 * FLOAT + 2
    parameters, activations = network_size(request, request.action_dim or 1, 1)
    shards = auto_shards(num_envs, minibatch_size)
    at_once = shards * auto_microbatch(activations, minibatch_size // shards)
    return _total(
        request,
        num_envs,
        rollout_bytes=rollout_size * sample,
        minibatch_bytes=minibatch_size * sample,
        parameter_bytes=FLOAT * parameters,
        optimizer_bytes=3 * FLOAT * parameters,  # gradient and Adam's two moments
        activation_bytes=round(
            1.25 * FLOAT * at_once * activations
        ),  # of the forward pass, and the gradients of one layer
        copy_bytes=rollout_size * sample,
    )


def replay_memory(
    request: Request,
    *,
    num_envs: int,
    buffer_size: int,
    transition_batch_size: int,
    rrd_batch_size: int,
    train_batches: int,
) -> Memory:
    """Estimate the memory of SAC and RRD: the buffer stores each observation once, a batch with its successor.

    In addition to observation and action, a slot of the buffer has a reward, an episode index and its type.
    """
    observation, action = observation_bytes(request), action_bytes(request)
    batch = (transition_batch_size + rrd_batch_size) * (2 * observation + action + FLOAT + 1)
    parameters, activations = network_size(request, request.action_dim or 1)  # each network has its own encoder
    trained, copies = 4 if rrd_batch_size else 3, 2  # policy, twin critics, reward network; target critics
    return _total(
        request,
        num_envs,
        replay_bytes=buffer_size * (observation + action + 2 * FLOAT + 1),
        minibatch_bytes=batch,
        parameter_bytes=FLOAT * (trained + copies) * parameters,
        optimizer_bytes=3 * FLOAT * trained * parameters,
        activation_bytes=2 * FLOAT * (3 * transition_batch_size + rrd_batch_size) * activations,
        traffic_bytes=train_batches * batch,
    )


def _total(request: Request, num_envs: int, *, traffic_bytes: int = 0, **parts: int) -> Memory:
    fixed = {"env_bytes": num_envs * (request.env_bytes or 0), "program_bytes": PROGRAM_BYTES}
    parts = {**dict.fromkeys(_PARTS, 0), **parts, **fixed}
    return Memory(
        **parts,
        traffic_bytes=traffic_bytes,
        peak_bytes=sum(parts.values()),
        machine_bytes=machine().memory_bytes,
        observation_known=request.obs_shape is not None,
    )


def check_memory(memory: Memory, alternative: dict[str, int]) -> None:
    """Raise a RequestError if the peak exceeds the machine's memory; `alternative` are sizes that fit, if any."""
    if memory.peak_bytes <= memory.machine_bytes:
        return
    parts = {name: size for name, size in memory.to_dict().items() if name in _PARTS}
    largest = max(parts, key=lambda name: parts[name])
    sizes = ", ".join(f"{name} {value:,}" for name, value in alternative.items())
    raise RequestError(
        "memory",
        f"The run needs {format_bytes(memory.peak_bytes)} of memory; this machine has "
        f"{format_bytes(memory.machine_bytes)}. Largest part: {largest.removesuffix('_bytes')}, "
        f"{format_bytes(parts[largest])}.",
        f"These sizes fit: {sizes}." if alternative else "Even a single sample does not fit; use another machine.",
        [alternative] if alternative else (),
    )
