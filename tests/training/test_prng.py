"""The keys give the numbers of JAX's default generator; only the program that computes them differs."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rollshape.training.prng import IMPLEMENTATION, fast_keys, threefry
from rollshape.training.streams import Stream, stream_key, stream_keys

DRAWS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "uniform": lambda key: jax.random.uniform(key, (5, 3)),
    "scalar": lambda key: jax.random.uniform(key),
    "normal": lambda key: jax.random.normal(key, (7,)),
    "gumbel": lambda key: jax.random.gumbel(key, (4, 2)),
    "bytes": lambda key: jax.random.bits(key, (9,), jnp.uint8),
    "randint": lambda key: jax.random.randint(key, (20,), 0, 17),
    "permutation": lambda key: jax.random.permutation(key, 10),
    "split": lambda key: jax.random.key_data(jax.random.split(key, (3, 4))),
    "fold_in": lambda key: jax.random.key_data(jax.random.fold_in(key, 99)),
    "vmap": lambda key: jax.vmap(lambda k: jax.random.uniform(k, (2,)))(jax.random.split(key, 4)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_the_numbers_are_those_of_jax(name: str) -> None:
    for seed in (0, 7, 2**32 - 1):
        for key in (fast_keys(jax.random.key(seed)), jax.random.key(seed, impl=IMPLEMENTATION)):
            np.testing.assert_array_equal(DRAWS[name](key), DRAWS[name](jax.random.key(seed)))


def test_known_answers() -> None:
    """Of the authors' reference implementation (Random123, kat_vectors: threefry2x32 20)."""
    zero, ones = jnp.uint32(0), jnp.uint32(0xFFFFFFFF)
    assert [int(x) for x in threefry(jnp.stack([zero, zero]), zero, zero)] == [0x6B200159, 0x99BA4EFE]
    assert [int(x) for x in threefry(jnp.stack([ones, ones]), ones, ones)] == [0x1CB996FC, 0xBB002BE7]


def test_a_hash_is_no_loop() -> None:
    program = jax.jit(lambda key: jax.random.uniform(key, (8,))).lower(fast_keys(jax.random.key(0))).compile().as_text()
    assert " while(" not in program


def test_consecutive_keys_of_a_stream() -> None:
    streams: tuple[Stream, ...] = ("policy", "shuffle")
    keys = jax.random.key_data(stream_keys(jnp.uint32(3), streams, jnp.int32(5), 4))
    each = [[jax.random.key_data(stream_key(3, stream, index)) for index in range(5, 9)] for stream in streams]
    np.testing.assert_array_equal(keys, np.array(each))


def test_what_it_cannot_draw() -> None:
    with pytest.raises(NotImplementedError, match="4,294,967,296"):
        jax.jit(lambda: jax.random.bits(fast_keys(jax.random.key(0)), (2**16, 2**16), jnp.uint32)).lower()
