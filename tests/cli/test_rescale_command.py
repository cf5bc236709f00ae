"""`rescale` prints a config and nothing else on stdout; `train --config` trains one and lists what it leaves out."""

import io
import json
from pathlib import Path

import pytest
import yaml

from rollshape.cli import main

TEXT = "CartPole-v1:\n  n_envs: 8  # what fits\n  n_steps: 16\n  batch_size: 32\n  n_epochs: 2\n  n_timesteps: 512\n"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "ppo.yml"
    path.write_text(TEXT)
    return path


def test_stdout_is_the_config(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rescale", str(config), "--dialect", "sb3", "--num-envs", "4", "--policy", "keep-rollout"]) == 0
    shown = capsys.readouterr()
    assert shown.out == TEXT.replace("n_envs: 8", "n_envs: 4").replace("n_steps: 16", "n_steps: 32")
    assert "# policy keep-rollout: keeps rollout_size" in shown.err
    assert "keeps rollout_size at 128" in shown.err
    assert all(line.startswith("# ") for line in shown.err.splitlines())
    assert config.read_text() == TEXT


def test_auto_says_why_and_shows_the_evidence(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rescale", str(config), "--dialect", "sb3", "--num-envs", "4"]) == 0
    shown = capsys.readouterr().err
    assert "num_envs × 0.5" in shown
    assert "evidence: " in shown
    assert "source: rollshape study rescale" in shown


def test_json(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rescale", str(config), "--dialect", "sb3", "--num-envs", "2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document) >= {"config", "policy", "changes", "plan", "evidence"}
    assert document["config"]["CartPole-v1"]["n_envs"] == 2
    assert set(document["changes"][0]) == {"key", "before", "after", "reason"}
    assert document["evidence"]["factor"] == 0.25


def test_write_and_out(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["rescale", str(config), "--dialect", "sb3", "--num-envs", "4", "--policy", "envs-only"]
    assert main([*command, "-o", str(tmp_path / "new.yml")]) == 0
    assert config.read_text() == TEXT
    assert main([*command, "--write"]) == 0
    assert capsys.readouterr().out == ""
    assert config.read_text() == (tmp_path / "new.yml").read_text() == TEXT.replace("n_envs: 8", "n_envs: 4")
    assert main([*command, "--write", "-o", "x"]) == 2


def test_stdin_and_a_file_that_cannot_be_edited_in_place(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "base: &base {n_envs: &n 8, n_steps: 16, batch_size: 32}\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert main(["rescale", "-", "--dialect", "sb3", "--num-envs", "4", "--policy", "envs-only"]) == 0
    shown = capsys.readouterr()
    assert yaml.safe_load(shown.out) == {"base": {"n_envs": 4, "n_steps": 16, "batch_size": 32}}
    assert "comments and layout are not kept" in shown.err


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--num-envs", "4"], "--dialect"),
        (["--dialect", "sb3"], "--num-envs"),
        (["--dialect", "sb3", "--num-envs", "0"], "num_envs"),
        (["--dialect", "sb3", "--num-envs", "4", "--policy", "keep"], "keep-minibatch"),
        (["--dialect", "nothing", "--num-envs", "4"], "nothing"),
    ],
)
def test_wrong_requests(config: Path, flags: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rescale", str(config), *flags]) == 2
    assert problem in capsys.readouterr().err


def test_train_what_a_config_says(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    flags = ["--config", str(config), "--from", "sb3", "--hidden-sizes", "8", "--num-epochs", "1", "--out", str(out)]
    assert main(["train", *flags, "--final-episodes", "0", "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["status"] == "done"
    assert "overridden by flags: num_epochs" in shown.err
    assert "not taken over: activation: not in the config, tanh is used" in shown.err
    spec = json.loads((out / "run.json").read_text())["spec"]
    assert (spec["env"], spec["num_envs"], spec["num_steps"], spec["minibatch_size"]) == ("CartPole-v1", 8, 16, 32)
    assert (spec["num_epochs"], spec["total_timesteps"], spec["hidden_sizes"]) == (1, 512, [8])


def test_flags_replace_the_sizes_that_they_imply(config: Path, tmp_path: Path) -> None:
    flags = ["--config", str(config), "--from", "sb3", "--hidden-sizes", "8", "--num-minibatches", "2"]
    assert main(["train", *flags, "--final-episodes", "0", "--out", str(tmp_path / "run"), "--json"]) == 0
    plan = json.loads((tmp_path / "run" / "run.json").read_text())["plan"]
    assert (plan["minibatch_size"], plan["num_minibatches"]) == (64, 2)


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--from", "sb3"], "--config and --from need each other"),
        (["--config", "{config}"], "--config and --from need each other"),
        (["--config", "{config}", "--from", "sb3", "--preset"], "--preset"),
        (["--config", "{config}", "--from", "rl_games"], "sb3"),
        (["--config", "{plain}", "--from", "sb3"], "does not name its environment"),
    ],
)
def test_wrong_requests_to_train(
    config: Path, tmp_path: Path, flags: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = tmp_path / "plain.yml"
    plain.write_text("n_envs: 8\nn_steps: 16\n")
    assert main(["train", *(flag.format(config=config, plain=plain) for flag in flags)]) == 2
    assert problem in capsys.readouterr().err
