"""Logical shards: a rollout is cut over its environments into S parts, each computed by a JAX device of its own.

S is part of the spec, so it fixes the order of every sum: a shard adds up its own samples, and the shards' partial sums
are added in the order of their numbers. On a CPU a device is only a thread, so S of them can be had on any number of
cores, and the same program gives the same numbers, bit for bit.
"""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable
from typing import Any

import jax
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from rollshape.errors import RequestError

AXIS = "shard"
_spec: Any = PartitionSpec
TOGETHER: Any = _spec()  # the same on every device
APART: Any = _spec(AXIS)  # cut over the first axis, the environments
ALONG_ENVS: Any = _spec(None, AXIS)  # of a rollout [T, N, …]


def reserve_devices(count: int = 2) -> None:
    """Give JAX so many CPU devices; only possible before it has computed anything, later it stays as it is."""
    config: Any = jax.config
    with contextlib.suppress(RuntimeError):
        if config.jax_num_cpu_devices < count:
            config.update("jax_num_cpu_devices", count)


class Shards:
    """S shards on S devices. Inside `spread`, arrays are the shard's own part."""

    def __init__(self, count: int) -> None:
        reserve_devices(max(2, count))
        devices = jax.local_devices()
        if len(devices) < count:
            raise RequestError(
                "layout",
                f"num_shards = {count} needs as many JAX devices, and JAX runs with {len(devices)} already.",
                f"Set JAX_NUM_CPU_DEVICES={count} before Python starts, or num_shards=1.",
            )
        self.count = count
        self.mesh = Mesh(devices[:count], (AXIS,))

    def number(self) -> Array:
        """Of this shard."""
        return jax.lax.axis_index(AXIS)

    def total(self, tree: Any) -> Any:
        """The sum over all shards, in the order of their numbers."""

        def one(x: Array) -> Any:
            parts = jax.lax.all_gather(x, AXIS)
            return functools.reduce(operator.add, (parts[i] for i in range(self.count)))

        return jax.tree.map(one, tree)

    def gathered(self, x: Array) -> Array:
        """All shards' parts along the first axis, in the order of their numbers."""
        parts: Array = jax.lax.all_gather(x, AXIS, tiled=True)
        return parts

    def spread(self, function: Callable[..., Any], ins: Any, outs: Any) -> Callable[..., Any]:
        """The function on every device, its arguments and results laid out by PartitionSpecs."""
        return jax.shard_map(function, mesh=self.mesh, in_specs=ins, out_specs=outs, check_vma=False)

    def placed(self, tree: Any, specs: Any) -> Any:
        """The tree where its layout wants it."""
        shardings = jax.tree.map(
            lambda spec: NamedSharding(self.mesh, spec), specs, is_leaf=lambda x: isinstance(x, PartitionSpec)
        )
        return jax.device_put(tree, shardings)
