"""Memory estimates before launch: what the process of a run holds at its peak, and what it transfers.

A run has two moments at which it needs most memory: while its program is compiled, and while the program runs. Both
hold the interpreter with its libraries, the environments, the networks and the replay buffer. The constants are
measured (benchmarks/memory.py), everything else is counted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from rollshape.errors import RequestError, did_you_mean
from rollshape.formatting import format_bytes
from rollshape.geometry.algorithms import RULES
from rollshape.geometry.layout import BULK_ROWS, auto_microbatch, auto_shards
from rollshape.geometry.machine import machine
from rollshape.geometry.network import NetworkSize, is_image, network_size
from rollshape.geometry.request import Request

FLOAT = 4
SCORE_ENVS = 16  # host environments that a score creates, in addition to those of the training
MONITOR_VECTORS = 13  # of the size of the network: the actor's gradients of 8 groups, three times

# JAX on a CPU. The compiler's part is on top of the program's, and grows with the length of what it compiles.
PROGRAM_BYTES = 330_000_000  # Python, JAX and the compiled programs
COMPILER_BYTES = 250_000_000
FULL_BATCH_COMPILER_BYTES = 190_000_000  # without minibatches and epochs
REPLAY_COMPILER_BYTES = 320_000_000
SUBSEQUENCES_COMPILER_BYTES = 390_000_000
HOST_COMPILER_BYTES = 140_000_000  # the environments are not part of the program
IMAGE_COMPILER_BYTES = 70_000_000  # convolutions, in addition

_DTYPE_BYTES = {
    "bool": 1, "uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "float16": 2, "bfloat16": 2,
    "uint32": 4, "int32": 4, "float32": 4, "uint64": 8, "int64": 8, "float64": 8,
}  # fmt: skip
_WORK = ("rollout_bytes", "copy_bytes", "minibatch_bytes", "gradient_bytes", "activation_bytes")
_CARRIED = ("parameter_bytes", "optimizer_bytes", "env_bytes", "replay_bytes", "library_bytes", "program_bytes")
_PARTS = (*_WORK, *_CARRIED, "compiler_bytes")


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of one run in bytes. `peak_bytes`, the sum of all parts, is held at once by the process.

    `compiler_bytes` is what the compiler needs beyond the program that then runs: it is 0 for large runs, and a run
    whose program is in the compilation cache peaks lower by this. `traffic_bytes` is transferred per iteration.
    """

    rollout_bytes: int
    minibatch_bytes: int
    parameter_bytes: int
    optimizer_bytes: int
    gradient_bytes: int
    activation_bytes: int
    env_bytes: int
    replay_bytes: int
    copy_bytes: int  # what collecting needs beyond the rollout and beyond what learning needs
    library_bytes: int
    program_bytes: int
    compiler_bytes: int
    peak_bytes: int
    traffic_bytes: int
    machine_bytes: int | None  # None where it is unknown, as in a browser
    observation_known: bool

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Memory:
        """Return the estimate that `to_dict` wrote; parts that an older version did not know are 0."""
        return cls(**{field.name: document.get(field.name, 0) for field in fields(cls)})


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


