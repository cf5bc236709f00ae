"""A worker process of the local engine: reads assignments as lines of JSON and writes events the same way.

`python -P -m rollshape.studies.engines.worker STUDY_DIR CORE IMPORT_PATH…`. It ends when its input ends, so it never
outlives the study that started it; its trial then continues from the last checkpoint in the next run of the study.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from rollshape.errors import RollshapeError
from rollshape.processes import RaisingSignals
from rollshape.studies.engines.local import event_to_dict, extend_import_path
from rollshape.studies.events import Event, OnEvent
from rollshape.studies.metrics import MetricsRow
from rollshape.studies.store import Store, TrialResult
from rollshape.studies.trial_probes import probe_trial
from rollshape.studies.trial_runner import Assignment, Interrupted, run_trial, train_trial

INTERRUPTED = 130  # exit code


def main(study_dir: str, core: str, *folders: str) -> None:
    store = Store(Path(study_dir))

    def run(assignment: Assignment, write: OnEvent) -> Event:
        return run_trial(store, assignment, partial(_train, store, write))

    serve(core, folders, run)


def _train(store: Store, write: OnEvent, assignment: Assignment) -> TrialResult:
    """Train in the study's folder; probes are written one by one, so an interrupted trial keeps the first ones."""
    trial, folder = assignment.trial, store.run_dir(assignment.trial)

    def on_row(row: MetricsRow) -> None:
        write(Event("row", trial, row=row))

    write(Event("begin", trial))
    result = train_trial(assignment, folder, on_row)
    if result.state == "done":
        known = store.probes(trial)
        for share, document in probe_trial(folder, assignment.probe_at, assignment.probe_envs, known):
            store.write_probe(trial, share, document)
    return result


def serve(core: str, folders: Sequence[str], run: Callable[[Assignment, OnEvent], Event]) -> None:
    """Pin this process to a core and `run` assignments until the input ends.

    `run` may write events while it trains, and returns the event that ends the assignment.
    """
    extend_import_path(folders)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core)})  # before JAX counts the cores
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # an environment may print; events have their own channel
    assignments: queue.Queue[Assignment] = queue.Queue()
    threading.Thread(target=_read_assignments, args=(assignments,), daemon=True).start()

    def write(event: Event) -> None:
        out.write(json.dumps(event_to_dict(event)) + "\n")

    while True:
        write(run(assignments.get(), write))


def _read_assignments(assignments: queue.Queue[Assignment]) -> None:
    for line in sys.stdin:
        assignments.put(Assignment.from_dict(json.loads(line)))
    os._exit(0)  # the study has ended, or was killed


def run_process(main: Callable[..., None]) -> None:
    """Call `main` with the arguments of this process; signals and errors become exit codes."""
    try:
        with RaisingSignals(lambda _: INTERRUPTED):
            main(*sys.argv[1:])
    except (KeyboardInterrupt, Interrupted):
        os._exit(INTERRUPTED)
    except RollshapeError as error:  # of the study's own files; the study reports the last line
        sys.exit(f"{error.message} {error.fix}")


if __name__ == "__main__":
    run_process(main)
