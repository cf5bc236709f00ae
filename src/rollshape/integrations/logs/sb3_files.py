"""Files of Stable-Baselines3 beside its event files: progress.csv, monitor.csv and evaluations.npz (no pickle)."""

from __future__ import annotations

import json
import math
import zipfile
import zlib
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from rollshape.errors import RequestError
from rollshape.formatting import format_bytes
from rollshape.integrations.logs.reading import parse_number, read_bytes
from rollshape.integrations.logs.series import LogFile
from rollshape.integrations.logs.tables import read_table
from rollshape.studies.statistics import Floats

STEPS, ELAPSED = "time/total_timesteps", "time/time_elapsed"
LARGEST_ARCHIVE = 64_000_000  # bytes of evaluations.npz after decompression
_ARCHIVE_ERRORS = (
    OSError, ValueError, KeyError, EOFError, TypeError, OverflowError, NotImplementedError, RuntimeError, MemoryError,
    zipfile.BadZipFile, zlib.error, SyntaxError,
)  # fmt: skip


def read_progress(path: Path) -> LogFile:
    """Read progress.csv: a row per dump of the logger, at `time/total_timesteps`."""
    header, rows, notes = read_table(path)
    log = LogFile(path, notes=notes)
    if STEPS not in header:
        raise RequestError(
            "log",
            f"{path} has no column {STEPS}, so its rows have no place on an axis of environment steps.",
            "Give a log that Stable-Baselines3's own logger wrote.",
        )
    without_steps = 0
    for row in rows:
        cells = {tag: parse_number(text) for tag, text in zip(header, row, strict=True) if tag and text != ""}
        step = cells.get(STEPS, math.nan)
        if not math.isfinite(step):
            without_steps += 1
            continue
        for tag, value in cells.items():
            log.add(tag, step, cells.get(ELAPSED, math.nan), value)
    if without_steps:
        notes.append(f"{path.name}: {without_steps:,} rows without {STEPS} are left out")
    return log


@dataclass(frozen=True)
class MonitorFile:
    """The episodes of one monitor file: environment id, returns, lengths and seconds since the start."""

    path: Path
    env: str | None
    returns: list[float]
    lengths: list[int]
    times: list[float]
    notes: list[str]


def read_monitor(path: Path) -> MonitorFile:
    """Read a monitor.csv: a line of JSON with the environment's id, then columns r, l and t per episode."""
    header, rows, notes = read_table(path, comment="#")
    if not {"r", "l", "t"} <= set(header):
        raise RequestError("log", f"{path} has no columns r, l and t.", "Give a file that SB3's Monitor wrote.")
    columns = [header.index(name) for name in "rlt"]
    episodes = [[parse_number(row[column]) for column in columns] for row in rows]
    whole = [episode for episode in episodes if math.isfinite(sum(episode)) and 1 <= episode[1] < 2**53]
    if len(whole) < len(episodes):
        notes.append(f"{path.name}: {len(episodes) - len(whole):,} episodes without finite values are left out")
    return MonitorFile(
        path, _env_of(path), [r for r, _, _ in whole], [int(length) for _, length, _ in whole],
        [t for _, _, t in whole], notes,
    )  # fmt: skip


def _env_of(path: Path) -> str | None:
    """Return the environment that the comment line names: `#{"t_start": …, "env_id": "CartPole-v1"}`."""
    first = read_bytes(path).partition(b"\n")[0].decode("utf-8", errors="replace")
    try:
        document = json.loads(first.removeprefix("#"))
    except (ValueError, RecursionError):
        return None
    env = document.get("env_id") if isinstance(document, dict) else None
    return env if isinstance(env, str) and env != "None" and len(env) < 200 else None


def _reals(values: Any) -> Floats:
    if values.dtype.kind not in "iufb":
        raise ValueError("it does not hold numbers")
    return np.asarray(values, np.float64)


def read_evaluations(path: Path) -> LogFile:
    """Read evaluations.npz: `timesteps` [E] and `results` [E, episodes], as the tag eval/mean_reward."""
    try:
        with zipfile.ZipFile(BytesIO(read_bytes(path, LARGEST_ARCHIVE))) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > LARGEST_ARCHIVE:
            raise RequestError("log", f"{path} holds more than {format_bytes(LARGEST_ARCHIVE)}.", "Leave it out.")
        with np.load(BytesIO(read_bytes(path, LARGEST_ARCHIVE)), allow_pickle=False) as arrays:
            steps, results = _reals(arrays["timesteps"]), _reals(arrays["results"])
        if steps.ndim != 1 or results.ndim != 2 or len(results) != len(steps):
            raise ValueError("its arrays have other shapes")
    except _ARCHIVE_ERRORS as error:
        if isinstance(error, RequestError):
            raise
        raise RequestError(
            "log", f"{path} is not a whole evaluations.npz of EvalCallback.", "Remove it, or restore it from a copy."
        ) from None
    log = LogFile(path)
    for step, episodes in zip(steps.tolist(), results.tolist(), strict=True):
        if episodes and math.isfinite(step):
            log.add("eval/mean_reward", step, math.nan, float(np.mean(episodes)))
    return log
