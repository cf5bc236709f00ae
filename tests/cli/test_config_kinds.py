"""`translate` and `patch` with every kind of config."""

import json
import shutil
from pathlib import Path

import pytest

from rollshape.cli import main

CONFIGS = Path(__file__).parent.parent / "corpus" / "configs"


def run(*argv: str) -> int:
    return main(list(argv))


def test_translate_a_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    command = "python ppo.py --num_envs=2048 --num-steps 16 --num_minibatches 32 --update_epochs 8"
    assert run("translate", command, "--from", "ManiSkill", "--to", "SB3", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["config"]["n_steps"] == 16
    assert document["plan"]["minibatch_size"] == 1024
    assert any("ppo.py is not here" in note for note in document["notes"])


@pytest.mark.parametrize(
    ("name", "dialect", "flags", "before", "after"),
    [
        ("puffer/ocean/bricks.ini", "pufferlib", ["--num-envs", "48"], "minibatch_size = 16384", "minibatch_size = "),
        ("tuned.toml", "sb3", ["--num-envs", "3"], "batch_size = 64", "batch_size = "),
        (
            "isaaclab/rsl_rl_ppo_cfg.py",
            "rsl_rl",
            ["--num-envs", "7", "--key", "BlockPushFlatPPORunnerCfg"],
            "self.algorithm.num_mini_batches = 8",
            "self.algorithm.num_mini_batches = 8",
        ),
        ("dataclass_args.py", "cleanrl", ["--num-envs", "3"], "num_envs: int = 8", "num_envs: int = 3"),
    ],
)
def test_patch_changes_single_values(
    name: str, dialect: str, flags: list[str], before: str, after: str, tmp_path: Path
) -> None:
    folder = tmp_path / "configs"
    shutil.copytree(CONFIGS, folder)
    path = folder / name
    old = path.read_text()
    assert run("patch", str(path), "--dialect", dialect, *flags) == 0
    new = path.read_text()
    names = iter(line.partition("=")[0] for line in new.splitlines())
    assert before in old
    assert after in new
    assert all(line.partition("=")[0] in names for line in old.splitlines())  # in this order, nothing is removed
    assert run("patch", str(path), "--dialect", dialect, *flags) == 0
    assert path.read_text() == new


def test_patch_of_what_cannot_be_edited(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = "python ppo.py --num_envs=7 --num-steps 3 --num_minibatches 100 --update_epochs 8"
    assert run("patch", command, "--dialect", "maniskill") == 2
    error = capsys.readouterr().err
    assert "a command line cannot be edited in place" in error
    assert "by hand" in error
    folder = tmp_path / "run"
    shutil.copytree(CONFIGS / "zoo_run", folder)
    assert run("patch", str(folder), "--dialect", "sb3", "--num-envs", "3") == 2
    assert "a run folder cannot be edited in place" in capsys.readouterr().err


def test_patch_keeps_a_reference_and_says_how_to_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "hydra"
    shutil.copytree(CONFIGS / "hydra", folder)
    path = folder / "train" / "CrawlerPPO.yaml"
    assert run("patch", str(path), "--dialect", "rl_games", "--num-envs", "512", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document["changes"]) == ["params.config.minibatch_size"]
    assert any("start the training with 512 environments" in note for note in document["notes"])
    assert "num_actors: ${....task.env.numEnvs}" in path.read_text()
    assert 512 * 16 % document["changes"]["params.config.minibatch_size"] == 0
