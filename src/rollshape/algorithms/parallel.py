"""Data parallelism behind one call, `mean_gradient`: shards of environments, microbatches, a flat parameter vector.

A rollout is split over its environments into S shards, each computed by a JAX device. Parameters and gradient are one
flat vector, so that a gradient step needs one sum over the shards, its metrics included. A shard adds its microbatches
one after the other, and the shards' partial sums are added in the order of their indices: S and the microbatch size are
part of the spec and fix the order of every sum. On a CPU a device is only a thread, so S of them exist on any number of
cores, and the same program gives the same numbers, bit for bit.
"""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.experimental import multihost_utils
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from rollshape.agents.normalizer import Moments, compute_moments
from rollshape.algorithms.shuffle import draw_salts, permutation_by
from rollshape.envs.spaces import Observation
from rollshape.errors import RequestError
from rollshape.geometry.divisors import divisors
from rollshape.geometry.layout import auto_microbatch, auto_shards
from rollshape.geometry.network import network_size
from rollshape.geometry.plan import Plan
from rollshape.geometry.request import Request

AXIS = "shard"
_spec: Any = PartitionSpec
REPLICATED: Any = _spec()  # the same on every device
BY_ENV: Any = _spec(AXIS)  # [N, …], split over the environments
TIME_MAJOR: Any = _spec(None, AXIS)  # [T, N, …], split over the environments

Metrics = TypeVar("Metrics", bound=NamedTuple)


def reserve_devices(count: int = 2) -> None:
    """Give JAX at least `count` CPU devices, and two. This has no effect once JAX has computed something."""
    config: Any = jax.config
    with contextlib.suppress(RuntimeError):
        if config.jax_num_cpu_devices < max(2, count):
            config.update("jax_num_cpu_devices", max(2, count))


@dataclass(frozen=True)
class Layout:
    """Number of shards, and samples per gradient kernel."""

    num_shards: int
    microbatch_size: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def choose_layout(
    plan: Plan,
    observation: Observation,
    num_outputs: int,
    *,
    num_shards: int | str = "auto",
    microbatch_size: int | str = "auto",
    hidden_sizes: tuple[int, ...] = (64, 64),
) -> Layout:
    """Return the layout of a run, as requested or by formula; raise RequestError where sizes do not divide."""
    shards = auto_shards(plan.num_envs, plan.minibatch_size) if isinstance(num_shards, str) else num_shards
    for name, size in (("num_envs", plan.num_envs), ("minibatch_size", plan.minibatch_size)):
        if size % shards:
            legal = [d for d in divisors(plan.num_envs) if plan.minibatch_size % d == 0]
            raise RequestError(
                "layout",
                f"{name} = {size} is not a multiple of num_shards = {shards}.",
                f"Choose one of {', '.join(map(str, legal))}.",
            )
    part = plan.minibatch_size // shards
    if isinstance(microbatch_size, str):
        request = Request(obs_shape=observation.shape, hidden_sizes=hidden_sizes)
        microbatch = auto_microbatch(network_size(request, num_outputs, 1).activations, part)
    else:
        microbatch = microbatch_size
    if part % microbatch:
        raise RequestError(
            "layout",
            f"A shard's part of a minibatch, {part} samples, is not a multiple of microbatch_size = {microbatch}.",
            f"Choose a divisor of {part}.",
        )
    return Layout(shards, microbatch)


class FlatParameters(eqx.Module):
    """A network's parameters as one vector; `network` is the module they belong to."""

    vector: Array
    unravel: Callable[[Array], Any] = eqx.field(static=True)

    @property
    def network(self) -> Any:
        return self.unravel(self.vector)

    def replace(self, vector: Array) -> FlatParameters:
        return FlatParameters(vector, self.unravel)


def flatten(network: Any) -> FlatParameters:
    return FlatParameters(*ravel_pytree(network))


