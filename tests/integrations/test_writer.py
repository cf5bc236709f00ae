"""Runs of other libraries as run directories: what is known, what is assumed, what is unknown."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rollshape.errors import RequestError
from rollshape.integrations.description import RunDescription, describe, plain
from rollshape.integrations.writer import COLUMNS, RunWriter
from rollshape.studies.groups import group_tasks
from rollshape.studies.records import read_records
from rollshape.training.rundir import RunDirectory

CONFIG = {"n_envs": 4, "n_steps": 32, "batch_size": 64, "n_epochs": 5, "n_timesteps": 1280, "learning_rate": 1e-3}


def description(env: str | None = "CartPole-v1", **changes: Any) -> RunDescription:
    return describe({**CONFIG, **changes}, "sb3", version="2.9.2", env=env)


def write(path: Path, described: RunDescription, updates: int = 3) -> RunWriter:
    writer = RunWriter(path, described)
    for update in range(1, updates + 1):
        writer.append({"update": update, "timesteps": 128 * update, "episodic_return": 20.0 * update})
    return writer


def test_a_description_separates_what_is_given_from_what_is_assumed() -> None:
    described = description()
    assert described.settings["learning_rate"] == 1e-3
    assert described.assumed == {
        "gamma": 0.99, "gae_lambda": 0.95, "clip_range": 0.2, "ent_coef": 0.0, "vf_coef": 0.5, "max_grad_norm": 0.5,
    }  # fmt: skip
    assert describe({"n_steps": 32}, "sb3", num_envs=4).assumed["batch_size"] == 64
    assert (described.trainer.name, described.trainer.dialect) == ("Stable-Baselines3", "sb3")
    assert described.plan.num_updates == 10


def test_a_recorded_run_reads_as_a_record(tmp_path: Path) -> None:
    writer = write(tmp_path / "run", description())
    writer.note("KL is that of the last minibatch")
    writer.end(sps=1000.0)
    [record] = read_records(tmp_path / "run")
    assert record.trainer.name == "Stable-Baselines3"
    assert record.status == "done"
    assert (record.shape, record.plan.minibatch_size, record.plan.num_updates) == ("4×32", 64, 10)
    assert record.values("episodic_return") == [20.0, 40.0, 60.0]
    assert record.knows("learning_rate")
    assert not record.knows("normalize_observations")
    assert record.config["n_steps"] == 32
    assert set(json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[0])) == set(COLUMNS)


def test_a_killed_run_is_readable(tmp_path: Path) -> None:
    write(tmp_path / "run", description())
    with (tmp_path / "run" / "metrics.jsonl").open("ab") as file:
        file.write(b'{"update": 4, "timest')
    [record] = read_records(tmp_path / "run")
    assert (record.status, len(record.rows)) == ("running", 3)


def test_values_that_are_not_finite_are_null(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "run", description())
    writer.append({"update": 1, "timesteps": 128, "approx_kl": float("nan"), "approx_kl_epochs": [0.1, float("inf")]})
    row = json.loads((tmp_path / "run" / "metrics.jsonl").read_text())
    assert row["approx_kl"] is None
    assert row["approx_kl_epochs"] == [0.1, None]


def test_a_directory_that_holds_a_run_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "run", description()).end()
    with pytest.raises(RequestError, match="already holds a run"):
        RunWriter(tmp_path / "run", description())


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    writer = write(tmp_path / "run", description())
    with pytest.raises(RequestError, match="is in use by process"):
        RunWriter(tmp_path / "run", description())
    writer.end()


def test_a_config_without_a_budget_has_the_updates_that_were_made(tmp_path: Path) -> None:
    described = describe({name: value for name, value in CONFIG.items() if name != "n_timesteps"}, "sb3")
    write(tmp_path / "run", described).end()
    [record] = read_records(tmp_path / "run")
    assert (record.plan.num_updates, record.plan.gradient_steps) == (3, 3 * 10)


def test_runs_of_unknown_environments_are_not_compared(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / name, description(env=None)).end()
    first, second = read_records(tmp_path)
    assert first.task_key != second.task_key


def test_runs_that_differ_in_the_seed_are_one_group(tmp_path: Path) -> None:
    for seed in (0, 1):
        write(tmp_path / f"s{seed}", description(seed=seed)).end()
    write(tmp_path / "other", description(normalize_advantage=False)).end()
    [task] = group_tasks(read_records(tmp_path))
    assert sorted(len(group.runs) for group in task.groups) == [1, 2]
    assert len({group.label for group in task.groups}) == 2


def test_only_its_library_can_continue_a_run(tmp_path: Path) -> None:
    write(tmp_path / "run", description()).end()
    with pytest.raises(RequestError, match="trained by Stable-Baselines3"):
        RunDirectory(tmp_path / "run").spec()


def test_config_values_become_json() -> None:
    deep: Any = {"value": 1}
    for _ in range(20):
        deep = {"inner": deep}
    config = {"f": len, "nan": float("nan"), "list": (1, "a"), 3: True, "long": "x" * 5000, "deep": deep}
    text = json.dumps(plain(config), allow_nan=False)
    assert json.loads(text)["list"] == [1, "a"]
    assert len(text) < 4000


def test_recording_imports_neither_jax_nor_torch() -> None:
    code = "import sys, rollshape.integrations.writer; print({'jax', 'torch', 'equinox'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"
