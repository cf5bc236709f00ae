"""How a minibatch is laid over the machine: logical shards and microbatches, by formula and never by timing."""

from __future__ import annotations

from rollshape.geometry.divisors import divisors

SHARD_SAMPLES = 256  # of a minibatch: with fewer a second core costs more than it brings (benchmarks/train.py)
CACHE_BYTES = 1_000_000  # for the activations of a microbatch: a core's second-level cache
SMALLEST = 64  # samples of a microbatch, below which the calls cost more than the cache saves
COPIES = 3  # of each activation: itself, its derivative, its error
FLOAT = 4


def auto_shards(num_envs: int, minibatch_size: int) -> int:
    """Two where the environments and every minibatch have two halves that are worth a core each, else one."""
    halves = num_envs % 2 == 0 and minibatch_size % 2 == 0
    return 2 if halves and minibatch_size >= 2 * SHARD_SAMPLES else 1


def auto_microbatch(activations: int, part: int) -> int:
    """The largest divisor of a shard's part of a minibatch whose activations fit the cache.

    Where the divisors leave less than a quarter of what would fit, the part stays whole.
    """
    fits = max(SMALLEST, CACHE_BYTES // (COPIES * FLOAT * max(1, activations)))
    if part <= fits:
        return part
    size = max(d for d in divisors(part) if d <= fits)
    return size if size >= fits // 4 else part
