import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rollshape.algorithms.shuffle import permutation

SHUFFLES = 4_000


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 8, 64, 100, 1024, 1031, 8192, 10_007])
def test_every_index_exactly_once(size: int) -> None:
    for seed in range(5):
        assert sorted(permutation(jax.random.key(seed), size).tolist()) == list(range(size))


@pytest.mark.parametrize("size", [8, 12, 64])
def test_every_position_is_equally_likely(size: int) -> None:
    """χ² of where each index lands, over all (index, position) pairs: (size−1)² degrees of freedom."""
    orders = np.asarray(jax.vmap(lambda k: permutation(k, size))(jax.random.split(jax.random.key(0), SHUFFLES)))
    counts = np.stack([np.bincount(orders[:, i], minlength=size) for i in range(size)])
    expected = SHUFFLES / size
    chi2, freedom = ((counts - expected) ** 2 / expected).sum(), (size - 1) ** 2
    assert abs(chi2 - freedom) < 5 * np.sqrt(2 * freedom)


def test_neighbours_are_separated_like_chance() -> None:
    """Samples of one environment stand side by side; in a shuffled minibatch they must not stay together."""
    size, minibatch = 1024, 256
    orders = np.asarray(jax.vmap(lambda k: permutation(k, size))(jax.random.split(jax.random.key(1), 500)))
    places = np.argsort(orders, axis=1) // minibatch  # in which minibatch each sample is
    together = (places[:, :-1] == places[:, 1:]).mean()
    chance = (minibatch - 1) / (size - 1)
    assert together == pytest.approx(chance, abs=4 * np.sqrt(chance / (500 * size)))


def test_it_follows_from_the_key() -> None:
    same = [permutation(jax.random.key(3), 100) for _ in range(2)]
    assert jnp.array_equal(*same)
    assert not jnp.array_equal(same[0], permutation(jax.random.key(4), 100))
