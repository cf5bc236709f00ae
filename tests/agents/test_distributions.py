import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rollshape.agents.distributions import (
    ActionDistribution,
    Categorical,
    Gaussian,
    MultiCategorical,
    distribution_for,
    sample,
)
from rollshape.envs.spaces import Continuous, Discrete, MultiDiscrete

SAMPLES = 20_000
CASES = [
    (Categorical(3), jnp.array([0.5, -1.0, 2.0])),
    (MultiCategorical((2, 3)), jnp.array([0.5, -0.5, 1.0, 0.0, -2.0])),
    (Gaussian(2), jnp.array([1.0, -2.0, 0.3, -0.7])),
]


@pytest.mark.parametrize(("policy", "outputs"), CASES, ids=["categorical", "multi", "gaussian"])
def test_entropy_is_the_mean_surprise_of_its_samples(policy: ActionDistribution, outputs: jax.Array) -> None:
    keys = jax.random.split(jax.random.key(0), SAMPLES)
    actions = jax.vmap(lambda key: sample(policy, key, outputs))(keys)
    surprise = -jax.vmap(policy.log_prob, (None, 0))(outputs, actions)
    error = float(surprise.std()) / SAMPLES**0.5
    assert float(policy.entropy(outputs)) == pytest.approx(float(surprise.mean()), abs=4 * error + 1e-5)


@pytest.mark.parametrize(("policy", "outputs"), CASES, ids=["categorical", "multi", "gaussian"])
def test_the_score_has_mean_zero(policy: ActionDistribution, outputs: jax.Array) -> None:
    """E ∇log π = 0: the identity behind every baseline."""
    keys = jax.random.split(jax.random.key(1), SAMPLES)
    actions = jax.vmap(lambda key: sample(policy, key, outputs))(keys)
    scores = np.asarray(jax.vmap(jax.grad(policy.log_prob), (None, 0))(outputs, actions))
    assert (np.abs(scores.mean(0)) <= 4.5 * scores.std(0) / SAMPLES**0.5).all()


def test_probabilities_add_up() -> None:
    policy, outputs = CASES[0]
    assert sum(float(jnp.exp(policy.log_prob(outputs, jnp.asarray(a)))) for a in range(3)) == pytest.approx(1)
    policy, outputs = CASES[1]
    pairs = [jnp.array([a, b]) for a in range(2) for b in range(3)]
    assert sum(float(jnp.exp(policy.log_prob(outputs, pair))) for pair in pairs) == pytest.approx(1)


def test_gaussian_by_hand() -> None:
    # N(1, e^0): log p(1) = −½log 2π; N(0, e^{log 2}) at 2: −½ − log 2 − ½log 2π
    outputs = jnp.array([1.0, 0.0, 0.0, np.log(2.0)])
    expected = -0.5 * np.log(2 * np.pi) + (-0.5 - np.log(2) - 0.5 * np.log(2 * np.pi))
    assert float(Gaussian(2).log_prob(outputs, jnp.array([1.0, 2.0]))) == pytest.approx(expected, rel=1e-6)


def test_modes_and_spaces() -> None:
    assert int(distribution_for(Discrete(3)).mode(jnp.array([0.0, 3.0, 1.0]))) == 1
    assert distribution_for(MultiDiscrete((2, 3))).mode(jnp.array([0.0, 1.0, 5.0, 0.0, 0.0])).tolist() == [1, 0]
    assert distribution_for(Continuous(2)).mode(jnp.array([0.1, 0.2, 9.0, 9.0])).tolist() == pytest.approx([0.1, 0.2])
    assert [distribution_for(space).num_outputs for space in (Discrete(3), MultiDiscrete((2, 3)), Continuous(2))] == [
        3,
        5,
        4,
    ]
