"""`rollshape plan --algo grpo`: flags of its own, and the plan in the keys of each library."""

import json
from pathlib import Path

import pytest

from rollshape.cli import main

SIZES = ["--num-prompts", "32", "--num-generations", "8", "--gpus", "4", "--num-minibatches", "2"]


def test_the_plan_in_the_keys_of_each_library(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--algo", "grpo", *SIZES, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["rollout_size"], document["minibatch_size"], document["world_size"]) == (256, 128, 4)
    configs = document["configs"]
    assert set(configs) == {"trl:grpo", "verl", "openrlhf", "rlinf:reasoning"}
    assert configs["trl:grpo"]["steps_per_generation"] == 8
    assert configs["verl"]["actor_rollout_ref.actor.ppo_mini_batch_size"] == 16
    assert configs["openrlhf"]["train.batch_size"] == 128


def test_half_a_group_is_not_offered_for_verl(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--num-prompts", "2", "--num-generations", "8", "--num-minibatches", "4"]
    assert main(["plan", "--algo=grpo", *sizes, "--json"]) == 0
    assert "verl" not in json.loads(capsys.readouterr().out)["configs"]


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--algo", "rloo", "--gpus=2", "--dataset-size", "1000"]) == 0
    printed = capsys.readouterr().out
    for words in ("num_generations", "(default) completions per prompt", "gradient_steps", "trl:rloo per_device"):
        assert words in printed
    with pytest.raises(SystemExit):
        main(["plan", "--algo", "grpo", "--help"])
    assert "--num-prompts" in capsys.readouterr().out


def test_wrong_sizes_are_one_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--algo", "grpo", "--num-prompts", "5", "--num-generations", "6", "--gpus", "4"]) == 2
    assert "30 completions per optimizer step" in capsys.readouterr().err
    fixed = ["plan", "--algo", "grpo", "--num-prompts", "5", "--num-generations", "6", "--gpus", "4"]
    assert main([*fixed, "--on-remainder", "fix"]) == 0
    assert "repaired" in capsys.readouterr().out
    assert main(["train", "--algo", "grpo"]) == 2


def test_patch_and_translate_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "grpo.yaml"
    config.write_text("# my run\nper_device_train_batch_size: 3  # per GPU\nnum_generations: 8\nbeta: 0.01\n")
    assert main(["translate", str(config), "--from", "trl:grpo", "--to", "verl"]) == 2
    assert "must be divisible by num_generations (8)" in capsys.readouterr().err
    assert main(["patch", str(config), "--dialect", "trl:grpo"]) == 0
    capsys.readouterr()
    assert config.read_text() == (
        "# my run\nper_device_train_batch_size: 2  # per GPU\nnum_generations: 8\nbeta: 0.01\n"
        "gradient_accumulation_steps: 4\n"
    )
    assert main(["translate", str(config), "--from", "trl:grpo", "--to", "verl"]) == 0
    result = capsys.readouterr()
    assert "ppo_mini_batch_size: 1\n" in result.out
    assert "1 prompts × 8 generations = 8 completions per update" in result.err


def test_the_list_of_dialects(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dialects"]) == 0
    assert "trl:grpo" in capsys.readouterr().out.partition("Language models")[2]
    assert main(["dialects", "--name", "trl", "--json"]) == 0
    assert [entry["name"] for entry in json.loads(capsys.readouterr().out)] == ["trl:grpo", "trl:rloo", "trl:ppo"]
