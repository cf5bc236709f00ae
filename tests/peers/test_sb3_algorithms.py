"""A2C of Stable-Baselines3 and RecurrentPPO of sb3-contrib do what Rollshape says that they do."""

from typing import Any

import pytest

pytest.importorskip("stable_baselines3")
pytest.importorskip("sb3_contrib")

from sb3_contrib import RecurrentPPO
from stable_baselines3 import A2C

from peers.checks import check_minibatches, check_settings, predicted
from peers.drivers import Counted
from peers.drivers.sb3_driver import train
from peers.shapes import dozen
from rollshape.errors import RequestError

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]

RAW = {"n_envs": 3, "n_steps": 5, "n_timesteps": 30}  # a rollout of 15


def train_recurrent(config: dict[str, Any]) -> Counted:
    return train(config, RecurrentPPO, "MlpLstmPolicy")


@pytest.mark.parametrize("shape", dozen("a2c")[::4], ids=str)
def test_a2c_takes_one_step_on_the_whole_rollout(shape: Any) -> None:
    translation = shape.translated("sb3:a2c")
    counted = train(translation.config, A2C)
    check_minibatches(counted, "sb3:a2c", translation.config)
    check_settings(counted, "sb3:a2c", translation.config)
    assert counted.steps == [1, 1]


def test_the_defaults_of_a2c() -> None:
    config = {"n_envs": 2, "n_timesteps": 11}
    counted = train(config, A2C)
    assert counted.minibatches == [[10], [10]]
    check_minibatches(counted, "sb3:a2c", config)
    check_settings(counted, "sb3:a2c", config)


@pytest.mark.parametrize("shape", dozen("recurrent")[::3], ids=str)
def test_recurrent_ppo_cuts_minibatches_anywhere(shape: Any) -> None:
    translation = shape.translated("sb3:recurrent_ppo")
    counted = train_recurrent(translation.config)
    check_minibatches(counted, "sb3:recurrent_ppo", translation.config)
    check_settings(counted, "sb3:recurrent_ppo", translation.config)


def test_the_defaults_of_recurrent_ppo() -> None:
    config = {"n_envs": 2, "n_timesteps": 1}
    counted = train_recurrent(config)
    assert counted.minibatches == [[128] * 20]
    check_minibatches(counted, "sb3:recurrent_ppo", config)


def test_a_remainder_of_recurrent_ppo_is_a_short_last_minibatch() -> None:
    config = RAW | {"batch_size": 4, "n_epochs": 2}
    counted = train_recurrent(config)
    assert counted.minibatches == [[4, 4, 4, 3] * 2] * 2
    check_minibatches(counted, "sb3:recurrent_ppo", config)


def test_a_single_sample_makes_recurrent_ppo_nan() -> None:
    config = RAW | {"batch_size": 1, "n_epochs": 1}
    with pytest.raises((ValueError, RuntimeError), match="nan"):  # a distribution of NaN, validated or sampled
        train_recurrent(config)
    with pytest.raises(RequestError, match="single advantage is NaN"):
        predicted("sb3:recurrent_ppo", config)
