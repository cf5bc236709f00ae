"""`--gpus`, `--num-agents`, `--recurrent` and `--seq-length` of plan, translate and patch."""

import json
from pathlib import Path
from typing import Any

import pytest

from rollshape.cli import main

RSL_RL = "num_envs: 64\nnum_steps_per_env: 24\nalgorithm:\n  class_name: PPO\n  num_mini_batches: 5\n"


def answer(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 0) -> Any:
    assert main([*argv, "--json"]) == code
    captured = capsys.readouterr()
    return json.loads(captured.out or captured.err)


def test_plan_for_several_processes(capsys: pytest.CaptureFixture[str]) -> None:
    plan = answer(capsys, "plan", "--num-envs", "4096", "--num-steps", "24", "--gpus", "4")
    assert (plan["world_size"], plan["num_envs"], plan["num_envs_per_rank"]) == (4, 4096, 1024)
    same = answer(capsys, "plan", "--num-envs-per-rank", "1024", "--num-steps", "24", "--world-size", "4")
    assert same["num_envs"] == 4096


def test_plan_for_agents_and_sequences(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ("--num-envs", "8", "--num-steps", "128", "--num-agents", "3", "--recurrent", "--seq-length", "16")
    plan = answer(capsys, "plan", *sizes)
    assert (plan["rollout_size"], plan["num_agents"], plan["seq_length"]) == (3072, 3, 16)
    assert plan["minibatch_size"] % 16 == 0


def test_patch_counts_as_the_library_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text(RSL_RL)
    both = [
        answer(capsys, "patch", str(file), "--dialect", "rsl_rl", "--dry-run", "--gpus", "2", *envs)
        for envs in (("--num-envs", "64"), ("--num-envs-per-rank", "32"))
    ]
    assert both[0]["changes"] == both[1]["changes"] == {"num_envs": 32, "algorithm.num_mini_batches": 6}
    assert both[0]["plan"]["num_envs"] == 64


def test_a_recurrent_policy_is_patched_to_whole_environments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text(RSL_RL.replace("64", "10").replace(": 5", ": 6"))
    assert answer(capsys, "patch", str(file), "--dialect", "rsl_rl", "--dry-run")["changes"] == {}
    changed = answer(capsys, "patch", str(file), "--dialect", "rsl_rl", "--dry-run", "--recurrent")
    assert changed["changes"] == {"algorithm.num_mini_batches": 5}


def test_translate_with_two_names_of_one_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text(RSL_RL)
    names = ("--num-envs", "4", "--num-envs-per-rank", "2")
    assert main(["translate", str(file), "--from", "rsl_rl", "--to", "skrl", *names]) == 2
    assert "cannot both be given" in capsys.readouterr().err
