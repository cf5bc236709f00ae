"""SAC's parts against what can be worked out: densities that integrate to one, values by hand, slopes."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rollshape.agents.distributions import SquashedGaussian
from rollshape.agents.soft import (
    Batch,
    actor_loss,
    critic_loss,
    critic_targets,
    new_soft_agent,
    polyak_average,
    q_values,
    soft_distribution_for,
    soft_values,
    target_entropy,
    temperature_loss,
)
from rollshape.envs.spaces import Continuous, Discrete, MultiDiscrete, Observation
from rollshape.errors import RequestError

SEEN = Observation((3,))


def test_the_squashed_density_integrates_to_one_and_is_that_of_what_is_drawn() -> None:
    distribution, outputs = SquashedGaussian(1, -2.0, 6.0), jnp.array([0.3, -0.4])
    unit = jnp.linspace(-1 + 1e-5, 1 - 1e-5, 200_001)[:, None]
    density = jnp.exp(distribution.log_prob(outputs, distribution.to_env(unit)))
    assert float(jnp.trapezoid(density, unit[:, 0])) == pytest.approx(1.0, abs=2e-3)
    noise = distribution.draw_noise(jax.random.key(0), (64,))
    drawn, log_prob = distribution.sample_with_log_prob(outputs, noise)
    action = distribution.select(outputs, noise)
    assert float(action.min()) >= -2
    assert float(action.max()) <= 6
    np.testing.assert_allclose(distribution.to_unit(action), drawn, atol=1e-6)
    np.testing.assert_allclose(distribution.log_prob(outputs, action), log_prob, atol=1e-3)
    assert float(distribution.mode(outputs)[0]) == pytest.approx(2 + 4 * math.tanh(0.3))
    assert float(distribution.entropy(jnp.array([0.0, -5.0]))) == pytest.approx(
        -5 + 0.5 * math.log(2 * math.pi * math.e)
    )


def test_unbounded_actions_are_squashed_to_one() -> None:
    distribution = soft_distribution_for(Continuous(2))
    assert float(jnp.abs(distribution.select(jnp.full(4, 9.0), jnp.zeros(2))).max()) <= 1.0


def test_values_of_choices_are_exact() -> None:
    action = Discrete(4)
    distribution, agent = (
        soft_distribution_for(action),
        new_soft_agent(jax.random.key(0), SEEN, action, (8,), reward=False),
    )
    seen = jax.random.normal(jax.random.key(1), (5, 3))
    value, log_prob = soft_values(agent.actor, agent.critics, jnp.asarray(0.2), distribution, seen, jnp.zeros(()))
    shares = jax.nn.softmax(agent.actor(seen)[0])
    by_hand = np.zeros(5)
    for a in range(4):
        q = np.asarray(q_values(agent.critics, distribution, seen, jnp.full(5, a))).min(0)
        by_hand += np.asarray(shares[:, a] * (q - 0.2 * np.log(shares[:, a])))
    np.testing.assert_allclose(value, by_hand, atol=1e-5)
    np.testing.assert_allclose(log_prob, (shares * jnp.log(shares)).sum(-1), atol=1e-5)
    outputs, values = agent(seen[None])
    assert outputs.shape == (1, 5, 4)
    assert values.shape == (1, 5)


def test_twin_critics_differ_and_the_smaller_one_counts() -> None:
    action = Continuous(2, -1.0, 1.0)
    distribution, agent = (
        soft_distribution_for(action),
        new_soft_agent(jax.random.key(0), SEEN, action, (8,), reward=False),
    )
    seen, noise = jnp.ones((6, 3)), distribution.draw_noise(jax.random.key(1), (6,))
    both = agent.critics(seen, distribution.sample_with_log_prob(agent.actor(seen)[0], noise)[0])[..., 0]
    assert not np.allclose(both[0], both[1])
    value, log_prob = soft_values(agent.actor, agent.critics, jnp.asarray(0.5), distribution, seen, noise)
    np.testing.assert_allclose(value, both.min(0) - 0.5 * log_prob, atol=1e-6)
    loss, mean = actor_loss(agent.actor, agent.critics, jnp.asarray(0.5), distribution, seen, noise)
    assert float(loss) == pytest.approx(-float(value.mean()), abs=1e-6)
    assert float(mean) == pytest.approx(float(log_prob.mean()), abs=1e-6)


def test_a_time_limit_bootstraps_and_an_end_does_not() -> None:
    found = critic_targets(jnp.array([1.0, 1.0]), jnp.array([False, True]), jnp.array([10.0, 10.0]), 0.9)
    np.testing.assert_allclose(found, [10.0, 1.0])


def test_losses_pull_where_they_should() -> None:
    action = Continuous(1, -1.0, 1.0)
    distribution, agent = (
        soft_distribution_for(action),
        new_soft_agent(jax.random.key(0), SEEN, action, (8,), reward=False),
    )
    batch = Batch(jnp.ones((4, 3)), jnp.zeros((4, 1)), jnp.zeros(4), jnp.zeros(4, bool), jnp.ones((4, 3)))
    q = q_values(agent.critics, distribution, batch.observation, batch.action)
    targets = jnp.arange(4.0)
    by_hand = 0.5 * sum(np.mean((np.asarray(one) - np.arange(4.0)) ** 2) for one in q)
    assert float(critic_loss(agent.critics, distribution, batch, targets)) == pytest.approx(by_hand, rel=1e-5)
    slope = jax.grad(temperature_loss)
    assert slope(0.0, -3.0, target_entropy(action)) > 0  # entropy 3 is above the target −1: α falls
    assert slope(0.0, 3.0, target_entropy(action)) < 0
    assert target_entropy(Discrete(4)) == pytest.approx(0.5 * math.log(4))
    slow = polyak_average(agent.targets, jax.tree.map(lambda x: x + 1, agent.critics), 0.75)
    np.testing.assert_allclose(slow.weights[0], agent.targets.weights[0] + 0.25, rtol=1e-6)


def test_several_choices_at_once_are_refused() -> None:
    with pytest.raises(RequestError, match="several choices"):
        soft_distribution_for(MultiDiscrete((2, 3)))