class Parallel:
    """The shards of a run. Inside `shard_map`, arrays are the shard's own part."""

    def __init__(self, layout: Layout) -> None:
        count = layout.num_shards
        reserve_devices(count)
        self.layout, self.num_shards = layout, count
        self._mesh = Mesh(_shard_devices(count), (AXIS,))

    def index(self) -> Array:
        """Return the index of this shard."""
        if self.num_shards == 1:
            return jnp.zeros((), jnp.int32)
        return jax.lax.axis_index(AXIS)

    def sum(self, tree: Any) -> Any:
        """Sum over the shards, in the order of their indices."""
        if self.num_shards == 1:  # an exchange with nobody still copies
            return tree

        def one(x: Array) -> Any:
            parts = jax.lax.all_gather(x, AXIS)
            return functools.reduce(operator.add, (parts[i] for i in range(self.num_shards)))

        return jax.tree.map(one, tree)

    def gather(self, x: Array) -> Array:
        """Concatenate the shards' parts along the first axis, in the order of their indices."""
        if self.num_shards == 1:
            return x
        parts: Array = jax.lax.all_gather(x, AXIS, tiled=True)
        return parts

    def moments(self, x: Array, axes: tuple[int, ...], valid: Array | None = None) -> Moments:
        """Return mean and variance over the given axes and over all shards."""
        return compute_moments(self.sum, x, axes, valid)

    def shuffle_salts(self, keys: Array) -> Array:
        """Return what determines this shard's shuffles, for the keys of all epochs [E]: [E, …]."""
        return jax.vmap(lambda key: draw_salts(jax.random.fold_in(key, self.index())))(keys)

    def minibatch_indices(self, salts: Array, plan: Plan) -> Array:
        """Return the samples of each minibatch of one shuffled epoch, [K, M/S] indices into this shard's samples.

        A single minibatch of all samples needs no shuffle.
        """
        size, part = plan.rollout_size // self.num_shards, plan.minibatch_size // self.num_shards
        used = plan.num_minibatches * part
        in_order = plan.num_minibatches == 1 and used == size
        order = jnp.arange(size) if in_order else permutation_by(salts, size)[:used]
        return order.reshape(plan.num_minibatches, part)

    def mean_gradient(
        self, loss: Callable[[Any, Any], tuple[Array, Metrics]], parameters: FlatParameters, samples: Any
    ) -> tuple[Array, Metrics]:
        """Return the gradient of the mean loss over a minibatch, and the means of its metrics, over all shards.

        Args:
            loss: (network, samples) → (losses [M], metrics: NamedTuple of arrays [M]).
            parameters: what the gradient is taken by.
            samples: NamedTuple of arrays [M/S, …]; where its `valid` is not None, other samples do not count.
        """
        structure: list[type[Metrics]] = []

        def total(vector: Array, samples: Any) -> tuple[Array, Array]:
            losses, metrics = loss(parameters.unravel(vector), samples)
            structure.append(type(metrics))
            mask = None if samples.valid is None else samples.valid.astype(jnp.float32)
            count = jnp.asarray(losses.size, jnp.float32) if mask is None else mask.sum()
            # Summed one by one: as rows of one matrix they would be computed without vector instructions.
            loss_sum, *metric_sums = (_masked_sum(column, mask) for column in (losses, *metrics))
            return loss_sum, jnp.stack([*metric_sums, count])

        def sums(samples: Any) -> Array:
            (_, metrics), gradient = jax.value_and_grad(total, has_aux=True)(parameters.vector, samples)
            return jnp.concatenate([gradient, metrics])

        size = parameters.vector.size
        summed = self.sum(_over_microbatches(sums, samples, self.layout.microbatch_size))
        share = 1.0 / jnp.maximum(summed[-1], 1.0)
        return summed[:size] * share, structure[0](*(summed[size:-1] * share))

    def shard_map(self, function: Callable[..., Any], in_specs: Any, out_specs: Any) -> Callable[..., Any]:
        """Run the function on every device, its arguments and results laid out by PartitionSpecs."""
        return jax.shard_map(function, mesh=self._mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)

    def place(self, tree: Any, specs: Any) -> Any:
        """Move a tree to the devices that compute it."""
        shardings = self._shardings(specs)
        if jax.process_count() > 1:
            return _map_parts(_place_local, shardings, self.fetch(tree))
        if self.num_shards > 1:
            tree = _map_parts(_ready_to_place, shardings, tree)
        return jax.device_put(tree, shardings)

    def fetch(self, tree: Any) -> Any:
        """Return a tree as NumPy arrays, complete in every process; all processes must call this together."""

        def one(x: Array) -> Any:
            if not isinstance(x, Array) or x.is_fully_addressable or x.is_fully_replicated:
                return jax.device_get(x)
            return multihost_utils.process_allgather(x, tiled=True)

        return jax.tree.map(one, tree)

    def describe(self, tree: Any, specs: Any) -> Any:
        """Return the shapes, dtypes and shardings that `place` gives to a tree, to compile for it."""

        abstract: Any = jax.ShapeDtypeStruct

        def describe_array(sharding: NamedSharding, x: Any) -> Any:
            return abstract(x.shape, x.dtype, sharding=sharding)

        return _map_parts(describe_array, self._shardings(specs), tree)

    def _shardings(self, specs: Any) -> Any:
        return jax.tree.map(
            lambda spec: NamedSharding(self._mesh, spec), specs, is_leaf=lambda x: isinstance(x, PartitionSpec)
        )


