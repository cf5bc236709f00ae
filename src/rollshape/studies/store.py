"""The folder of a study: an append-only journal, one run directory per trial, and locks that end with their process.

    journal.jsonl   one line per event: study, run, begin, end
    trials/ID/      the run directory of a trial; read-only once the trial has ended
    probes/ID/      one JSON document per probe
    claims/ID       locked (flock) by the process that runs the trial; the lock is released when that process dies

A trial has ended when the journal says so. An incomplete line that a crash left is skipped.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rollshape.errors import RequestError
from rollshape.files import write_bytes
from rollshape.studies.study import Study
from rollshape.studies.study_file import study_from_dict

TrialState = Literal["pending", "done", "diverged", "failed", "illegal"]
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
        self.journal = path / "journal.jsonl"
        self._lock = threading.Lock()
        self._offset = 0  # bytes of the journal that `_progress` includes
        self._progress: dict[str, TrialProgress] = {}

    def begin(self, study: Study) -> None:
        """Create the folder for this study, or reopen it; points and seeds may have been added since."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            for name in ("trials", "claims"):
                (self.path / name).mkdir(exist_ok=True)
        except OSError as error:
            raise RequestError(
                "file", f"Cannot create {self.path}: {error.strerror}.", "Choose another --out."
            ) from None
        document = {"event": "study", "name": study.name, "study": study.to_dict()}
        last = self._last_study()
        if last is None and any(path.name not in ("trials", "claims") for path in self.path.iterdir()):
            raise RequestError("study", f"{self.path} is not empty and holds no study.", "Choose another --out.")
        if last is not None and last["name"] != study.name:
            raise RequestError("study", f"{self.path} holds the study {last['name']}.", "Choose another --out.")
        if last is None or last["study"] != document["study"]:
            self.append(document)

    def study(self) -> Study:
        """Return the study as it was last started."""
        last = self._last_study()
        if last is None:
            raise RequestError("study", f"{self.path} holds no study.", "Give a folder that `rollshape study` created.")
        return study_from_dict(last["study"], last["name"])

    def _last_study(self) -> dict[str, Any] | None:
        studies = [event for event in self.events() if event["event"] == "study"]
        return studies[-1] if studies else None

    def append(self, event: Mapping[str, Any]) -> None:
        """Append a line to the journal; it is complete and on disk when this returns."""
        line = json.dumps({**event, "time": round(time.time(), 3)}, allow_nan=False) + "\n"
        handle = os.open(self.journal, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            size = os.fstat(handle).st_size
            is_torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
            data = ("\n" if is_torn else "").encode() + line.encode()
            while data:
                data = data[os.write(handle, data) :]
            os.fsync(handle)
        finally:
            os.close(handle)

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield every complete event, in order."""
        if self.journal.exists():
            yield from _parse_events(self.journal.read_bytes())

    def runs(self) -> list[StudyRun]:
        """Return how the study was run, oldest first."""
        return [
            StudyRun(event["command"], event["engine"], event["machine"], event["load"])
            for event in self.events()
            if event["event"] == "run"
        ]

    def progress(self) -> dict[str, TrialProgress]:
        """Return trial → progress of every trial that has ended at least once; a final result is never replaced."""
        with self._lock:
            for event in self._new_events():
                if event["event"] != "end":
                    continue
                before = self._progress.get(event["trial"], TrialProgress())
                if not before.is_final:
                    result = TrialResult(event["state"], event["cause"], event["reason"], event["summary"])
                    failures = before.failures + (result.state == "failed")
                    self._progress[event["trial"]] = TrialProgress(result, failures)
            return dict(self._progress)

    def _new_events(self) -> Iterator[dict[str, Any]]:
        """Yield the events that were appended since the last call."""
        if not self.journal.exists():
            return
        with self.journal.open("rb") as file:
            file.seek(self._offset)
            lines = file.read()
        end = lines.rfind(b"\n") + 1
        last = list(_parse_events(lines[end:]))  # another process may still be writing it
        self._offset += len(lines) if last else end
        yield from (*_parse_events(lines[:end]), *last)

    def record_begin(self, trial: str) -> None:
        self.append({"event": "begin", "trial": trial, "pid": os.getpid(), "host": socket.gethostname()})

    def record_end(self, trial: str, result: TrialResult) -> None:
        """Journal the end of a trial; the files of a final one become read-only."""
        if result.is_final:
            for path in self.run_dir(trial).rglob("*"):
                if path.is_file():
                    path.chmod(0o444)
        self.append({"event": "end", "trial": trial, **vars(result)})

    def run_dir(self, trial: str) -> Path:
        return self.path / "trials" / trial

    def lock_trial(self, trial: str) -> TrialLock | None:
        """Return the lock under which a trial is run, or None while another process holds it."""
        handle = os.open(self.path / "claims" / trial, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        return TrialLock(handle)

    def write_probe(self, trial: str, share: float, document: Mapping[str, Any]) -> None:
        """Write the probe of a trial at a share of its run."""
        folder = self.path / "probes" / trial
        content = json.dumps(document, indent=2, allow_nan=False).encode()
        folder.mkdir(parents=True, exist_ok=True)
        write_bytes(folder / f"{share:g}.json", content, then="run the study again")

    def probes(self, trial: str) -> dict[float, dict[str, Any]]:
        """Return share of the run → document of the probe there."""
        return {share: json.loads(file.read_text()) for share, file in self.probe_files(trial).items()}

    def probe_files(self, trial: str) -> dict[float, Path]:
        """Return share of the run → file of the probe there, in the order of the run."""
        files = sorted((self.path / "probes" / trial).glob("[0-9]*.json"), key=lambda file: float(file.stem))
        return {float(file.stem): file for file in files}


def _parse_events(lines: bytes) -> Iterator[dict[str, Any]]:
    for line in lines.split(b"\n"):
        try:
            event = json.loads(line)
        except ValueError:  # incomplete, or empty
            continue
        if isinstance(event, dict) and "event" in event:
            yield event


class TrialLock:
    """The right to run a trial, held until it is released or its process ends, however it ends."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __enter__(self) -> TrialLock:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)
