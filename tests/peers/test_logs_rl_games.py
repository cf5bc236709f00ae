"""Logs of rl_games: the imported values are those of the epoch, for discrete and continuous agents."""

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("rl_games")

from peers.drivers import SEED, seed_everything
from peers.drivers.rl_games_driver import (
    NETWORK,
    AlgoObserver,
    CartPoles,
    Runner,
    agent_config,
    env_configurations,
    vecenv,
)
from peers.logs import check_same_as_tensorboard, column, import_one
from rollshape.errors import RequestError

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]

SIZES = {
    "num_actors": 4, "horizon_length": 8, "minibatch_size": 16, "mini_epochs": 2, "max_epochs": 5, "gamma": 0.99,
    "tau": 0.95, "e_clip": 0.2, "learning_rate": 1e-3, "entropy_coef": 0.0, "critic_coef": 1.0, "grad_norm": 1.0,
    "truncate_grads": True, "ppo": True, "normalize_value": False, "lr_schedule": None,
}  # fmt: skip


class ContinuousCartPoles(CartPoles):
    """CartPole whose action is the sign of a number."""

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        return super().step((np.asarray(actions).reshape(-1) > 0).astype(int))

    def get_env_info(self) -> dict[str, Any]:
        return {**super().get_env_info(), "action_space": gym.spaces.Box(-1.0, 1.0, (1,), np.float32)}


vecenv.register("PEERS-CONTINUOUS", ContinuousCartPoles)
env_configurations.register("peers-continuous", {"vecenv_type": "PEERS-CONTINUOUS", "env_creator": None})


class Recorder(AlgoObserver):
    """Keeps what every training epoch returned."""

    def __init__(self) -> None:
        self.epochs: list[tuple[Any, ...]] = []

    def after_init(self, algo: Any) -> None:
        self.algo = algo
        original = algo.train_epoch

        def train_epoch() -> tuple[Any, ...]:
            self.epochs.append(original())
            return self.epochs[-1]

        algo.train_epoch = train_epoch


def train(folder: Path, continuous: bool, **changes: Any) -> tuple[Recorder, Path]:
    config = agent_config({**SIZES, **changes})
    if continuous:
        space = {"mu_activation": "None", "sigma_activation": "None", "fixed_sigma": True}
        space |= {"mu_init": {"name": "default"}, "sigma_init": {"name": "const_initializer", "val": 0}}
        config["params"] |= {"algo": {"name": "a2c_continuous"}, "model": {"name": "continuous_a2c_logstd"}}
        config["params"]["network"] = {**NETWORK, "space": {"continuous": space}}
        config["params"]["config"] |= {"env_name": "peers-continuous", "bounds_loss_coef": 0.0, "clip_actions": False}
    import yaml

    text = yaml.safe_dump(config)
    seed_everything()
    recorder = Recorder()
    runner = Runner(recorder)
    runner.load(config)
    runner.params["config"]["train_dir"] = str(folder)
    runner.run({"train": True})
    recorder.algo.writer.close()
    [run] = [path.parent for path in folder.glob("*/summaries")]
    (run / "config.yaml").write_text(text)
    return recorder, run


def mean(values: Any) -> float:
    return float(np.mean([float(value) for value in values]))


@pytest.mark.parametrize("continuous", [False, True])
def test_values_belong_to_the_epoch_that_they_describe(tmp_path: Path, continuous: bool) -> None:
    recorder, folder = train(tmp_path, continuous)
    check_same_as_tensorboard(folder)
    run = import_one(folder, env="CartPole-v1")
    assert [row["update"] for row in run.rows] == [1, 2, 3, 4, 5]
    assert [row["timesteps"] for row in run.rows] == [32, 64, 96, 128, 160]
    offset = 1 if continuous else 0  # the list of losses of bounds
    for name, index in (("policy_loss", 4), ("value_loss", 5), ("entropy", 6 + offset), ("approx_kl", 7 + offset)):
        expected = [mean(epoch[index]) for epoch in recorder.epochs]
        assert list(column(run, name).values()) == pytest.approx(expected, rel=1e-4, abs=1e-7), name
    assert (run.status, run.description.settings["seed"]) == ("done", SEED)


def test_the_loss_of_normalized_values_is_left_out(tmp_path: Path) -> None:
    _, folder = train(tmp_path, continuous=False, normalize_value=True)
    run = import_one(folder)
    assert not column(run, "value_loss")
    assert column(run, "policy_loss")
    assert any("value_loss is not taken from losses/c_loss" in note for note in run.notes)


def test_the_config_of_another_run_is_refused(tmp_path: Path) -> None:
    _, folder = train(tmp_path, continuous=True)
    text = (folder / "config.yaml").read_text().replace("horizon_length: 8", "horizon_length: 16")
    (folder / "config.yaml").write_text(text)
    with pytest.raises(RequestError, match="but a rollout has 64 samples"):
        import_one(folder)
