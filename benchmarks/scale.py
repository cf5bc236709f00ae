"""Cost of managing a study of 1,000 trials, without training: journal, run directories, report.

Run: .venv/bin/python benchmarks/scale.py RUN_DIR
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from rollshape.reports.report import write_report
from rollshape.studies.engines.ray import unpack_run
from rollshape.studies.store import Store, TrialResult
from rollshape.studies.study_file import study_from_dict
from rollshape.studies.trials import expand
from rollshape.training.rundir import RunDirectory

SHAPES = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
SEEDS = 100


def timed(what: str, count: int, started: float) -> None:
    taken = time.perf_counter() - started
    print(f"{what:<42} {taken:8.2f} s  {1e3 * taken / count:8.2f} ms each")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run_dir", type=Path, help="a finished trial, such as studies/demo/trials/…")
    run = parser.parse_args().run_dir
    files = {str(path.relative_to(run)): path.read_bytes() for path in run.rglob("*") if path.is_file()}
    rows, document = list(RunDirectory(run).rows()), RunDirectory(run).read()
    print(f"one run directory: {sum(map(len, files.values())) / 1e3:,.0f} kB in {len(files)} files")
    fixed = {"rollout_size": 2048, "total_timesteps": 200_000}
    study = study_from_dict(
        {"env": "CartPole-v1", "fixed": fixed, "grid": {"num_envs": SHAPES}, "seeds": SEEDS}, "scale"
    )
    with tempfile.TemporaryDirectory() as folder:
        store, started = Store(Path(folder)), time.perf_counter()
        trials = expand(study).trials
        timed("points × seeds to trials", len(trials), started)
        store.begin(study)
        started = time.perf_counter()
        for trial in trials:
            unpack_run(files, store.run_dir(trial.id))
        timed("run directories unpacked", len(trials), started)
        started = time.perf_counter()
        for trial in trials:
            store.record_begin(trial.id)
            store.record_end(trial.id, TrialResult("done", summary=document["summary"]))
        timed("begin and end journalled, synced", len(trials), started)
        started = time.perf_counter()
        for _ in range(10):
            store.progress()
        timed("the journal read", 10, started)
        for trial in trials:
            plan = trial.plan.to_dict()
            RunDirectory(store.run_dir(trial.id)).write({**document, "spec": trial.spec.to_dict(), "plan": plan})
        started = time.perf_counter()
        report = write_report(Path(folder))
        timed("report of all", 1, started)
        print(f"report.html: {report.html.stat().st_size / 1e6:.2f} MB; {len(rows)} rows a run")


if __name__ == "__main__":
    main()
