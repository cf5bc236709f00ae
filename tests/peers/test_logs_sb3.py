"""Logs of Stable-Baselines3: the imported values are those that the library computed, at the update they belong to."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("stable_baselines3")

from stable_baselines3 import A2C, PPO
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import configure

from peers.drivers import CARTPOLE
from peers.logs import check_same_as_tensorboard, column, import_one
from rollshape.errors import RequestError
from rollshape.integrations.logs.events import read_events

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]

SETTINGS = {"n_steps": 32, "device": "cpu", "policy_kwargs": {"net_arch": [8]}, "seed": 1}


def train(
    kind: Any,
    folder: Path,
    formats: list[str],
    updates: int,
    log_interval: int = 1,
    evaluate: bool = False,
    **more: Any,
) -> dict[int, dict[str, float]]:
    """Train and return what the library recorded in each update, captured from its logger."""
    env = make_vec_env(CARTPOLE, n_envs=2, seed=1, monitor_dir=str(folder) if evaluate else None)
    model = kind("MlpPolicy", env, **SETTINGS, **more)
    model.set_logger(configure(str(folder), formats))
    recorded: dict[int, dict[str, float]] = {}
    original = model.train

    def train_and_record() -> None:
        original()
        values = model.logger.name_to_value
        recorded[len(recorded) + 1] = {name: float(value) for name, value in values.items() if "train/" in name}

    model.train = train_and_record
    options = {"eval_freq": 24, "n_eval_episodes": 3, "log_path": str(folder), "verbose": 0}
    callback = EvalCallback(make_vec_env(CARTPOLE, n_envs=1, seed=5), **options) if evaluate else None
    model.learn(64 * updates, callback=callback, log_interval=log_interval)
    env.close()
    model.logger.close()
    del model.train  # a closure cannot be saved
    model.save(folder / "model.zip")
    return recorded


def check_updates(run: Any, recorded: dict[int, dict[str, float]]) -> None:
    names = {
        "train/policy_gradient_loss": ("policy_loss", 1), "train/value_loss": ("value_loss", 1),
        "train/entropy_loss": ("entropy", -1), "train/clip_fraction": ("clip_fraction", 1),
        "train/explained_variance": ("explained_variance", 1), "train/learning_rate": ("learning_rate", 1),
    }  # fmt: skip
    for tag, (name, sign) in names.items():
        values = column(run, name)
        assert values, name
        for update, value in values.items():
            assert value == pytest.approx(sign * recorded[update][tag], rel=1e-5, abs=1e-7), (name, update)
    for update, epochs in column(run, "approx_kl_epochs").items():
        assert epochs[:-1] == [None] * (len(epochs) - 1)
        assert epochs[-1] == pytest.approx(recorded[update]["train/approx_kl"], rel=1e-5, abs=1e-9)


def test_values_belong_to_the_update_that_they_describe(tmp_path: Path) -> None:
    recorded = train(PPO, tmp_path, ["csv", "tensorboard"], 8, evaluate=True, batch_size=16, n_epochs=3)
    check_same_as_tensorboard(tmp_path)
    run = import_one(tmp_path)
    assert (run.description.env, run.description.plan.num_envs, run.description.plan.num_steps) == (CARTPOLE, 2, 32)
    assert (run.description.plan.minibatch_size, run.description.plan.num_epochs) == (16, 3)
    assert [row["update"] for row in run.rows] == list(range(1, 9))
    assert [row["timesteps"] for row in run.rows] == [64 * update for update in range(1, 9)]
    check_updates(run, recorded)
    assert run.status == "done"


def test_episodes_are_those_of_the_monitor_files(tmp_path: Path) -> None:
    train(PPO, tmp_path, ["csv"], 6, evaluate=True, batch_size=16)
    run = import_one(tmp_path)
    ends = []
    for file in tmp_path.glob("*.monitor.csv"):
        rows = [line.split(",") for line in file.read_text().splitlines()[2:]]
        steps = np.cumsum([int(row[1]) for row in rows]) * 2
        ends += [(math.ceil(step / 64), float(row[0])) for step, row in zip(steps, rows, strict=True)]
    for update, score in column(run, "episodic_return").items():
        returns = [value for number, value in ends if number == update]
        assert score == pytest.approx(np.mean(returns))
        assert column(run, "episodes")[update] == len(returns)
    evaluations = np.load(tmp_path / "evaluations.npz")
    expected = {
        math.ceil(step / 64) - 1: float(np.mean(scores))
        for step, scores in zip(evaluations["timesteps"], evaluations["results"], strict=True)
    }
    expected.pop(0, None)
    assert column(run, "eval_return") == pytest.approx(expected)


def test_a_log_of_every_third_update(tmp_path: Path) -> None:
    recorded = train(PPO, tmp_path, ["tensorboard"], 9, log_interval=3, batch_size=16, n_epochs=2)
    run = import_one(tmp_path)
    assert sorted(column(run, "episodic_return")) == [3, 6, 9]
    assert sorted(column(run, "value_loss")) == [2, 5, 8]
    check_updates(run, recorded)


def test_a2c_is_recognized_by_its_tags(tmp_path: Path) -> None:
    train(A2C, tmp_path, ["csv"], 4)
    (tmp_path / "model.zip").unlink()
    with pytest.raises(RequestError, match=r"num_envs, num_steps\. The log shows that a rollout has 64 samples"):
        import_one(tmp_path)
    run = import_one(tmp_path, num_envs=2, env=CARTPOLE)
    assert (run.description.plan.algo, run.description.plan.num_steps) == ("a2c", 32)


def test_the_config_of_another_run_is_refused(tmp_path: Path) -> None:
    train(PPO, tmp_path, ["tensorboard"], 3, batch_size=16)
    (tmp_path / "model.zip").unlink()
    sizes = {"num_envs": 2, "minibatch_size": 16, "num_epochs": 10}
    assert import_one(tmp_path, num_steps=32, **sizes).rows
    with pytest.raises(RequestError, match="not a multiple of the rollout of 96"):
        import_one(tmp_path, num_steps=48, **sizes)


def test_a_continued_run_has_two_event_files(tmp_path: Path) -> None:
    env = make_vec_env(CARTPOLE, n_envs=2, seed=1)
    model = PPO("MlpPolicy", env, batch_size=16, **SETTINGS)
    for _ in range(2):
        model.set_logger(configure(str(tmp_path), ["tensorboard"]))
        model.learn(64 * 3, reset_num_timesteps=False)
        model.logger.close()
    model.save(tmp_path / "model.zip")
    assert len(list(tmp_path.glob("*tfevents*"))) == 2
    run = import_one(tmp_path)
    assert [row["update"] for row in run.rows] == [1, 2, 3, 4, 5, 6]


def test_a_truncated_log_is_read_up_to_its_last_whole_record(tmp_path: Path) -> None:
    train(PPO, tmp_path, ["tensorboard"], 4, batch_size=16)
    [file] = tmp_path.glob("*tfevents*")
    file.write_bytes(file.read_bytes()[:-300])
    assert "incomplete record" in read_events(file).notes[0]
    run = import_one(tmp_path)
    assert run.rows
    assert any("incomplete record" in note for note in run.notes)
