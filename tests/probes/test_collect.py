"""Data of a probe: its distribution, its windows, what is left out, and where it comes from."""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rollshape.agents.normalizer import Moments
from rollshape.algorithms.registry import new_algorithm
from rollshape.envs import exact
from rollshape.envs.tabular import TabularMDP
from rollshape.errors import RequestError
from rollshape.probes.collect import FunctionalSource, HostSource, Stream, estimate_advantages, open_source
from rollshape.probes.subject import Checkpoint, Estimator, ProbedRun
from rollshape.training.rollout import collect_with_policy
from rollshape.training.run import train
from rollshape.training.setup import new_driver, plan_run
from rollshape.training.spec import Spec
from rollshape.training.streams import stream_key

KEY = stream_key(0, "probe")


def test_states_are_drawn_from_the_stationary_distribution() -> None:
    """FrozenLake with its time limit, by the visits of every state and of every phase of the episode."""
    spec = Spec(env="FrozenLake-v1", num_envs=8, num_steps=4, hidden_sizes=(8,))
    driver = new_driver(spec, plan_run(spec))
    drawn = open_source(Checkpoint(driver, driver.start()), 512, "stationary")
    stream = drawn.draw(1, 0, KEY)
    mdp = driver.env
    assert isinstance(mdp, TabularMDP)
    outputs, _ = drawn.policy.network(jnp.eye(mdp.num_states))
    expected = exact.state_distribution(mdp, np.asarray(jax.nn.softmax(outputs), np.float64))
    found = np.asarray(stream.observation)[:, 0].mean(0)
    assert (np.abs(found - expected) <= 4 * np.sqrt(expected * (1 - expected) / 512) + 1e-6).all()
    assert len(np.unique(stream.steps)) > 5


def test_episodes_of_one_length_do_not_share_a_phase(checkpoint: Checkpoint) -> None:
    """The chain never ends, its phase has a period of 4, and all environments are reset at phase 0."""
    stream = open_source(checkpoint, 64, "stationary").draw(4, 0, KEY)
    phase = np.asarray(stream.observation)[:, 0].argmax(1) // 8
    assert (np.abs(np.bincount(phase, minlength=4) - 16) < 4 * np.sqrt(16)).all()


def test_draws_are_independent_and_repeat(checkpoint: Checkpoint) -> None:
    drawn = open_source(checkpoint, 64, "stationary")
    first, again, other = (drawn.draw(4, 2, key) for key in (KEY, KEY, jax.random.fold_in(KEY, 1)))
    np.testing.assert_array_equal(first.reward, again.reward)
    assert not np.array_equal(first.observation, other.observation)
    assert first.observation.shape[1] == 4
    assert first.reward.shape == (64, 6)
    assert first.value.shape == (64, 7)


