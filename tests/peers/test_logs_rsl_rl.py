"""Logs of RSL-RL: the imported values are those that its update returned, at the same iteration."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rsl_rl")

from rsl_rl.runners import OnPolicyRunner

from peers.drivers import seed_everything
from peers.drivers.rsl_rl_driver import MODEL, LabelledCartPoles
from peers.logs import check_same_as_tensorboard, column, import_one
from rollshape.errors import RequestError

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]

AGENT = """
seed: 3
num_steps_per_env: 8
max_iterations: 5
class_name: OnPolicyRunner
experiment_name: cartpole
algorithm: {class_name: PPO, num_learning_epochs: 2, num_mini_batches: 4, learning_rate: 0.001}
"""
ENV = "scene: {num_envs: 4}\nviewer: {eye: !!python/tuple [7.5, 7.5, 7.5]}\n"


def train(folder: Path, iterations: int = 5) -> list[dict[str, Any]]:
    """Train 4 × 8 and return what every update returned; the config is saved as Isaac Lab does."""
    (folder / "params").mkdir(parents=True)
    (folder / "params" / "agent.yaml").write_text(AGENT)
    (folder / "params" / "env.yaml").write_text(ENV)
    seed_everything()
    config = {
        "num_steps_per_env": 8,
        "save_interval": 10**9,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "actor": {**MODEL, "distribution_cfg": {"class_name": "GaussianDistribution"}},
        "critic": dict(MODEL),
        "algorithm": {"class_name": "PPO", "num_learning_epochs": 2, "num_mini_batches": 4, "learning_rate": 1e-3},
    }
    runner = OnPolicyRunner(LabelledCartPoles(4), config, log_dir=str(folder), device="cpu")
    updates: list[dict[str, Any]] = []
    original = runner.alg.update

    def update() -> dict[str, Any]:
        updates.append(dict(original()))
        return updates[-1]

    runner.alg.update = update
    runner.learn(iterations)
    runner.logger.writer.close()
    return updates


def test_values_belong_to_the_iteration_that_they_describe(tmp_path: Path) -> None:
    updates = train(tmp_path / "run")
    check_same_as_tensorboard(tmp_path / "run")
    run = import_one(tmp_path / "run", env="CartPole-v1")
    assert (run.description.trainer.dialect, run.description.trainer.name) == ("isaaclab:rsl_rl", "Isaac Lab")
    assert (run.description.plan.num_envs, run.description.plan.num_steps, run.description.plan.num_epochs) == (4, 8, 2)
    assert [row["timesteps"] for row in run.rows] == [32, 64, 96, 128, 160]
    for name, key in (("value_loss", "value"), ("policy_loss", "surrogate"), ("entropy", "entropy")):
        assert list(column(run, name).values()) == pytest.approx([update[key] for update in updates], rel=1e-5)
    assert len(column(run, "sps")) == len(column(run, "action_std")) == 5
    assert (run.status, run.description.settings["seed"]) == ("done", 3)
    assert not column(run, "approx_kl")


def test_the_wrong_number_of_environments_is_refused(tmp_path: Path) -> None:
    train(tmp_path / "run")
    (tmp_path / "run" / "params" / "env.yaml").write_text("scene: {num_envs: 8}\n")
    with pytest.raises(RequestError, match=r"about 3[0-9] samples per iteration, but the sizes say 64"):
        import_one(tmp_path / "run")


def test_without_a_config_the_sizes_are_asked_for(tmp_path: Path) -> None:
    train(tmp_path / "run", iterations=3)
    for name in ("agent", "env"):
        (tmp_path / "run" / "params" / f"{name}.yaml").unlink()
    with pytest.raises(RequestError, match="num_envs, num_steps, num_minibatches, num_epochs"):
        import_one(tmp_path / "run")
    run = import_one(tmp_path / "run", num_envs=4, num_steps=8, num_minibatches=4, num_epochs=2)
    assert [row["update"] for row in run.rows] == [1, 2, 3]
