"""Logs of skrl: the imported values are those that its agent tracked, converted to our definitions."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("skrl")

import gymnasium as gym
from skrl.envs.wrappers.torch import wrap_env
from skrl.utils.runner.torch import Runner

from peers.drivers import SEED, seed_everything
from peers.drivers.skrl_driver import MODELS
from peers.logs import check_same_as_tensorboard, column, import_one

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]

CONTINUOUS = {**MODELS, "policy": {**MODELS["policy"], "class": "GaussianMixin"}}
AGENT = {"rollouts": 8, "mini_batches": 2, "learning_epochs": 2, "entropy_loss_scale": 0.01, "value_loss_scale": 2.0}


def train(folder: Path, write_interval: int, **changes: Any) -> tuple[list[dict[str, float]], Path]:
    """Train 3 × 8 on Pendulum for 5 updates; return what every update tracked, and the folder."""
    seed_everything()
    env = wrap_env(gym.make_vec("Pendulum-v1", num_envs=3, vectorization_mode="sync"), "gymnasium", verbose=False)
    experiment = {
        "directory": str(folder), "experiment_name": "run", "write_interval": write_interval, "checkpoint_interval": 0,
    }  # fmt: skip
    config = {
        "seed": SEED,
        "models": CONTINUOUS,
        "memory": {"class": "RandomMemory", "memory_size": -1},
        "agent": {"class": "PPO", "experiment": experiment, **AGENT, **changes},
        "trainer": {"class": "SequentialTrainer", "timesteps": 40, "headless": True, "disable_progressbar": True,
                    "close_environment_at_exit": False},
    }  # fmt: skip
    import yaml

    text = yaml.safe_dump({**config, "num_envs": 3})
    runner = Runner(env, config)
    tracked: list[dict[str, float]] = []
    original = runner.agent.track_data

    def track(tag: str, value: float) -> None:
        if tag == "Loss / Policy loss":
            tracked.append({})
        if tracked:
            tracked[-1][tag] = float(value)
        original(tag, value)

    runner.agent.track_data = track
    runner.run("train")
    runner.agent.writer.close()
    (folder / "run" / "config.yaml").write_text(text)
    return tracked, folder / "run"


def test_values_are_converted_to_our_definitions(tmp_path: Path) -> None:
    tracked, folder = train(tmp_path, write_interval=8, value_clip=0.0)
    check_same_as_tensorboard(folder)
    run = import_one(folder, env="Pendulum-v1")
    assert run.description.trainer.name == "skrl"
    assert [row["timesteps"] for row in run.rows] == [24, 48, 72, 96, 120]
    expected = {
        "policy_loss": [update["Loss / Policy loss"] for update in tracked],
        "value_loss": [update["Loss / Value loss"] / 2.0 for update in tracked],
        "entropy": [-update["Loss / Entropy loss"] / 0.01 for update in tracked],
        "action_std": [update["Policy / Standard deviation"] for update in tracked],
    }
    for name, values in expected.items():
        assert list(column(run, name).values()) == pytest.approx(values, rel=1e-4, abs=1e-7), name


def test_a_clipped_value_loss_is_left_out(tmp_path: Path) -> None:
    _, folder = train(tmp_path, write_interval=16)
    run = import_one(folder)
    assert not column(run, "value_loss")
    assert sorted(column(run, "policy_loss")) == [2, 4]
