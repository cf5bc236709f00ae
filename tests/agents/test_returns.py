"""Returns against arithmetic worked by hand, and GAE against the exact advantages of a tabular MDP."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rollshape.agents.returns import gae, next_values, rewards_to_go
from rollshape.envs import exact
from rollshape.envs.tabular import frozen_lake


def bools(*bits: int) -> jax.Array:
    return jnp.array(bits, bool)


def test_gae_by_hand() -> None:
    # γ = .5, λ = .5. Step 1 terminates, step 2 is truncated at V(final) = 8, step 3 is the window's edge.
    rewards, values = jnp.array([1.0, 2.0, 3.0, 4.0]), jnp.array([10.0, 20.0, 30.0, 40.0])
    terminated, truncated = bools(0, 1, 0, 0), bools(0, 0, 1, 0)
    following = next_values(values, jnp.asarray(50.0), truncated, jnp.full(4, 8.0))
    assert following.tolist() == [20.0, 30.0, 8.0, 50.0]
    # δ = 1+.5·20−10 = 1; 2+0−20 = −18; 3+.5·8−30 = −23; 4+.5·50−40 = −11
    # A₃ = −11; A₂ = −23 (cut); A₁ = −18 (cut); A₀ = 1 + .25·(−18) = −3.5
    result = gae(rewards, values, following, terminated, terminated | truncated, 0.5, 0.5)
    assert result.tolist() == [-3.5, -18.0, -23.0, -11.0]


def test_lambda_one_is_the_return_and_lambda_zero_the_td_error() -> None:
    chance = np.random.default_rng(0)
    rewards, values = (jnp.asarray(chance.normal(size=6), jnp.float32) for _ in range(2))
    none = jnp.zeros(6, bool)
    following = next_values(values, jnp.asarray(0.7), none, jnp.zeros(6))
    full = gae(rewards, values, following, none, none, 0.9, 1.0) + values
    np.testing.assert_allclose(full, rewards_to_go(rewards, following, none, none, 0.9), rtol=1e-5)
    td = gae(rewards, values, following, none, none, 0.9, 0.0)
    np.testing.assert_allclose(td, rewards + 0.9 * following - values, rtol=1e-5)


def test_rewards_to_go_by_hand() -> None:
    # γ = .5; the second step terminates; the last is cut by the window, where V is 8.
    total = rewards_to_go(
        jnp.array([1.0, 2.0, 3.0, 4.0]), jnp.array([0.0, 9.0, 0.0, 8.0]), bools(0, 1, 0, 0), bools(0, 1, 0, 0), 0.5
    )
    assert total.tolist() == [2.0, 2.0, 7.0, 8.0]


def test_with_the_exact_critic_the_mean_advantage_is_exact_whatever_lambda() -> None:
    """E[Â | s, a] = A^π(s, a) for every λ when V = V^π: on FrozenLake, by simulation from one state and action."""
    mdp, gamma = frozen_lake("4x4"), 0.9
    policy = np.full((16, 4), 0.25)
    v = jnp.asarray(exact.values(mdp, policy, gamma), jnp.float32)
    truth = exact.advantages(mdp, policy, gamma)[14, 2]  # beside the goal, stepping right

    def once(key: jax.Array) -> jax.Array:
        def one(carry, inputs):  # type: ignore[no-untyped-def]
            state, alive = carry
            step_key, first = inputs
            choose, move = jax.random.split(step_key)
            action = jnp.where(first, 2, jax.random.randint(choose, (), 0, 4))
            outcome = mdp.step(move, state, action)
            row = (outcome.reward * alive, v[state] * alive, v[outcome.state] * alive, outcome.terminated | ~alive)
            return (outcome.state, alive & ~outcome.terminated), row

        keys, first = jax.random.split(key, 40), jnp.arange(40) == 0
        _, (rewards, values, following, ended) = jax.lax.scan(one, (jnp.asarray(14), jnp.asarray(True)), (keys, first))
        return gae(rewards, values, following, ended, ended, gamma, 0.8)[0]

    estimates = jax.jit(jax.vmap(once))(jax.random.split(jax.random.key(0), 20_000))
    error = float(estimates.std()) / 20_000**0.5
    assert float(estimates.mean()) == pytest.approx(truth, abs=4 * error)
