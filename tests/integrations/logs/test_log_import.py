"""Importing runs: libraries, sizes, restarts, layouts of folders, and the commands."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from integrations.log_files import (
    cleanrl_events,
    event,
    event_file,
    scalar,
    wandb_config,
    wandb_file,
    wandb_row,
    write_cleanrl,
)
from rollshape.cli import main
from rollshape.errors import RequestError
from rollshape.integrations.logs import folders
from rollshape.integrations.logs.imported_run import ImportedRun
from rollshape.integrations.logs.importing import read_all_records, read_logs, write_runs
from rollshape.integrations.logs.libraries import LIBRARIES
from rollshape.integrations.logs.sizes import ImportOptions
from rollshape.integrations.writer import COLUMNS
from rollshape.studies.groups import group_tasks
from rollshape.studies.records import read_records

SB3 = {"num_envs": 2, "num_steps": 32, "minibatch_size": 16, "num_epochs": 3}


def import_one(path: Path, **options: Any) -> ImportedRun:
    result = read_logs(path, ImportOptions(**options))
    assert result.skipped == []
    [run] = result.runs
    return run


def column(run: ImportedRun, name: str) -> dict[int, Any]:
    return {row["update"]: row[name] for row in run.rows if row.get(name) is not None}


def write_sb3(folder: Path, updates: int = 5, name: str = "1", scores: float = 10.0, **more: float) -> Path:
    """A log of SB3 for 2 × 32: at the end of rollout u, the values of the update before."""
    folder.mkdir(parents=True, exist_ok=True)
    events = []
    for update in range(1, updates + 1):
        values = [scalar("rollout/ep_rew_mean", scores * update), scalar("time/fps", 100)]
        if update > 1:
            values += [scalar("train/value_loss", more.get("value_loss", update - 1)), scalar("train/approx_kl", 0.01)]
        events.append(event(64 * update, 1000.0 + 2 * update, *values))
    path = folder / f"events.out.tfevents.{name}"
    path.write_bytes(event_file(events))
    return path


def test_a_log_of_cleanrl_needs_no_config(tmp_path: Path) -> None:
    write_cleanrl(tmp_path)
    run = import_one(tmp_path)
    plan = run.description.plan
    assert (run.description.env, plan.num_envs, plan.num_steps, plan.minibatch_size) == ("CartPole-v1", 4, 16, 32)
    assert [row["timesteps"] for row in run.rows] == [64, 128, 192, 256, 320]
    assert column(run, "episodes") == dict.fromkeys(range(1, 6), 2)
    assert column(run, "value_loss") == dict.fromkeys(range(1, 6), 1.0)  # ½·mean in CleanRL
    assert column(run, "approx_kl_epochs")[1] == [None, None, 0.5]
    assert run.status == "done"
    assert column(run, "sps")[3] == pytest.approx(64)


def test_sb3_logs_the_update_before(tmp_path: Path) -> None:
    write_sb3(tmp_path)
    run = import_one(tmp_path, **SB3)
    assert column(run, "episodic_return") == {update: 10.0 * update for update in range(1, 6)}
    assert column(run, "value_loss") == {update: float(update) for update in range(1, 5)}
    assert "the budget is unknown" in " ".join(run.notes)


def test_missing_sizes_are_asked_for_in_one_message(tmp_path: Path) -> None:
    write_sb3(tmp_path)
    with pytest.raises(RequestError) as caught:
        import_one(tmp_path, num_envs=2)
    assert caught.value.rule == "log-sizes"
    assert "these sizes are unknown: num_steps, minibatch_size, num_epochs." in caught.value.message
    assert "--num-steps (n_steps), --minibatch-size (batch_size), --num-epochs (n_epochs)" in caught.value.fix


def test_a_minibatch_size_is_not_one_of_cleanrl(tmp_path: Path) -> None:
    write_cleanrl(tmp_path)
    with pytest.raises(RequestError, match="has no minibatch_size") as caught:
        import_one(tmp_path, minibatch_size=32)
    assert caught.value.fix == "Use --num-minibatches (num_minibatches)."


def test_sizes_that_contradict_the_log_are_refused(tmp_path: Path) -> None:
    write_cleanrl(tmp_path, num_steps=24)
    with pytest.raises(RequestError, match="not a multiple of the rollout of 96 samples"):
        import_one(tmp_path)
    write_sb3(tmp_path / "sb3")
    with pytest.raises(RequestError, match="not a multiple of the rollout of 48 samples"):
        import_one(tmp_path / "sb3", **{**SB3, "num_steps": 24})


def test_the_config_may_be_a_file(tmp_path: Path) -> None:
    write_sb3(tmp_path / "run")
    (tmp_path / "ppo.yml").write_text("n_envs: 2\nn_steps: 32\nbatch_size: 16\nn_timesteps: 640\n")
    run = import_one(tmp_path / "run", config=str(tmp_path / "ppo.yml"), env="CartPole-v1")
    assert run.description.assumed["n_epochs"] == 10
    assert run.status == "interrupted"  # 5 of 10 updates


def test_losses_that_are_not_finite_are_a_divergence(tmp_path: Path) -> None:
    write_sb3(tmp_path, value_loss=float("nan"))
    run = import_one(tmp_path, **SB3)
    assert run.status == "diverged"
    assert not column(run, "value_loss")


def test_a_restart_replaces_later_values(tmp_path: Path) -> None:
    write_cleanrl(tmp_path, range(1, 5), name="1", score=10.0)
    write_cleanrl(tmp_path, range(3, 6), name="2", score=100.0, start=2000.0)
    run = import_one(tmp_path)
    returns = column(run, "episodic_return")
    assert sorted(returns) == [1, 2, 3, 4, 5]
    assert returns[2] < 30
    assert returns[3] >= 300
    assert column(run, "episodes")[3] == 2
    assert column(run, "sps").get(3) is None, "the pause is no speed"
    assert any("replaces" in note for note in run.notes)


def test_steps_that_go_back_in_one_file(tmp_path: Path) -> None:
    both = cleanrl_events(range(1, 5)) + cleanrl_events(range(3, 6), start=2000.0, score=100.0)
    (tmp_path / "events.out.tfevents.1").write_bytes(both)
    run = import_one(tmp_path)
    assert column(run, "episodes")[3] == 2
    assert column(run, "episodic_return")[3] >= 300


def test_two_runs_that_wrote_at_the_same_time_are_refused(tmp_path: Path) -> None:
    write_cleanrl(tmp_path, range(1, 20), name="1")
    write_cleanrl(tmp_path, range(1, 20), name="2", start=1002.0)
    with pytest.raises(RequestError, match="they are two runs"):
        import_one(tmp_path)


def test_libraries_are_recognized_or_refused(tmp_path: Path) -> None:
    write_cleanrl(tmp_path / "a")
    with pytest.raises(RequestError, match="has tags of cleanrl"):
        import_one(tmp_path / "a", dialect="sb3")
    with pytest.raises(RequestError, match="Logs of rllib are not known"):
        import_one(tmp_path / "a", dialect="rllib")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "events.out.tfevents.1").write_bytes(event_file([event(1, 1.0, scalar("my/loss", 1.0))]))
    with pytest.raises(RequestError, match="No known library writes the tags"):
        import_one(tmp_path / "b")
    (tmp_path / "b" / "events.out.tfevents.1").write_bytes(event_file([event(1, 1.0, scalar("rollshape/sps", 1.0))]))
    with pytest.raises(RequestError, match="a run of Rollshape"):
        import_one(tmp_path / "b")


def test_every_mark_belongs_to_one_library() -> None:
    marks = [mark for library in LIBRARIES for mark in library.marks]
    assert len(marks) == len(set(marks))
    for library in LIBRARIES:
        assert all(library.lookup(mark) for mark in library.marks)
        assert not any(other.is_recognized(library.marks) for other in LIBRARIES if other is not library)


def test_columns_are_those_of_recorded_runs() -> None:
    known = {*COLUMNS, "episodes", "episodic_return_std", "action_std"}
    assert {entry.column for library in LIBRARIES for entry in library.tags} - {None} <= known


def test_a_log_of_wandb(tmp_path: Path) -> None:
    config = {
        "num_envs": "4",
        "num_steps": "16",
        "num_minibatches": "2",
        "update_epochs": "3",
        "env_id": '"CartPole-v1"',
    }
    rows = [{"global_step": str(64 * u), "losses/value_loss": "0.5", "charts/SPS": "9"} for u in (1, 2)]
    (tmp_path / "run-1.wandb").write_bytes(wandb_file([wandb_config(config), *map(wandb_row, rows)]))
    run = import_one(tmp_path)
    assert (run.description.env, run.description.plan.num_steps) == ("CartPole-v1", 16)
    assert any("no returns" in note for note in run.notes)
    rows = [{"_step": str(u), "losses/value_loss": "0.5", "charts/SPS": "9"} for u in (1, 2)]
    (tmp_path / "run-1.wandb").write_bytes(wandb_file([wandb_config(config), *map(wandb_row, rows)]))
    with pytest.raises(RequestError, match="numbered by W&B"):
        import_one(tmp_path)


def test_a_folder_of_runs_skips_what_it_cannot_import(tmp_path: Path) -> None:
    for seed in (1, 2):
        write_cleanrl(tmp_path / f"s{seed}", seed=seed)
    write_sb3(tmp_path / "without_config")
    result = read_logs(tmp_path, ImportOptions())
    assert [run.name for run in result.runs] == ["s1", "s2"]
    assert [log.source.name for log in result.skipped] == ["without_config"]
    places = write_runs(result, tmp_path / "out")
    records = read_records(tmp_path / "out")
    assert [record.path for record in records] == places
    [task] = group_tasks(records)
    assert len(task.groups) == 1
    assert task.final_returns()[task.groups[0].label].size == 2
    with pytest.raises(RequestError, match="already holds a run"):
        write_runs(result, tmp_path / "out")


def test_runs_of_several_libraries_are_one_task(tmp_path: Path) -> None:
    write_cleanrl(tmp_path / "cleanrl")
    write_sb3(tmp_path / "sb3")
    (tmp_path / "sb3" / "config.yaml").write_text("n_envs: 2\nn_steps: 32\nbatch_size: 16\nn_timesteps: 320\n")
    records, _ = read_all_records(tmp_path, ImportOptions(env="CartPole-v1"))
    [task] = group_tasks(records)
    assert sorted(group.runs[0].trainer.name for group in task.groups) == ["CleanRL", "Stable-Baselines3"]
    assert all(group.label in task.final_returns() for group in task.groups)
    assert "the last 10%" in task.final_meaning
    assert {record.path for record in records} == {tmp_path / "cleanrl", tmp_path / "sb3"}


def test_hostile_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_cleanrl(tmp_path / "a")
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    (tmp_path / "a" / "events.out.tfevents.9").symlink_to(tmp_path / "a" / "events.out.tfevents.9")
    os.mkfifo(tmp_path / "progress.csv")
    (tmp_path / os.fsdecode(b"\xff\xfe")).mkdir()
    with pytest.raises(RequestError, match="cannot be read"):
        read_logs(tmp_path / "a", ImportOptions())
    (tmp_path / "a" / "events.out.tfevents.9").unlink()
    imported = read_logs(tmp_path, ImportOptions())
    assert [run.name for run in imported.runs] == ["a"]
    assert "not a regular file" in imported.skipped[0].error.message
    monkeypatch.setattr(folders, "MOST_ENTRIES", 3)
    with pytest.raises(RequestError, match="more than 3 files and folders"):
        read_logs(tmp_path, ImportOptions())


def test_a_name_that_is_not_utf_8(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"run\xff")
    write_cleanrl(folder)
    run = import_one(folder)
    run.write(tmp_path / "out")
    assert read_records(tmp_path / "out")[0].rows
    json.dumps(run.to_dict()).encode()


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    write_cleanrl(tmp_path / "log")
    assert main(["import", str(tmp_path / "log"), "--out", str(tmp_path / "run"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    [run] = document["runs"]
    assert (run["library"], run["dialect"], run["updates"], run["rows"]) == ("CleanRL", "cleanrl", 5, 5)
    assert "approx_kl_epochs" in run["columns"]
    assert "policy_loss" in run["missing"]
    assert main(["import", str(tmp_path / "log")]) == 2
    assert "--out is missing" in capsys.readouterr().err
    assert main(["import", str(tmp_path / "nothing"), "--out", str(tmp_path / "x")]) == 2
    assert "does not exist" in capsys.readouterr().err
    assert main(["import", str(tmp_path / "log"), "--out", str(tmp_path / "run2")]) == 0
    out = capsys.readouterr().out
    assert "CleanRL, CartPole-v1, 4×16, 5 rows, 320 timesteps, done" in out
    assert main(["diagnose", str(tmp_path / "log"), "--json"]) == 0
    [diagnosis] = json.loads(capsys.readouterr().out)
    assert diagnosis["run_dir"] == str(tmp_path / "log")
    assert main(["report", str(tmp_path / "log")]) == 0
    assert (tmp_path / "log" / "report.html").exists()


def test_reading_logs_imports_no_jax() -> None:
    code = (
        "import sys, rollshape.integrations.logs.libraries; print({'jax', 'torch', 'tensorboard'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


WHOLE = cleanrl_events([1, 2, 3])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=8), values=st.floats(width=32), end=st.integers(0, 9000)
)
def test_whatever_a_log_says_is_rows_or_a_message(tmp_path: Path, steps: list[int], values: float, end: int) -> None:
    tags = ("charts/episodic_return", "losses/value_loss", "losses/approx_kl", "losses/entropy")
    more = [event(step, 1e9, *(scalar(tag, values) for tag in tags)) for step in steps]
    (tmp_path / "events.out.tfevents.1").write_bytes((WHOLE + event_file(more))[:end])
    try:
        run = import_one(tmp_path)
    except RequestError:
        return
    updates = [row["update"] for row in run.rows]
    assert updates == sorted(set(updates))
    assert all(isinstance(row["timesteps"], int) and row["timesteps"] > 0 for row in run.rows)
    json.dumps(run.rows, allow_nan=False)


@pytest.mark.parametrize("tag", ["train/critic_loss", "losses/td_loss", "losses/c1_loss", "Loss / Critic loss"])
def test_algorithms_without_rollouts_are_refused(tmp_path: Path, tag: str) -> None:
    events = [event(64, 1001.0, scalar("rollout/ep_rew_mean", 1.0), scalar(tag, 1.0))]
    (tmp_path / "events.out.tfevents.1").write_bytes(event_file(events))
    with pytest.raises(RequestError, match="not of PPO or A2C"):
        import_one(tmp_path, **SB3)


def test_monitor_files_inside_a_frame_skip_are_not_used(tmp_path: Path) -> None:
    write_sb3(tmp_path)
    lines = "".join(
        f"{score},64,{score}\n" for score in range(1, 11)
    )  # 640 steps per environment, the learner made 160
    for env in range(2):
        (tmp_path / f"{env}.monitor.csv").write_text(f'#{{"env_id": "PongNoFrameskip-v4"}}\nr,l,t\n{lines}')
    run = import_one(tmp_path, **SB3)
    assert run.description.env == "PongNoFrameskip-v4"
    assert column(run, "episodic_return") == {update: 10.0 * update for update in range(1, 6)}
    assert any("a wrapper skips frames" in note for note in run.notes)


def test_a_chart_of_wandb_holds_several_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "export.csv"
    path.write_text(
        '"global_step","a/1 - losses/value_loss","b - losses/value_loss","a/1 - charts/episodic_return"\n'
        "64,1.0,2.0,5.0\n128,1.5,2.5,6.0\n"
    )
    sizes = ["--num-envs", "4", "--num-steps", "16", "--num-minibatches", "2", "--num-epochs", "2"]
    assert main(["import", str(path), *sizes, "--out", str(tmp_path / "out"), "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [Path(run["run_dir"]).name for run in runs] == ["a_1", "b"]
    assert main(["report", str(path), *sizes]) == 2
    assert "a report is written into a folder" in capsys.readouterr().err


def test_progress_and_evaluations_of_the_same_scores(tmp_path: Path) -> None:
    (tmp_path / "progress.csv").write_text(
        "time/total_timesteps,time/iterations,rollout/ep_rew_mean,eval/mean_reward\n"
        "64,1,5.0,\n100,,,7.0\n128,2,6.0,\n192,3,6.0,\n"
    )
    np.savez(tmp_path / "evaluations.npz", timesteps=[100], results=[[7.0, 7.0]])
    run = import_one(tmp_path, **SB3)
    assert column(run, "eval_return") == {1: 7.0}
    assert not any("go back" in note for note in run.notes)


def test_numbers_too_large_to_compute_with_are_left_out(tmp_path: Path) -> None:
    text = (
        "time/total_timesteps,time/iterations,rollout/ep_rew_mean,train/value_loss\n64,1,1e300,\n128,2,-1e308,1e200\n"
    )
    (tmp_path / "progress.csv").write_text(text + "192,3,5.0,0.5\n")
    run = import_one(tmp_path, **SB3)
    assert column(run, "episodic_return") == {3: 5.0}
    assert column(run, "value_loss") == {2: 0.5}
    run.write(tmp_path / "out")
    assert len(read_records(tmp_path / "out")[0].rows) == 3
