"""Default numbers of shards and microbatches: computed from the sizes, never measured, so that runs reproduce."""

from __future__ import annotations

from rollshape.geometry.divisors import divisors, largest_divisor

SHARD_SAMPLES = 256  # per shard of a minibatch; with fewer, a second core does not pay off (benchmarks/train.py)
CACHE_BYTES = 1_000_000  # for the activations of a microbatch: the L2 cache of a core
SMALLEST = 64  # samples per microbatch; with fewer, the overhead exceeds the gain
COPIES = 3  # of each activation: value, derivative, error
FLOAT = 4
BULK_ROWS = 4096  # observations that the network evaluates at once, when all steps are collected


def auto_shards(num_envs: int, minibatch_size: int) -> int:
    """Return 2 if environments and minibatches can be halved and the halves are large enough, else 1."""
    halves = num_envs % 2 == 0 and minibatch_size % 2 == 0
    return 2 if halves and minibatch_size >= 2 * SHARD_SAMPLES else 1


def auto_microbatch(activations: int, part: int) -> int:
    """Return the largest divisor of a shard's minibatch size whose activations fit into the cache.

    If all such divisors use less than a quarter of the cache, the shard's minibatch is not split.
    """
    fits = max(SMALLEST, CACHE_BYTES // (COPIES * FLOAT * max(1, activations)))
    if part <= fits:
        return part
    size = max(d for d in divisors(part) if d <= fits)
    return size if size >= fits // 4 else part


def bulk_steps(num_envs: int, num_steps: int) -> int:
    """Return how many steps of a rollout the network evaluates at once: a divisor of num_steps, at least 1."""
    return largest_divisor(num_steps, max(1, BULK_ROWS // num_envs))
