"""The folder of a study: an append-only journal, one run directory per trial, and locks that end with their process.

    journal.jsonl   one line per event: study, run, begin, end
    trials/ID/      the run directory of a trial; read-only once the trial has ended
    probes/ID/      one JSON document per probe
    claims/ID       locked (flock) by the process that runs the trial; the lock is released when that process dies

A trial has ended when the journal says so. Journal, run directories and probes carry checksums.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rollshape.errors import RequestError, RunError
from rollshape.files import FileLock, lock_file
from rollshape.probes.files import read_document, write_document
from rollshape.studies.documents import TrialState, check_event, reading
from rollshape.studies.journal import RESTORE, RESUME_STUDY, Journal, JournalEvent
from rollshape.studies.study import Study
from rollshape.studies.study_file import study_from_dict

FOLDERS = ("trials", "claims")
FINAL_STATES: tuple[TrialState, ...] = ("done", "diverged")  # other trials are tried again by the next run of the study


@dataclass(frozen=True)
class TrialResult:
    """How a trial ended: its state, the cause and reason where it is not done, and the run's summary as written."""

    state: TrialState
    cause: str = ""
    reason: str = ""
    summary: dict[str, Any] = field(default_factory=dict)

    @property
    def is_final(self) -> bool:
        return self.state in FINAL_STATES

    def has_reached(self, until: int | None) -> bool:
        """Return whether the trial has ended, or has paused after so many timesteps."""
        return self.is_final or (self.state == "paused" and until is not None and self.timesteps >= until)

    @property
    def timesteps(self) -> int:
        """Timesteps that the trial was trained for, 0 if that is unknown."""
        return int(self.summary.get("timesteps", 0))

    @property
    def final_return(self) -> float | None:
        return self.summary.get("final_return")

    @property
    def fix(self) -> str:
        """What would make an illegal trial legal."""
        return str(self.summary.get("fix", ""))


@dataclass(frozen=True)
class TrialProgress:
    """What the journal says of a trial: its last result, and how often it failed."""

    result: TrialResult = field(default_factory=lambda: TrialResult("pending"))
    failures: int = 0

    @property
    def is_final(self) -> bool:
        return self.result.is_final


@dataclass(frozen=True)
class StudyRun:
    """One call of `run_study` that had something to run: its command, engine and machine."""

    command: str
    engine: str
    machine: str
    load: str


class Store:
    """The folder of a study; any number of processes and threads may use it at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.journal = Journal(path / "journal.jsonl")
        self._lock = threading.Lock()
        self._progress: dict[str, TrialProgress] = {}

    def begin(self, study: Study) -> None:
        """Create the folder for this study, or reopen it; points and seeds may have been added since."""
        document = {"event": "study", "name": study.name, "study": study.to_dict()}
        last = self._last_study()
        if last is not None and last["name"] != study.name:
            raise RequestError("study", f"{self.path} holds the study {last['name']}.", "Choose another --out.")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if last is None and any(path.name not in FOLDERS for path in self.path.iterdir()):
                raise RequestError("study", f"{self.path} is not empty and holds no study.", "Choose another --out.")
            for name in FOLDERS:
                (self.path / name).mkdir(exist_ok=True)
        except OSError as error:
            raise RequestError(
                "file", f"Cannot create {self.path}: {error.strerror}.", "Choose another --out."
            ) from None
        if last is None or last["study"] != document["study"]:
            self.journal.append(document)

    def study(self) -> Study:
        """Return the study as it was last started."""
        last = self._last_study()
        if last is None:
            raise RequestError("study", f"{self.path} holds no study.", "Give a folder that `rollshape study` created.")
        return study_from_dict(last["study"], last["name"])

    def _last_study(self) -> dict[str, Any] | None:
        studies = self._events("study")
        return studies[-1] if studies else None

    def _events(self, kind: str, events: Iterable[JournalEvent] | None = None) -> list[JournalEvent]:
        """Return the events of one kind, by default of all that are journaled; their types are checked."""
        selected = [event for event in (self.journal.events() if events is None else events) if event["event"] == kind]
        with reading(self.journal.path, RESTORE):
            for event in selected:
                check_event(event, kind)
        return selected

    def check_exists(self) -> None:
        """Raise a RunError if the folder was removed while the study is running."""
        if not self.has_begun():
            raise RunError(
                "disk",
                f"{self.path} was removed or moved while the study was running.",
                "Restore the folder, then run the same command again; without it, the study starts over.",
            )

    def has_begun(self) -> bool:
        """Return whether the folder holds a study."""
        return self.journal.exists()

    def runs(self) -> list[StudyRun]:
        """Return how the study was run, oldest first."""
        return [
            StudyRun(event["command"], event["engine"], event["machine"], event["load"])
            for event in self._events("run")
        ]

    def progress(self) -> dict[str, TrialProgress]:
        """Return trial → progress of every trial that has ended at least once; a final result is never replaced."""
        with self._lock:
            for event in self._events("end", self.journal.new_events()):
                before = self._progress.get(event["trial"], TrialProgress())
                if not before.is_final:
                    result = TrialResult(event["state"], event["cause"], event["reason"], event["summary"])
                    failures = before.failures + (result.state == "failed")
                    self._progress[event["trial"]] = TrialProgress(result, failures)
            return dict(self._progress)

    def record_begin(self, trial: str) -> None:
        self.journal.append({"event": "begin", "trial": trial, "pid": os.getpid(), "host": socket.gethostname()})

    def record_end(self, trial: str, result: TrialResult) -> None:
        """Journal the end of a trial; the files of a final one become read-only."""
        if result.is_final:
            for path in self.run_dir(trial).rglob("*"):
                if path.is_file() and not path.is_symlink():
                    path.chmod(0o444)
        self.journal.append({"event": "end", "trial": trial, **vars(result)})

    def has_paused(self, trial: str) -> bool:
        """Return whether the trial waits to be continued."""
        progress = self.progress().get(trial)
        return progress is not None and progress.result.state == "paused"

    def run_dir(self, trial: str) -> Path:
        return self.path / "trials" / trial

    def lock_trial(self, trial: str) -> FileLock | None:
        """Return the lock under which a trial is run, or None while another process holds it."""
        return lock_file(self.path / "claims" / trial, then=RESUME_STUDY)

    def write_probe(self, trial: str, share: float, document: Mapping[str, Any]) -> None:
        """Write the probe of a trial at a share of its run."""
        write_document(self.path / "probes" / trial / f"{share:g}.json", document)

    def probes(self, trial: str) -> dict[float, dict[str, Any]]:
        """Return share of the run → document of the probe there; a damaged one is left out, to be measured again."""
        documents = {}
        for share, file in self.probe_files(trial).items():
            with suppress(RequestError):
                documents[share] = read_document(file)
        return documents

    def has_damaged_probe(self, trial: str) -> bool:
        """Return whether a probe of the trial must be measured again."""
        return len(self.probes(trial)) < len(self.probe_files(trial))

    def probe_files(self, trial: str) -> dict[float, Path]:
        """Return share of the run → file of the probe there, in the order of the run."""
        files = sorted((self.path / "probes" / trial).glob("[0-9]*.json"), key=lambda file: float(file.stem))
        return {float(file.stem): file for file in files}
