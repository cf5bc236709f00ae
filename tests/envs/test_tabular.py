"""Exact answers against simulation, Gymnasium's tables, and finite differences."""

from functools import cache

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rollshape.envs.exact import (
    action_values,
    advantages,
    discounted_visits,
    policy_gradient,
    state_distribution,
    values,
)
from rollshape.envs.functional import start, step_and_reset
from rollshape.envs.tabular import Floats, TabularMDP, delay_chain, frozen_lake

GAMMA = 0.95


@cache
def lake() -> TabularMDP:
    return frozen_lake("4x4")


@cache
def chain() -> TabularMDP:
    return delay_chain(delay=3, density=0.5, mixing=4, period=8)


def softmax(logits: Floats) -> Floats:
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def some_policy(mdp: TabularMDP) -> Floats:
    return softmax(np.random.default_rng(0).normal(size=mdp.transitions.shape[:2]))


@pytest.mark.parametrize("size", ["4x4", "8x8"])
@pytest.mark.parametrize("slippery", [True, False])
def test_frozen_lake_is_gymnasiums(size: str, slippery: bool) -> None:
    ours = frozen_lake(size, slippery)
    theirs = gymnasium.make("FrozenLake-v1", map_name=size, is_slippery=slippery).unwrapped
    for state, actions in theirs.P.items():  # type: ignore[attr-defined]
        for action, outcomes in actions.items():
            row, pay = np.zeros(ours.num_states), np.zeros(ours.num_states)
            for chance, following, reward, terminated in outcomes:
                row[following] += chance
                pay[following] = reward
                assert terminated == ours.terminal[following]
            np.testing.assert_allclose(ours.transitions[state, action], row, atol=1e-12)
            np.testing.assert_allclose(ours.rewards[state, action] * (row > 0), pay, atol=1e-12)


def simulate(mdp: TabularMDP, policy: Floats, steps: int, envs: int = 512) -> tuple[Floats, Floats, Floats]:
    """States [T, N], rewards [T, N] and ends [T, N] under a policy, resets included."""
    cumulative = jnp.asarray(policy.cumsum(-1), jnp.float32)

    def one(episode, key):  # type: ignore[no-untyped-def]
        choose, move = jax.random.split(key)
        action = jnp.minimum((jax.random.uniform(choose) >= cumulative[episode.state]).sum(), policy.shape[1] - 1)
        following, seen = step_and_reset(mdp, move, episode, action)
        return following, (episode.state, seen.reward, seen.terminated | seen.truncated)

    def scan(key):  # type: ignore[no-untyped-def]
        first, rest = jax.random.split(key)
        return jax.lax.scan(one, start(mdp, first), jax.random.split(rest, steps))[1]

    seen = jax.jit(jax.vmap(scan, out_axes=1))(jax.random.split(jax.random.key(0), envs))
    return tuple(np.asarray(part, float) for part in seen)  # type: ignore[return-value]


@pytest.mark.parametrize("make", [lake, chain])
def test_state_distribution_against_simulation(make) -> None:  # type: ignore[no-untyped-def]
    mdp = make()
    policy = some_policy(mdp)
    states, rewards, _ = simulate(mdp, policy, steps=400)
    late = states[200:].astype(int)  # by then the starts have mixed
    counted = np.bincount(late.ravel(), minlength=mdp.num_states) / late.size
    exact = state_distribution(mdp, policy)
    assert exact.sum() == pytest.approx(1)
    error = np.sqrt(exact * (1 - exact) / 512)  # as if only environments were independent: generous
    assert (np.abs(counted - exact) <= 4 * error + 1e-3).all()
    mean_reward = np.einsum("s,sa,sat,sat->", exact, policy, mdp.transitions, mdp.rewards)
    per_env = rewards[200:].mean(0)
    assert mean_reward == pytest.approx(per_env.mean(), abs=4 * per_env.std() / np.sqrt(per_env.size))


def test_values_against_discounted_returns_of_episodes() -> None:
    mdp = frozen_lake("4x4")
    policy = some_policy(mdp)
    states, rewards, ends = simulate(mdp, policy, steps=100, envs=4096)
    alive = np.cumprod(np.vstack([np.ones(4096), 1 - ends[:-1]]), axis=0)  # the first episode of each environment
    returns = (rewards * alive * GAMMA ** np.arange(100)[:, None]).sum(0)
    assert set(states[0].astype(int)) == {0}
    exact = values(mdp, policy, GAMMA)[0]
    assert exact == pytest.approx(returns.mean(), abs=4 * returns.std() / np.sqrt(returns.size))


@pytest.mark.parametrize("make", [lake, chain])
def test_bellman_and_advantages(make) -> None:  # type: ignore[no-untyped-def]
    mdp = make()
    policy = some_policy(mdp)
    q, v = action_values(mdp, policy, GAMMA), values(mdp, policy, GAMMA)
    alive = ~mdp.terminal
    np.testing.assert_allclose((policy * q).sum(1)[alive], v[alive], atol=1e-12)
    np.testing.assert_allclose((policy * advantages(mdp, policy, GAMMA)).sum(1)[alive], 0, atol=1e-12)
    assert (v[mdp.terminal] == 0).all()


@pytest.mark.parametrize("make", [lake, chain])
def test_policy_gradient_is_the_derivative_of_the_return(make) -> None:  # type: ignore[no-untyped-def]
    """With discounted visits the theorem is exact, so finite differences must agree for every logit."""
    mdp = make()
    states, actions = mdp.transitions.shape[:2]
    logits = np.random.default_rng(1).normal(size=(states, actions))

    def objective(flat: Floats) -> float:
        return float(mdp.start @ values(mdp, softmax(flat.reshape(states, actions)), GAMMA))

    policy = softmax(logits)
    scores = np.zeros((states, actions, states, actions))
    for s, a in np.ndindex(states, actions):
        scores[s, a, s] = np.eye(actions)[a] - policy[s]
    gradient = policy_gradient(
        discounted_visits(mdp, policy, GAMMA),
        policy,
        scores.reshape(states, actions, -1),
        advantages(mdp, policy, GAMMA),
    )
    for i in np.random.default_rng(2).integers(logits.size, size=12):
        step = np.zeros(logits.size)
        step[i] = 1e-5
        slope = (objective(logits.ravel() + step) - objective(logits.ravel() - step)) / 2e-5
        assert gradient[i] == pytest.approx(slope, abs=1e-9)


def test_delay_density_and_mixing_are_independent() -> None:
    right = np.zeros((8 * 8, 2))
    for phase, context, was_right, paid in np.ndindex(8, 2, 2, 2):
        right[np.ravel_multi_index((phase, context, was_right, paid), (8, 2, 2, 2)), context] = 1
    for delay in (1, 3, 7):
        for density in (1.0, 0.25):
            for mixing in (1.0, 20.0):
                mdp = delay_chain(delay, density, mixing, period=8)
                weights = state_distribution(mdp, right)
                reward = np.einsum("s,sa,sat,sat->", weights, right, mdp.transitions, mdp.rewards)
                assert reward == pytest.approx(1 / 8)  # one a period, whatever the three are
                pays = np.einsum("s,sa,sat,sat->", weights, right, mdp.transitions, mdp.rewards > 0)
                assert pays == pytest.approx(density / 8)


def test_probabilities_are_checked() -> None:
    with pytest.raises(ValueError):
        TabularMDP("x", np.ones((2, 1, 2)), np.zeros((2, 1, 2)), np.zeros(2, bool), np.array([1.0, 0.0]))
