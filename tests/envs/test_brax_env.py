"""Brax and MuJoCo Playground: our time limit and resets on their dynamics, and nothing of their wrappers."""

from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rollshape
from rollshape.envs.functional import FunctionalEnv, start, step_and_reset
from rollshape.envs.registry import kind, make
from rollshape.envs.spaces import Continuous
from rollshape.errors import RequestError

pytest.importorskip("brax")
WRAPPER_KEYS = {"steps", "truncation", "first_state", "first_obs", "episode_done", "episode_metrics"}


def test_dynamics_time_limit_and_reset() -> None:
    env = make("brax:fast", max_steps=3)
    assert (env.observation.shape, env.observation.dtype) == ((2,), "float32")
    assert env.action == Continuous(1, -1.0, 1.0)
    assert make("brax:fast").max_steps == 1000
    episode = start(env, jax.random.key(0))
    assert not WRAPPER_KEYS & set(episode.state.info)  # the wrappers of Brax are not applied
    step = jax.jit(partial(step_and_reset, env))
    ends, velocity = [], 0.0
    for number in range(1, 7):
        episode, result = step(jax.random.key(number), episode, jnp.ones(1))
        velocity = 0.02 if number in (1, 4) else velocity + 0.02
        assert float(result.final_observation[1]) == pytest.approx(velocity)  # dt = 0.02 per step forward
        assert (result.reward.dtype, result.terminated.dtype) == (jnp.float32, jnp.bool_)
        ends.append((bool(result.terminated), bool(result.truncated), int(episode.steps)))
        if number in (3, 6):
            assert (np.asarray(episode.observation) == 0).all()  # of the reset, the final one is not lost
    assert ends == [(False, False, 1), (False, False, 2), (False, True, 0)] * 2


def test_a_run(tmp_path: Path) -> None:
    spec = {"num_envs": 4, "num_steps": 4, "total_timesteps": 32, "hidden_sizes": (4,), "final_episodes": 2}
    assert kind("brax:fast") == "functional"
    run = rollshape.train(env="brax:fast", env_kwargs={"max_steps": 6}, num_shards=1, out=tmp_path / "run", **spec)
    assert run.status == "done"
    assert run.final_return is not None
    assert "brax" in run.versions


def test_wrong_requests_are_one_message() -> None:
    for name, options, words in (
        ("brax:fastt", {}, "Did you mean fast"),
        ("brax:fast", {"max_steps": 0}, "max_steps"),
        ("brax:fast", {"asymmetric_obs": True}, "cannot be created"),
        ("brax:fast", {"obs_mode": "dict_pixels_state"}, "observations pixels/view_0, pixels/view_1, state"),
    ):
        with pytest.raises(RequestError) as caught:
            make(name, **options)
        assert words in str(caught.value)
    assert make("brax:fast", obs_mode="dict_state").observation.shape == (2,)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "size"), [("brax:inverted_pendulum", 4), ("playground:CartpoleBalance", 5)])
def test_physics(name: str, size: int, tmp_path: Path) -> None:
    if name.startswith("playground"):
        pytest.importorskip("mujoco_playground")
    env: FunctionalEnv = make(name, max_steps=2)
    assert env.observation.shape == (size,)
    episode = jax.jit(partial(start, env))(jax.random.key(0))
    assert not WRAPPER_KEYS & set(episode.state.info)
    step = jax.jit(partial(step_and_reset, env))
    starts, ends = [np.asarray(episode.observation)], []
    for number in range(1, 5):
        episode, result = step(jax.random.key(number), episode, jnp.zeros(1))
        ends.append((bool(result.terminated), bool(result.truncated)))
        assert np.isfinite(result.final_observation).all()
        starts += [np.asarray(episode.observation)] if result.truncated else []
    assert ends == [(False, False), (False, True)] * 2
    assert len({tuple(first) for first in starts}) == 3  # every reset draws a new initial state
    spec = {"num_envs": 4, "num_steps": 4, "total_timesteps": 32, "hidden_sizes": (4,), "final_episodes": 0}
    run = rollshape.train(env=name, env_kwargs={"max_steps": 12}, num_shards=1, out=tmp_path / "run", **spec)
    assert run.status == "done"
    assert run.rows[-1].metric("policy_loss") is not None
