"""Logs of CleanRL: its tags and its text table, as its scripts write them with torch's SummaryWriter."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch.utils.tensorboard")

from torch.utils.tensorboard import SummaryWriter

from peers.logs import check_same_as_tensorboard, column, import_one
from rollshape.errors import RequestError

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]

ARGS = {
    "exp_name": "ppo", "seed": 4, "torch_deterministic": True, "env_id": "CartPole-v1", "total_timesteps": 384,
    "learning_rate": 0.00025, "num_envs": 4, "num_steps": 16, "anneal_lr": True, "gamma": 0.99, "gae_lambda": 0.95,
    "num_minibatches": 2, "update_epochs": 3, "norm_adv": True, "clip_coef": 0.2, "clip_vloss": True, "ent_coef": 0.01,
    "vf_coef": 0.5, "max_grad_norm": 0.5, "target_kl": None, "batch_size": 64, "minibatch_size": 32,
    "num_iterations": 6, "wandb_entity": None,
}  # fmt: skip


def write(folder: Path, iterations: int = 6, first: int = 1) -> dict[int, list[float]]:
    """Write a log in the order of CleanRL's ppo.py; return the episodes of every update."""
    writer = SummaryWriter(str(folder))
    table = "\n".join([f"|{key}|{value}|" for key, value in ARGS.items()])
    writer.add_text("hyperparameters", f"|param|value|\n|-|-|\n{table}")
    random, episodes = np.random.default_rng(first), {}
    for iteration in range(first, iterations + 1):
        for step in range(1, 17):
            global_step = 64 * (iteration - 1) + 4 * step
            for _ in range(int(random.integers(0, 2))):
                score = float(random.integers(10, 200))
                episodes.setdefault(iteration, []).append(score)
                writer.add_scalar("charts/episodic_return", np.array([score]), global_step)
                writer.add_scalar("charts/episodic_length", score, global_step)
        for name, value in (("value_loss", 3.0), ("policy_loss", 0.1), ("entropy", 0.6), ("old_approx_kl", 0.01),
                            ("approx_kl", 0.02), ("clipfrac", 0.1), ("explained_variance", 0.3)):  # fmt: skip
            writer.add_scalar(f"losses/{name}", value * iteration, 64 * iteration)
        writer.add_scalar("charts/learning_rate", 2.5e-4, 64 * iteration)
        writer.add_scalar("charts/SPS", 1000, 64 * iteration)
    writer.close()
    return episodes


def test_values_and_hyperparameters_come_from_the_event_file(tmp_path: Path) -> None:
    episodes = write(tmp_path)
    check_same_as_tensorboard(tmp_path)
    run = import_one(tmp_path)
    plan, settings = run.description.plan, run.description.settings
    assert (run.description.env, settings["seed"], plan.num_envs, plan.num_steps) == ("CartPole-v1", 4, 4, 16)
    assert (plan.minibatch_size, plan.num_epochs, plan.num_updates, settings["gamma"]) == (32, 3, 6, 0.99)
    assert "target_kl" not in settings
    assert column(run, "episodic_return") == pytest.approx({key: np.mean(value) for key, value in episodes.items()})
    assert column(run, "episodes") == {key: len(value) for key, value in episodes.items()}
    assert column(run, "value_loss") == pytest.approx({update: 6.0 * update for update in range(1, 7)})
    assert column(run, "approx_kl_epochs")[6] == [None, None, pytest.approx(0.12)]
    assert not column(run, "policy_loss")
    assert run.status == "done"


def test_a_restarted_run_replaces_what_it_writes_again(tmp_path: Path) -> None:
    write(tmp_path, iterations=4)
    [first] = tmp_path.glob("*tfevents*")
    first.rename(tmp_path / "events.out.tfevents.1")
    again = write(tmp_path, first=3)
    run = import_one(tmp_path)
    assert [row["update"] for row in run.rows] == [1, 2, 3, 4, 5, 6]
    assert column(run, "episodes")[3] == len(again[3])
    assert any("replaces" in note for note in run.notes)


def test_other_sizes_than_those_of_the_log_are_refused(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(RequestError, match="num_steps is 32 by the flag, but num_steps of the config is 16"):
        import_one(tmp_path, num_steps=32)
