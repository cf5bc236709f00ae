"""A worker process of the local engine: reads assignments as lines of JSON and writes events the same way.

`python -m rollshape.studies.engines.worker STUDY_DIR CORE`. It ends when its input ends, so it never outlives the study
that started it; its trial then continues from the last checkpoint in the next run of the study.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from pathlib import Path
from typing import TextIO

from rollshape.studies.engines.local import event_to_dict
from rollshape.studies.events import Event
from rollshape.studies.metrics import MetricsRow
from rollshape.studies.store import Store, TrialResult
from rollshape.studies.trial_probes import probe_trial
from rollshape.studies.trial_runner import Assignment, Interrupted, run_trial, train_trial


def main(study_dir: str, core: str) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core)})  # before JAX counts the cores
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # an environment may print; events have their own channel
    assignments: queue.Queue[Assignment] = queue.Queue()
    threading.Thread(target=_read_assignments, args=(assignments,), daemon=True).start()
    worker = _Worker(Store(Path(study_dir)), out)
    while True:
        worker.run(assignments.get())


def _read_assignments(assignments: queue.Queue[Assignment]) -> None:
    for line in sys.stdin:
        assignments.put(Assignment.from_dict(json.loads(line)))
    os._exit(0)  # the study has ended, or was killed


class _Worker:
    def __init__(self, store: Store, out: TextIO) -> None:
        self.store, self.out = store, out

    def run(self, assignment: Assignment) -> None:
        self._write(run_trial(self.store, assignment, self._train))

    def _train(self, assignment: Assignment) -> TrialResult:
        """Train in the study's folder; probes are written one by one, so an interrupted trial keeps the first ones."""
        trial, folder = assignment.trial, self.store.run_dir(assignment.trial)

        def on_row(row: MetricsRow) -> None:
            self._write(Event("row", trial, row=row))

        self._write(Event("begin", trial))
        result = train_trial(assignment.spec, folder, on_row, keep_checkpoints=bool(assignment.probe_at))
        if result.state == "done":
            known = self.store.probes(trial)
            for share, document in probe_trial(folder, assignment.probe_at, assignment.probe_envs, known):
                self.store.write_probe(trial, share, document)
        return result

    def _write(self, event: Event) -> None:
        self.out.write(json.dumps(event_to_dict(event)) + "\n")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (KeyboardInterrupt, Interrupted):
        os._exit(130)
