"""The decomposition's loss against every subset of small episodes, and the draw of subsets against their number."""

import itertools
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rollshape.agents.return_decomposition import decomposition_loss, draw_timesteps, predict_rewards
from rollshape.agents.soft import new_soft_agent, soft_distribution_for
from rollshape.envs.spaces import Continuous, Discrete, Observation

RNG = np.random.default_rng(0)


def expected(rewards: np.ndarray, size: int, total: float, *, repeated: bool, unbiased: bool) -> float:
    """The mean loss over every way to draw `size` timesteps of the episode."""
    ways = itertools.product(range(len(rewards)), repeat=size) if repeated else itertools.combinations(
        range(len(rewards)), size
    )  # fmt: skip
    predicted = jnp.asarray([rewards[list(way)] for way in ways])
    count = len(predicted)
    losses = decomposition_loss(predicted, jnp.full(count, total), jnp.full(count, len(rewards)), unbiased)
    return float(np.asarray(losses, np.float64).mean())


@pytest.mark.parametrize(("length", "size"), [(2, 2), (5, 2), (6, 3), (7, 6), (7, 7)])
def test_the_correction_is_exact_without_replacement_and_the_plain_loss_is_too_large_by_the_variance(
    length: int, size: int
) -> None:
    rewards, total = RNG.normal(size=length).astype(np.float32), 1.7
    exact = (rewards.mean() - total / length) ** 2
    variance = rewards.var(ddof=1) * (1 - size / length) / size
    assert expected(rewards, size, total, repeated=False, unbiased=True) == pytest.approx(exact, abs=1e-6)
    plain = expected(rewards, size, total, repeated=False, unbiased=False)
    assert plain == pytest.approx(exact + variance, abs=1e-6)
    assert (plain - exact > 1e-3) == (size < length)  # the bias, but where the whole episode is drawn


@pytest.mark.parametrize(("length", "size"), [(1, 2), (2, 3), (3, 5)])
def test_the_correction_is_exact_with_replacement_where_the_episode_is_shorter(length: int, size: int) -> None:
    rewards, total = RNG.normal(size=length).astype(np.float32), -0.4
    exact = (rewards.mean() - total / length) ** 2
    assert expected(rewards, size, total, repeated=True, unbiased=True) == pytest.approx(exact, abs=1e-6)


def test_every_subset_is_as_likely_as_any_other() -> None:
    draws = np.asarray(jax.jit(draw_timesteps, static_argnums=2)(jax.random.key(0), jnp.full(20_000, 5), 3))
    counts = Counter(tuple(sorted(row)) for row in draws)
    assert set(counts) == set(itertools.combinations(range(5), 3))
    chi = sum((count - 2_000) ** 2 / 2_000 for count in counts.values())
    assert chi < 27.9  # 9 degrees of freedom, 0.1 %


def test_shorter_episodes_repeat_and_others_do_not() -> None:
    lengths = jnp.array([[1, 2], [4, 300]])
    draws = np.asarray(draw_timesteps(jax.random.key(1), lengths, 4))
    assert draws.shape == (2, 2, 4)
    assert (draws >= 0).all()
    assert (draws < np.asarray(lengths)[..., None]).all()
    assert sorted(draws[1, 0]) == [0, 1, 2, 3]
    assert len(set(draws[1, 1])) == 4


@pytest.mark.parametrize("action", [Continuous(2, -2.0, 2.0), Discrete(3)])
def test_the_reward_network_sees_state_action_and_change(action: Continuous | Discrete) -> None:
    agent = new_soft_agent(jax.random.key(0), Observation((3,)), action, (8,), reward=True)
    assert agent.reward is not None
    distribution = soft_distribution_for(action)
    here, there = jnp.asarray(RNG.normal(size=(2, 4, 3)), jnp.float32)
    acted = jnp.ones((4, 2)) if isinstance(action, Continuous) else jnp.array([0, 1, 2, 0])
    rewards = predict_rewards(agent.reward, distribution, here, acted, there)
    assert rewards.shape == (4,)
    for changed in (
        predict_rewards(agent.reward, distribution, here + 1, acted, there + 1),
        predict_rewards(agent.reward, distribution, here, acted, there + 1),
        predict_rewards(agent.reward, distribution, here, acted * 0, there),
    ):
        assert not np.allclose(changed[1], rewards[1], atol=1e-7)