def test_pieces_of_time_and_groups_of_environments_are_put_together(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """65 environments in three groups of 22, 73 steps in pieces of 64: the chain's phase goes on by one a step."""
    monkeypatch.setattr("rollshape.probes.collect.GROUP_ENVS", 32)
    drawn = open_source(checkpoint, 65, "stationary")
    stream = drawn.draw(70, 3, KEY)
    assert stream.reward.shape == (65, 73)
    assert stream.value.shape == (65, 74)
    observation = np.asarray(stream.observation)
    assert observation.shape[:2] == (65, 70)
    phase = observation.argmax(2) // 8
    assert ((np.diff(phase, axis=1) % 4) == 1).all()
    values = drawn.policy.network(stream.observation.reshape(65 * 70, -1))[1].reshape(65, 70)
    np.testing.assert_allclose(stream.value[:, :70], values, rtol=1e-4, atol=1e-5)
    assert not np.array_equal(observation[:22], observation[22:44])


@pytest.mark.parametrize("changes", [{}, {"algo": "reinforce"}, {"algo": "reinforce", "baseline": "none"}])
def test_windows_are_what_training_would_see(changes: dict[str, Any]) -> None:
    """Terminations, time limits and edges: each window against `advantages` of a rollout that ends there."""
    limited = {"max_steps": 15}  # time limits fall into every window
    spec = Spec(env="CartPole-v1", env_kwargs=limited, num_envs=32, num_steps=6, hidden_sizes=(8,), **changes)
    driver = new_driver(spec, plan_run(spec))
    checkpoint = Checkpoint(driver, driver.start())
    keys = (KEY, jax.random.fold_in(KEY, 1))
    last, first = jax.jit(lambda p, e: collect_with_policy(driver.env, p, e, keys, 30))(
        checkpoint.policy, checkpoint.episodes
    )
    assert bool(first.truncated.any())
    assert bool(first.terminated.any())
    values = jnp.concatenate([first.value, first.last_value[None]]).T
    stream = Stream(
        jnp.swapaxes(first.observation, 0, 1), first.action.T, values, first.reward.T, first.terminated.T,
        first.truncated.T, first.final_value.T, first.steps.T,
    )  # fmt: skip
    found = estimate_advantages(checkpoint.estimator, stream, 6)
    for begin in range(0, 30, 6):
        cut = jax.tree.map(lambda x, b=begin: x[b : b + 6] if x.ndim > 1 else x, first)
        cut = cut._replace(last_value=values[:, begin + 6])
        for ours, theirs in zip(found, driver.algorithm.advantages(cut), strict=True):
            np.testing.assert_allclose(ours[:, begin : begin + 6], theirs.T, rtol=1e-5, atol=1e-5)
    whole = estimate_advantages(checkpoint.estimator, stream)[0]
    np.testing.assert_allclose(whole, driver.algorithm.advantages(first)[0].T, rtol=1e-5, atol=1e-5)
    assert estimate_advantages(checkpoint.estimator, stream, 7)[0].shape == (32, 28)
    assert last.steps.shape == (32,)


def reinforce_estimator(checkpoint: Checkpoint, baseline: Any) -> Estimator:
    spec = Spec(algo="reinforce", baseline=baseline, num_envs=4, num_steps=4)
    env = checkpoint.env
    return Estimator(spec, new_algorithm(spec, spec.plan(), env.observation, env.action))


def test_a_mean_baseline_is_a_constant(checkpoint: Checkpoint) -> None:
    stream = open_source(checkpoint, 64, "stationary").draw(4, 0, KEY)
    plain, less = (
        estimate_advantages(reinforce_estimator(checkpoint, baseline), stream, 4)[0] for baseline in ("none", "mean")
    )
    np.testing.assert_allclose(less, plain - plain.mean(), atol=1e-6)


def test_normalisers_are_constants(checkpoint: Checkpoint) -> None:
    shape = checkpoint.env.observation.shape
    seen = Moments(jnp.full(shape, 0.5), jnp.full(shape, 4.0), jnp.ones(shape))
    scaled = Moments(jnp.zeros(()), jnp.asarray(4.0), jnp.ones(()))
    plain, normal, shifted = (copy.copy(checkpoint) for _ in range(3))
    normal.reward_moments = scaled
    shifted.policy = replace(checkpoint.policy, moments=seen)
    plain, normal, shifted = (
        FunctionalSource(each, 64, "stationary").draw(4, 0, KEY) for each in (plain, normal, shifted)
    )
    np.testing.assert_allclose(normal.reward, plain.reward / 2, rtol=1e-6)
    np.testing.assert_allclose(np.unique(shifted.observation), [-0.25, 0.25], rtol=1e-6)


def test_the_runs_own_states(tmp_path: Path) -> None:
    run = train(env="CartPole-v1", num_envs=32, num_steps=8, num_epochs=1, total_timesteps=512, hidden_sizes=(8,),
                out=tmp_path / "x")  # fmt: skip
    checkpoint = ProbedRun(run).checkpoint(2)
    drawn = open_source(checkpoint, None, "run")
    first, other = (drawn.draw(4, 0, jax.random.fold_in(KEY, i)) for i in range(2))
    np.testing.assert_array_equal(first.observation[:, 0], checkpoint.episodes.observation)
    np.testing.assert_array_equal(first.observation[:, 0], other.observation[:, 0])
    assert not np.array_equal(first.action, other.action)
    with pytest.raises(RequestError) as error:
        open_source(checkpoint, 64, "run")
    assert error.value.rule == "contradiction"


@pytest.mark.parametrize("env", ["gymnasium:CartPole-v1", "envpool:CartPole-v1"])
def test_steps_that_only_reset_are_left_out(env: str) -> None:
    """EnvPool resets an environment in a step of its own: a stream of transitions has no trace of it."""
    spec = Spec(env=env, env_kwargs={"max_episode_steps": 12}, num_envs=2, num_steps=4, hidden_sizes=(8,))
    driver = new_driver(spec, plan_run(spec))
    drawn = open_source(Checkpoint(driver, driver.start()), 32, "stationary")
    assert isinstance(drawn, HostSource)
    try:
        for i in range(2):
            stream = drawn.draw(30, 10, jax.random.fold_in(KEY, i))
            ended = np.asarray(stream.terminated | stream.truncated)
            steps = np.asarray(stream.steps)
            assert stream.reward.shape == (32, 40)
            assert (np.asarray(stream.reward) == 1).all()
            np.testing.assert_array_equal(steps[:, 1:], np.where(ended[:, :-1], 0, steps[:, :-1] + 1))
            assert bool(stream.truncated.any())
            assert len(np.unique(steps[:, 0])) > 4
            np.testing.assert_allclose(
                stream.value[:, :30], drawn.policy.network.value(stream.observation), rtol=1e-4, atol=1e-5
            )
            assert ((np.asarray(stream.final_value) != 0) == np.asarray(stream.truncated)).all()
    finally:
        drawn.close()
        driver.close()


def test_too_few_environments(checkpoint: Checkpoint) -> None:
    for count, start in ((31, "stationary"), (None, "run")):  # the run has 8
        with pytest.raises(RequestError) as error:
            open_source(checkpoint, count, start)
        assert error.value.rule == "independent-environments"


def test_host_environments_have_no_states_to_start_from() -> None:
    spec = Spec(env="gymnasium:CartPole-v1", num_envs=32, num_steps=4, hidden_sizes=(8,))
    driver = new_driver(spec, plan_run(spec))
    with pytest.raises(RequestError) as error:
        open_source(Checkpoint(driver, driver.start()), None, "run")
    assert error.value.rule == "environment"
    driver.close()
