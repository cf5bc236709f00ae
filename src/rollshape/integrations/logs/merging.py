"""The files of one run as one log: restarts, files of the same time, steps that go back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rollshape.errors import RequestError
from rollshape.integrations.logs.library import LibraryLog
from rollshape.integrations.logs.series import LogFile, Series

MOST_RESTARTS = 20
OVERLAP = 5.0  # seconds by which a restart may seem to begin before the end: clocks, buffers


@dataclass(frozen=True)
class MergedLog:
    """One log, and the times at which the training was started or continued."""

    log: LogFile
    sessions: list[float] = field(default_factory=list)


def merge(path: Path, files: Sequence[LogFile], library: LibraryLog) -> MergedLog:
    """Merge the files of a run in the order of their times. A later file replaces everything from its first step on.

    A file that begins before another one with the same tags has ended was written by a second process: then the folder
    holds two runs, which cannot be separated, and a RequestError says so.
    """
    merged = LogFile(path)
    sessions: list[float] = []
    for file in sorted(files, key=lambda log: math.inf if log.start is None else log.start):
        shared = [tag for tag in file.scalars if tag in merged.scalars and library.lookup(tag)]
        if shared and file.start is not None:
            if merged.end is not None and file.start < merged.end - OVERLAP:
                raise RequestError(
                    "log",
                    f"{file.path} and another event file of its folder were written at the same time: they are two "
                    "runs.",
                    "Move the files of each run to a folder of its own.",
                )
            _cut(merged, file, library)
        if file.start is not None and (shared or not sessions):
            sessions.append(file.start)
        _extend(merged, file)
    _drop_replaced(merged, library)
    return MergedLog(merged, sessions)


def _cut(merged: LogFile, file: LogFile, library: LibraryLog) -> None:
    """Remove what a restarted run writes again: per axis, everything from the first step of the later file on."""
    first: dict[str, float] = {}
    for tag, series in file.scalars.items():
        if library.lookup(tag) and len(series):
            axis = library.axis_of(tag)
            first[axis] = min(first.get(axis, math.inf), min(series.steps))
    removed = 0
    for tag, series in merged.scalars.items():
        start = first.get(library.axis_of(tag), math.inf)
        if library.lookup(tag) and any(step >= start for step in series.steps):
            kept = Series()
            for point in series:
                if point[0] < start:
                    kept.append(*point)
            removed += len(series) - len(kept)
            merged.scalars[tag] = kept
    text = f"{file.path.name} continues the run"
    merged.notes.append(f"{text} and replaces {removed:,} values of earlier files" if removed else text)


def _extend(merged: LogFile, file: LogFile) -> None:
    for tag, series in file.scalars.items():
        for point in series:
            merged.add(tag, *point)
    for name, text in file.texts.items():
        merged.texts.setdefault(name, text)
    merged.config |= file.config
    merged.notes += file.notes
    if file.start is not None and file.end is not None:
        merged.see_time(file.start)
        merged.see_time(file.end)
    merged.axis = file.axis


def _drop_replaced(log: LogFile, library: LibraryLog) -> None:
    """Make the steps of every tag ascending: where they go back, the run was restarted, and the later values hold.

    A restart that one tag shows holds for all tags of its axis: their values from this step on that were written
    before it are replaced, too.
    """
    restarts: dict[str, list[tuple[float, float]]] = {}
    tags = [tag for tag in log.scalars if library.lookup(tag)]
    for tag in tags:
        series = log.scalars[tag]
        for index in range(1, len(series)):
            if series.steps[index] < series.steps[index - 1]:
                restarts.setdefault(library.axis_of(tag), []).append((series.steps[index], series.times[index]))
    for tag in tags:
        points = restarts.get(library.axis_of(tag), [])
        if points:
            log.scalars[tag] = _ascending(log.scalars[tag], points, tag, log)


def _ascending(series: Series, restarts: list[tuple[float, float]], tag: str, log: LogFile) -> Series:
    """Return the points that were not replaced."""
    kept: list[tuple[float, float, float]] = []
    for point in series:
        if kept and kept[-1][0] > point[0]:
            while kept and kept[-1][0] >= point[0]:
                kept.pop()
        kept.append(point)
    for step, time in sorted(set(restarts))[:MOST_RESTARTS]:
        kept = [point for point in kept if point[0] < step or not point[1] < time]
    if len(kept) < len(series):
        log.notes.append(f"the steps of {tag} go back; {len(series) - len(kept):,} replaced values are left out")
    result = Series()
    for point in kept:
        result.append(*point)
    return result
