"""What a command suggests instead of what was typed."""

import importlib.util
from pathlib import Path

import pytest
import yaml

from rollshape.cli import main
from rollshape.errors import did_you_mean


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (("plan", "--batch-size", "64"), "Did you mean --minibatch-size?"),
        (("plan", "--n_envs=8"), "Did you mean --num-envs?"),
        (("plan", "--horizon-length", "8"), "Did you mean --num-steps?"),
        (("plan", "--mini-epochs", "8"), "Did you mean --num-epochs?"),
        (("plan", "--num-env", "8"), "Did you mean --num-envs?"),
        (("train", "--lr", "1e-3"), "Did you mean --learning-rate?"),
        (("train", "--device", "cuda"), "JAX_PLATFORMS"),
        (("train", "--cuda"), "jax[cuda12]"),
    ],
)
def test_flags_of_other_libraries(argv: tuple[str, ...], hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    assert hint in capsys.readouterr().err.partition("fix: ")[2]


@pytest.mark.skipif(
    importlib.util.find_spec("mujoco") is not None or importlib.util.find_spec("envpool") is None,
    reason="without MuJoCo and with EnvPool",
)
def test_an_environment_whose_package_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("plan", "--env", "Ant-v5")) == 2
    assert "fix: Install gymnasium[mujoco], or use envpool:Ant-v5." in capsys.readouterr().err


def test_what_was_typed_is_never_suggested() -> None:
    assert did_you_mean("Ant-v5", ["Ant-v4", "Ant-v5"]) == ""
    assert did_you_mean("Ant-v6", ["Ant-v4", "Ant-v5"]) != ""


def test_stdout_of_translate_is_the_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ppo.yml"
    path.write_text("n_envs: 8\nn_steps: 100\nbatch_size: 64\nn_timesteps: 100000\n")  # a remainder, which is a finding
    assert main(("translate", str(path), "--from", "sb3", "--to", "cleanrl")) == 0
    shown = capsys.readouterr()
    assert set(yaml.safe_load(shown.out)) > {"num_envs", "num_minibatches"}
    assert "fill no minibatch" in shown.err
    assert "# note: algorithm: PPO, from the file name ppo" in shown.err


def test_patch_points_out_comments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text("num_actors: 8\nhorizon_length: 16\nminibatch_size: 60  # half of 8 × 16\nmini_epochs: 2\n")
    assert main(("patch", str(path), "--dialect", "rl_games", "--dry-run")) == 0
    shown = capsys.readouterr()
    assert "line 3: the comment may be untrue now: # half of 8 × 16" in shown.err
    assert "comment may be" not in shown.out
    path.write_text("rollout_length: 100  # steps\nsystem_name: ff_ppo\n")
    assert main(("patch", str(path), "--dialect", "stoix", "--num-envs", "12")) == 2
    assert "configs/arch/anakin.yaml" in capsys.readouterr().err