def _shard_devices(count: int) -> list[jax.Device]:
    """Return a device for each shard: the same number from each process, in the order of the processes."""
    processes = jax.process_count()
    if count % processes:
        raise RequestError(
            "layout",
            f"num_shards = {count} is not a multiple of the {processes} processes.",
            f"Use --num-shards {processes * max(1, count // processes)}.",
        )
    per_process, devices = count // processes, jax.devices()
    local = [[device for device in devices if device.process_index == index] for index in range(processes)]
    fewest = min(map(len, local))
    if fewest < per_process:
        raise RequestError(
            "layout",
            f"num_shards = {count} needs {per_process} JAX devices per process, but JAX is already running with "
            f"{fewest}.",
            f"Set JAX_NUM_CPU_DEVICES={per_process} before Python starts, or num_shards={processes * fewest}.",
        )
    return [device for of_process in local for device in of_process[:per_process]]


def _map_parts(function: Callable[[NamedSharding, Any], Any], shardings: Any, tree: Any) -> Any:
    """Return a tree of function(sharding, array); one sharding stands for all arrays of its part of the tree."""
    return jax.tree.map(lambda sharding, part: jax.tree.map(partial(function, sharding), part), shardings, tree)


def _ready_to_place(sharding: NamedSharding, x: Any) -> Any:
    """Return an array that can be placed without compiling a program, each device getting memory of its own.

    JAX compiles a program for every shape that it slices, so what is split comes from NumPy. CPU devices would share a
    NumPy array that is not split, and the first update could not reuse its memory.
    """
    if not sharding.is_fully_replicated:
        return jax.device_get(x)
    return x if isinstance(x, Array) else jax.device_put(x, may_alias=False)


def _place_local(sharding: NamedSharding, x: Any) -> Array:
    """Place what this process computes of an array that is the same in all processes."""
    array = np.asarray(x)
    placed: Array = jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])
    return placed


def _masked_sum(values: Array, mask: Array | None) -> Array:
    return (values if mask is None else values * mask).sum()


def _over_microbatches(sums: Callable[[Any], Array], samples: Any, size: int) -> Array:
    """Add the sums of microbatches one after the other: the same gradient, from arrays that fit the cache."""
    total = jax.tree.leaves(samples)[0].shape[0]
    pieces = total // size
    if pieces == 1:
        return sums(samples)
    parts = jax.tree.map(lambda x: x.reshape(pieces, size, *x.shape[1:]), samples)
    shape = jax.eval_shape(sums, jax.tree.map(lambda x: x[0], parts))
    zero = jnp.zeros(shape.shape, shape.dtype)  # and not the first part's sums: they would be compiled twice
    return jax.lax.scan(lambda total, part: (total + sums(part), None), zero, parts)[0]
