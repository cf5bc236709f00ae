"""The store of a study: one append-only journal, a run directory a trial, and claims that end with their owner.

    journal.jsonl   what happened, a line an event: study, begin, end
    trials/ID/      the usual run directory; read-only once the trial has ended
    probes/ID/      a JSON document for each moment that was probed
    claims/ID       locked (flock) by the process that runs the trial, so a dead owner's claim is free again

A trial has ended when the journal says so. A line that a crash tore is passed over and closed by the next writer.
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
from rollshape.studies.study import Study, study_from

State = Literal["pending", "done", "diverged", "failed", "illegal"]
FINAL: tuple[State, ...] = ("done", "diverged")  # other trials are tried again when the study is run again


@dataclass(frozen=True)
class Result:
    """How a trial ended: its state, for what cause and reason where it is not done, and the run's summary."""

    state: State
    cause: str = ""
    reason: str = ""
    summary: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Progress:
    """What the journal says of a trial: its last result, and how often it failed."""

    result: Result = field(default_factory=lambda: Result("pending"))
    failures: int = 0

    @property
    def final(self) -> bool:
        return self.result.state in FINAL


class Store:
    """A study's folder. Any number of processes and threads may use it at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.journal = path / "journal.jsonl"
        self._reading, self._read = threading.Lock(), 0  # bytes of the journal that `_progress` knows of
        self._progress: dict[str, Progress] = {}

    def begin(self, study: Study) -> None:
        """Make the folder this study's, or go on with it; points and seeds may have been added meanwhile."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            for name in ("trials", "claims"):
                (self.path / name).mkdir(exist_ok=True)
        except OSError as error:
            raise RequestError("file", f"Cannot make {self.path}: {error.strerror}.", "Choose another --out.") from None
        document = {"event": "study", "name": study.name, "study": study.to_dict()}
        last = self._last_study()
        if last is None and any(path.name not in ("trials", "claims") for path in self.path.iterdir()):
            raise RequestError("study", f"{self.path} is not empty and holds no study.", "Choose another --out.")
        if last is not None and last["name"] != study.name:
            raise RequestError("study", f"{self.path} holds the study {last['name']}.", "Choose another --out.")
        if last is None or last["study"] != document["study"]:
            self.append(document)

    def study(self) -> Study:
        """The study as it was last begun."""
        last = self._last_study()
        if last is None:
            raise RequestError("study", f"{self.path} holds no study.", "Give one that `rollshape study` made.")
        return study_from(last["study"], last["name"])

    def _last_study(self) -> dict[str, Any] | None:
        studies = [event for event in self.events() if event["event"] == "study"]
        return studies[-1] if studies else None

    def append(self, event: Mapping[str, Any]) -> None:
        """One more line, whole and on the disk before this returns."""
        line = json.dumps({**event, "time": round(time.time(), 3)}, allow_nan=False) + "\n"
        handle = os.open(self.journal, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            size = os.fstat(handle).st_size
            torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
            data = ("\n" if torn else "").encode() + line.encode()
            while data:
                data = data[os.write(handle, data) :]
            os.fsync(handle)
        finally:
            os.close(handle)

    def events(self) -> Iterator[dict[str, Any]]:
        """Every whole event, in order."""
        if self.journal.exists():
            yield from _events(self.journal.read_bytes())

    def progress(self) -> dict[str, Progress]:
        """Trial → how it stands; a trial that never ended is absent. What has ended well cannot be undone."""
        with self._reading:
            for event in self._news():
                if event["event"] != "end":
                    continue
                before = self._progress.get(event["trial"], Progress())
                if not before.final:
                    result = Result(event["state"], event["cause"], event["reason"], event["summary"])
                    failures = before.failures + (result.state == "failed")
                    self._progress[event["trial"]] = Progress(result, failures)
            return dict(self._progress)

    def _news(self) -> Iterator[dict[str, Any]]:
        """Events since the last look."""
        if not self.journal.exists():
            return
        with self.journal.open("rb") as file:
            file.seek(self._read)
            lines = file.read()
        end = lines.rfind(b"\n") + 1
        last = list(_events(lines[end:]))  # it may still be under way
        self._read += len(lines) if last else end
        yield from (*_events(lines[:end]), *last)

    def begins(self, trial: str) -> None:
        self.append({"event": "begin", "trial": trial, "pid": os.getpid(), "host": socket.gethostname()})

    def ends(self, trial: str, result: Result) -> None:
        """Journal the end; from then on the trial's files are read-only."""
        if result.state in FINAL:
            for path in self.run_dir(trial).rglob("*"):
                if path.is_file():
                    path.chmod(0o444)
        self.append({"event": "end", "trial": trial, **vars(result)})

    def run_dir(self, trial: str) -> Path:
        return self.path / "trials" / trial

    def claim(self, trial: str) -> Claim | None:
        """The right to run a trial, or None while another process has it."""
        handle = os.open(self.path / "claims" / trial, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        return Claim(handle)

    def write_probe(self, trial: str, moment: float, document: Mapping[str, Any]) -> None:
        """Keep what was measured of a trial at a share of its run, whole or not at all."""
        folder = self.path / "probes" / trial
        folder.mkdir(parents=True, exist_ok=True)
        temporary = folder / f".{moment:g}.{os.getpid()}.writing"
        with temporary.open("w") as file:
            json.dump(document, file, indent=2, allow_nan=False)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(folder / f"{moment:g}.json")

    def probes(self, trial: str) -> dict[float, dict[str, Any]]:
        """Moment → what was measured there."""
        files = sorted((self.path / "probes" / trial).glob("[0-9]*.json"), key=lambda file: float(file.stem))
        return {float(file.stem): json.loads(file.read_text()) for file in files}


def _events(lines: bytes) -> Iterator[dict[str, Any]]:
    for line in lines.split(b"\n"):
        try:
            event = json.loads(line)
        except ValueError:  # torn, or empty
            continue
        if isinstance(event, dict) and "event" in event:
            yield event


class Claim:
    """Held until it is let go, or until its process ends, however it ends."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __enter__(self) -> Claim:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)
