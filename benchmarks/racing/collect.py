"""Run the studies of the benchmark and keep their learning curves, one JSON file per task."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from racing.extend import DATA, extend, read_stored, seeds_to_run
from racing.tasks import Task
from rollshape.files import write_bytes
from rollshape.studies.events import Event
from rollshape.studies.records import RunRecord, read_records
from rollshape.studies.run import run_study
from rollshape.training.rundir import fingerprint
from rollshape.training.scoring import EVAL_EPISODES, score_state
from rollshape.training.setup import new_driver, plan_run
from rollshape.training.spec import Spec


def collect(task: Task, scratch: Path, pause_file: Path | None) -> None:
    """Run or resume a task's study with one worker, then write its curves; seeds that have data are kept."""
    stored = read_stored(task)
    seeds = list(range(task.seeds)) if stored is None else seeds_to_run(stored, task.seeds)
    if not seeds:
        print(f"{task.name}: has {task.seeds} seeds or more", flush=True)
        return
    finished = 0

    def on_event(event: Event) -> None:
        nonlocal finished
        finished += event.kind == "end"
        if event.kind == "end" and finished % 10 == 0:
            print(f"{time.strftime('%H:%M:%S')} {task.name}: {finished} trials ended", flush=True)
        while event.kind == "end" and pause_file is not None and pause_file.exists():
            time.sleep(2)

    folder = scratch / (task.name if stored is None else f"{task.name}-{seeds[1]}-to-{seeds[-1]}")
    state = run_study(task.study(seeds), folder, jobs=1, command=shell_command(), on_event=on_event)
    if not state.is_finished:
        raise SystemExit(f"{task.name}: not all trials finished; see {folder}")
    new = describe(task, read_records(folder), state.expansion.evaluate_every, seeds)
    document = new if stored is None else extend(stored, new, seeds[0])
    DATA.mkdir(parents=True, exist_ok=True)
    lines = json.dumps(document, separators=(",", ":")).replace('{"num', '\n{"num') + "\n"
    write_bytes(DATA / f"{task.name}.json", lines.encode())


def describe(task: Task, records: list[RunRecord], every: int, seeds: Sequence[int]) -> dict[str, Any]:
    """Return what replays need: evaluation and training returns of every run, and where they came from."""
    shapes: list[dict[str, Any]] = []
    for num_envs, num_steps in task.shapes:
        runs = [
            run
            for run in records
            if (run.plan.num_envs, run.plan.num_steps, run.spec.seed in seeds) == (num_envs, num_steps, True)
        ]
        runs.sort(key=lambda run: run.spec.seed)
        plan, spec = runs[0].plan, runs[0].spec
        shapes.append({
            "num_envs": num_envs, "num_steps": num_steps, "minibatch_size": plan.minibatch_size,
            "num_epochs": plan.num_epochs, "learning_rate": spec.learning_rate, "num_updates": plan.num_updates,
            "sps": round(median(run.sps or 0 for run in runs)),
            "status": [run.status for run in runs],
            "eval_return": [curve(run, "eval_return", every, task) for run in runs],
            "episodic_return": [curve(run, "episodic_return", every, task) for run in runs],
            "approx_kl": [shorten(run.median("approx_kl")) for run in runs],
            "final_return": [shorten(run.final_return) for run in runs],
        })  # fmt: skip
    return {
        "task": task.name, "half": task.half, "env": task.env, "settings": task.settings,
        "total_timesteps": task.total_timesteps, "evaluate_every": every, "episodes": EVAL_EPISODES,
        "untrained": untrained(records[0].spec, seeds), "commit": commit(), "versions": fingerprint(),
        "command": shell_command(), "shapes": shapes,
    }  # fmt: skip


def curve(run: RunRecord, metric: str, every: int, task: Task) -> list[float | None]:
    """Return a metric at every evaluation; None from where a run has diverged."""
    values = {row.timesteps: row.metric(metric) for row in run.rows}
    return [shorten(values.get(every * (i + 1))) for i in range(task.total_timesteps // every)]


def untrained(spec: Spec, seeds: Sequence[int]) -> list[float | None]:
    """Return the score of the initial policy of every seed; it does not depend on the shape."""
    scores = []
    for seed in seeds:
        spec = replace(spec, seed=seed, num_envs=8, num_steps=32)
        driver = new_driver(spec, plan_run(spec))
        scores.append(shorten(score_state(driver, driver.start(), EVAL_EPISODES).mean))
        driver.close()
    return scores


def shorten(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")


def commit() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def shell_command() -> str:
    return "python benchmarks/advise.py " + " ".join(sys.argv[1:2])
