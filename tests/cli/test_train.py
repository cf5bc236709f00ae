"""`train` and `eval` as commands: a full disk, a finished run, trackers, checkpoints, a picture."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rollshape.cli import main

SMALL = ("--env", "CartPole-v1", "--num-envs", "8", "--num-steps", "16", "--num-epochs", "1", "--hidden-sizes", "8",
         "--total-timesteps", "1024", "--log-every", "2")  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "x"
    assert main(["train", *SMALL, "--out", str(out), "--keep-checkpoints", "2", "--json"]) == 0
    return out


def document(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_a_full_disk_ends_in_one_message_and_exit_code_1(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rollshape.training import checkpoint

    size = (trained / "checkpoints" / "000000008.eqx").stat().st_size
    save = checkpoint.save

    def fill_up(*args: Any) -> Path:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size - 1, resource.RLIM_INFINITY))
        try:
            return save(*args)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    monkeypatch.setattr(checkpoint, "save", fill_up)
    assert main(["train", *SMALL, "--out", str(tmp_path / "x"), "--json"]) == 1
    shown = capsys.readouterr()
    assert json.loads(shown.out)["error"]["rule"] == "disk"
    assert shown.err.startswith("error [disk]: ")
    assert shown.err.splitlines()[1] == "  fix: Free some space, then run the same command with --resume."
    assert len(shown.err.splitlines()) == 2


def test_a_run_that_is_done_says_so(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (trained / "run.json").read_bytes()
    assert main(["train", *SMALL, "--out", str(trained), "--resume"]) == 0
    assert f"done: {trained}" in capsys.readouterr().out.replace("\n", "")
    assert (trained / "run.json").read_bytes() == before


def test_eval_takes_any_kept_checkpoint(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for asked, update in (("latest", 8), ("4", 4), ("0", 0)):
        assert main(["eval", str(trained), "--checkpoint", asked, "--episodes", "2", "--json"]) == 0
        assert document(capsys)["update"] == update
    assert main(["eval", str(trained), "--checkpoint", "5"]) == 2
    assert "It has 0, 4, 8" in capsys.readouterr().err
    assert main(["eval", str(trained), "--checkpoint", "all"]) == 2


def test_eval_draws_an_episode(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "episode.gif"
    assert main(["eval", str(trained), "--episodes", "1", "--render", str(path), "--json"]) == 0
    told = document(capsys)
    assert told["render"]["file"] == str(path)
    assert told["render"]["episodic_return"] == told["mean"]
    assert path.read_bytes().startswith(b"GIF89a")
    assert main(["eval", str(trained), "--render", str(tmp_path / "episode.txt")]) == 2


def test_train_tracks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "x"
    assert main(["train", *SMALL, "--out", str(out), "--track", "tensorboard"]) == 0
    assert len(list((out / "tb").iterdir())) == 1
    assert main(["train", *SMALL, "--track", "mlflow"]) == 2
    assert "tensorboard, wandb" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["train", "bench"])
def test_two_shards_need_nothing_of_the_user(tmp_path: Path, command: str) -> None:
    """In a process of its own: the tests' JAX has two devices from the start."""
    flags = {
        "train": ["--env", "CartPole-v1", "--num-envs", "64", "--num-steps", "32", "--total-timesteps", "4096",
                  "--out", str(tmp_path / "run")],
        "bench": ["--shapes", "64x32", "--seconds", "0.1"],
    }[command]  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if name != "JAX_NUM_CPU_DEVICES"}
    asked = [sys.executable, "-m", "rollshape.cli", command, *flags]
    done = subprocess.run(asked, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    if command == "train":
        assert json.loads((tmp_path / "run" / "run.json").read_text())["layout"]["num_shards"] == 2