def on_policy_memory(request: Request, num_envs: int, rollout_size: int, minibatch_size: int) -> Memory:
    """Estimate on-policy memory. Every shard has a copy of the network, of Adam's moments and of the gradient."""
    size = network_size(request, request.action_dim or 1, 1)
    shards, microbatch = _layout(request, num_envs, minibatch_size, size.activations)
    is_split = shards * microbatch < minibatch_size
    observation, normalized = observation_bytes(request), 0
    if request.normalize_observations:
        normalized = FLOAT * math.prod(request.obs_shape or ())  # in addition to the original one
    # Reward, log π, V, V of the final observation, step, length and return of the episode; two flags.
    sample = observation + normalized + action_bytes(request) + 7 * FLOAT + 2
    row = (normalized or observation) + action_bytes(request) + 4 * FLOAT  # log π, V, advantage, return
    network = shards * FLOAT * size.parameters
    learning = {
        # As gathered, and cut into microbatches.
        "minibatch_bytes": (RULES[request.algo].uses_minibatches + is_split) * minibatch_size * row,
        "gradient_bytes": network * _gradient_vectors(request, is_shared=is_split or shards > 1),
        # Of the forward pass; the gradient of one layer, and the layer's input transposed.
        "activation_bytes": FLOAT * shards * microbatch * (size.activations + 2 * size.widest),
    }
    learning_bytes = 2 * FLOAT * rollout_size + sum(learning.values())
    if request.host_envs:  # a copy for the compiled program, which then evaluates the network on all of it
        acting = shards * _rows_at_once(request, num_envs // shards, rollout_size // shards)
        copy = rollout_size * sample + max(0, 2 * FLOAT * acting * size.widest - learning_bytes)
    else:
        copy = max(0, _collecting_bytes(request, num_envs, rollout_size, sample + normalized, size) - learning_bytes)
    return _total(
        request,
        num_envs,
        rollout_bytes=rollout_size * sample,
        copy_bytes=copy + 2 * FLOAT * rollout_size,
        parameter_bytes=network * (1 + RULES[request.algo].averages_network),
        optimizer_bytes=2 * network,
        **learning,
    )


def _layout(request: Request, num_envs: int, minibatch_size: int, activations: int) -> tuple[int, int]:
    """Return (number of shards, samples per microbatch), as requested or as the trainer chooses them."""
    shards = request.num_shards if request.num_shards != "auto" else auto_shards(num_envs, minibatch_size)
    part = max(1, minibatch_size // shards)
    return shards, request.microbatch_size if request.microbatch_size != "auto" else auto_microbatch(activations, part)


def _gradient_vectors(request: Request, *, is_shared: bool) -> int:
    """Return how many vectors of the size of the network a gradient step holds, in addition to its state.

    These are the parameters as one vector, the gradient and Adam's step; the sum over microbatches or shards; the
    moving average; the parameters and moments to return to when target_kl stops an update.
    """
    count = 3 + is_shared + RULES[request.algo].averages_network + 2 * (request.target_kl is not None)
    return max(count, MONITOR_VECTORS) if request.monitor_gradients else count


def _collecting_bytes(request: Request, num_envs: int, rollout_size: int, sample: int, size: NetworkSize) -> int:
    """Return what collecting needs beyond the rollout: random numbers and the activations of all environments, and
    then a copy of the rollout, for the program's branch that learns."""
    keys, noise = 2 * FLOAT * rollout_size, FLOAT * (request.action_dim or 1) * rollout_size
    # A layer's inputs and outputs.
    acting = 2 * FLOAT * _rows_at_once(request, num_envs, rollout_size) * size.widest
    return keys + max(noise + acting, rollout_size * sample)


def _rows_at_once(request: Request, num_envs: int, rollout_size: int) -> int:
    """Return how many observations of a shard the network evaluates at once."""
    return num_envs if is_image(request) else min(rollout_size, max(num_envs, BULK_ROWS))


def replay_memory(
    request: Request,
    *,
    num_envs: int,
    rollout_size: int,
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
    size = network_size(request, request.action_dim or 1)
    critics = 1 if is_image(request) else 2  # which share an image encoder
    trained, copies = 1 + critics + (rrd_batch_size > 0), critics  # actor, critics, reward network; target critics
    network = FLOAT * size.parameters
    # Of the actor and the critics, with the inputs of activation functions; the reward network reads two observations.
    passes = 2 if is_image(request) else 2 * (1 + critics)
    activations = (passes * transition_batch_size + 2 * rrd_batch_size) * size.activations
    errors = (critics * transition_batch_size + rrd_batch_size) * size.widest  # the gradient of one layer
    # In addition to observation, final observation and action: four numbers of the episode and two flags.
    sample = 2 * observation + action + 4 * FLOAT + 2
    return _total(
        request,
        num_envs,
        rollout_bytes=rollout_size * sample,
        copy_bytes=train_batches * (transition_batch_size * (2 * FLOAT + 2 * action) + 2 * FLOAT * rrd_batch_size),
        replay_bytes=buffer_size * (observation + action + 2 * FLOAT + 1),
        minibatch_bytes=batch,
        parameter_bytes=network * (trained + copies),
        optimizer_bytes=network * 2 * trained,
        gradient_bytes=network * (2 * trained + copies),  # gradients, and all networks after the step
        activation_bytes=FLOAT * (activations + errors),
        traffic_bytes=train_batches * batch,
    )


def _total(request: Request, num_envs: int, *, traffic_bytes: int = 0, **parts: int) -> Memory:
    envs = num_envs + SCORE_ENVS if request.host_envs else num_envs
    fixed = {
        "env_bytes": envs * (request.env_bytes or 0),
        "library_bytes": request.library_bytes or 0,
        "program_bytes": PROGRAM_BYTES,
    }
    work = sum(parts.get(name, 0) for name in _WORK)
    parts = {**dict.fromkeys(_PARTS, 0), **parts, **fixed, "compiler_bytes": max(0, _compiler_bytes(request) - work)}
    return Memory(
        **parts,
        traffic_bytes=traffic_bytes,
        peak_bytes=sum(parts.values()),
        machine_bytes=machine().memory_bytes,
        observation_known=request.obs_shape is not None,
    )


def _compiler_bytes(request: Request) -> int:
    rules, images = RULES[request.algo], IMAGE_COMPILER_BYTES * is_image(request)
    if request.host_envs:
        return HOST_COMPILER_BYTES + images
    if rules.uses_replay:
        return images + (SUBSEQUENCES_COMPILER_BYTES if rules.uses_subsequences else REPLAY_COMPILER_BYTES)
    return images + (FULL_BATCH_COMPILER_BYTES if rules.full_batch else COMPILER_BYTES)


def fits(memory: Memory) -> bool:
    """Return whether the peak fits into the machine's memory, or whether that is unknown."""
    return memory.machine_bytes is None or memory.peak_bytes <= memory.machine_bytes


def check_memory(memory: Memory, alternative: dict[str, int]) -> None:
    """Raise a RequestError if the peak exceeds the machine's memory; `alternative` are sizes that fit, if any."""
    if memory.machine_bytes is None or fits(memory):
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
