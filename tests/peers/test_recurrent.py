"""Recurrent policies in the real libraries: the rules that Rollshape knows are those that they enforce."""

from collections import Counter
from typing import Any

import pytest

pytest.importorskip("rl_games")
pytest.importorskip("rsl_rl")
pytest.importorskip("skrl")

import rollshape
from peers.drivers import rl_games_driver, rsl_rl_driver, skrl_recurrent_driver
from peers.drivers.rsl_rl_driver import lost
from rollshape import Plan, RequestError
from rollshape.geometry.dialects import DIALECTS
from rollshape.geometry.dialects.predict import predict
from rollshape.geometry.dialects.reading import read

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]

Config = dict[str, Any]
RL_GAMES = {
    "learning_rate": 1e-3, "gamma": 0.99, "tau": 0.95, "e_clip": 0.2, "entropy_coef": 0.0, "critic_coef": 1.0,
    "grad_norm": 0.5, "lr_schedule": "None", "mini_epochs": 2, "max_epochs": 1,
}  # fmt: skip
RSL_RL = {"num_learning_epochs": 2, "max_iterations": 2}


def predicted(name: str, config: Config, **facts: Any) -> Plan:
    return predict(DIALECTS[name], read(config, DIALECTS[name], **facts).recipe)


def rl_games_file(num_envs: int, steps: int, size: int, length: int, agents: int = 1) -> Config:
    sizes = {"num_actors": num_envs, "horizon_length": steps, "minibatch_size": size, "seq_length": length}
    env = {"env_config": {"agents": agents}} if agents > 1 else {}
    return rl_games_driver.agent_config(RL_GAMES | sizes | env, rl_games_driver.RECURRENT)


@pytest.mark.parametrize(("num_envs", "steps", "size", "length"), [(4, 8, 16, 4), (3, 8, 8, 8), (5, 6, 15, 3)])
def test_rl_games_trains_on_whole_sequences(num_envs: int, steps: int, size: int, length: int) -> None:
    file = rl_games_file(num_envs, steps, size, length)
    result = predicted("rl_games", file)
    counted = rl_games_driver.run(file)
    assert counted.minibatches == [result.split.sizes() * 2]
    assert counted.steps == [result.gradient_steps_per_update]


@pytest.mark.parametrize(
    ("num_envs", "steps", "size", "length", "error"),
    [(4, 8, 8, 16, ValueError), (6, 4, 6, 4, ValueError), (4, 6, 12, 4, IndexError), (4, 6, 8, 4, IndexError)],
)
def test_rl_games_refuses_what_we_say(
    num_envs: int, steps: int, size: int, length: int, error: type[Exception]
) -> None:
    file = rl_games_file(num_envs, steps, size, length)
    with pytest.raises(error) as real:
        rl_games_driver.run(file)
    with pytest.raises(RequestError, match=rf"rl_games rejects .*: {error.__name__}: ") as foreseen:
        predicted("rl_games", file)
    if error is ValueError and "Horizon" in str(real.value):
        assert str(real.value) in foreseen.value.message
    counted = rl_games_driver.run(rollshape.fit_config(file, "rl_games", verbose=False))
    assert sum(counted.minibatches[0]) == 2 * num_envs * steps


def test_rl_games_counts_each_agent() -> None:
    file = rl_games_file(4, 8, 16, 4, agents=3)
    result = predicted("rl_games", file, num_agents=3)
    counted = rl_games_driver.run(file)
    assert result.rollout_size == 4 * 8 * 3
    assert counted.minibatches == [[16] * 6 * 2] == [result.split.sizes() * 2]


@pytest.mark.parametrize(("num_envs", "steps", "count"), [(4, 6, 2), (5, 4, 2), (7, 3, 3)])
def test_rsl_rl_trains_on_whole_environments(num_envs: int, steps: int, count: int) -> None:
    config = RSL_RL | {"num_envs": num_envs, "num_steps_per_env": steps, "num_mini_batches": count}
    result = predicted("rsl_rl", config, recurrent=True)
    counted = rsl_rl_driver.train(config, rsl_rl_driver.RECURRENT)
    assert counted.minibatches == [result.split.sizes() * 2] * 2
    left_out = {(step, env) for step in range(steps) for env in range(num_envs - num_envs % count, num_envs)}
    assert len(left_out) == result.dropped
    for trained in counted.trained:
        assert lost(trained, num_envs, steps) == left_out
        assert set(Counter(trained).values()) == {2}


def test_rsl_rl_fitted_uses_every_environment() -> None:
    config = RSL_RL | {"num_envs": 6, "num_steps_per_env": 4, "num_mini_batches": 4}
    fitted = rollshape.fit_config(config, "rsl_rl", verbose=False, recurrent=True)
    counted = rsl_rl_driver.train(fitted, rsl_rl_driver.RECURRENT)
    assert lost(counted.trained[0], 6, 4) == set()


SKRL = {"learning_epochs": 2}


@pytest.mark.parametrize(
    ("num_envs", "rollouts", "count", "length"), [(4, 8, 2, 4), (3, 6, 3, 3), (2, 8, 4, 2), (3, 5, 2, 1)]
)
def test_skrl_trains_on_whole_sequences(num_envs: int, rollouts: int, count: int, length: int) -> None:
    config = SKRL | {"num_envs": num_envs, "rollouts": rollouts, "mini_batches": count, "timesteps": 2 * rollouts}
    result = predicted("skrl", config, seq_length=length)
    counted = skrl_recurrent_driver.train(config, length)
    assert counted.minibatches == [result.split.sizes() * 2] * 2
    assert counted.steps == [result.gradient_steps_per_update] * 2


@pytest.mark.parametrize(("num_envs", "rollouts", "count", "length"), [(3, 8, 2, 8), (3, 5, 2, 5), (2, 6, 4, 2)])
def test_skrl_refuses_what_we_say(num_envs: int, rollouts: int, count: int, length: int) -> None:
    config = SKRL | {"num_envs": num_envs, "rollouts": rollouts, "mini_batches": count, "timesteps": rollouts}
    with pytest.raises(RuntimeError, match="invalid for input of size"):
        skrl_recurrent_driver.train(config, length)
    with pytest.raises(RequestError, match=r"skrl rejects .*: RuntimeError: "):
        predicted("skrl", config, seq_length=length)
    fitted = rollshape.fit_config(config, "skrl", verbose=False, seq_length=length)
    assert sum(skrl_recurrent_driver.train(fitted, length).minibatches[0]) == 2 * num_envs * rollouts
