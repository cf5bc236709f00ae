"""Rows of metrics in our vocabulary from a merged log: one row per update that the log mentions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rollshape.errors import RequestError
from rollshape.integrations.logs.library import Facts, LibraryLog, Tag
from rollshape.integrations.logs.merging import MergedLog
from rollshape.integrations.logs.series import Series
from rollshape.studies.metrics import LARGEST

MOST_ROWS = 500_000
MOST_UPDATES = 2**31 - 1
EXTRA_COLUMNS = ("episodes", "episodic_return_std", "action_std")  # beside those that every recorded run has
TIMED = ("rollout", "update", "episode")  # written when it was measured
LOSSES = ("policy_loss", "value_loss", "entropy")  # a run that ends with one that is not finite has diverged
RETURN = "episodic_return"


@dataclass
class LoggedRows:
    """Rows in the order of their updates, remarks, and whether the last losses are not finite."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    has_diverged: bool = False


def build_rows(merged: MergedLog, library: LibraryLog, facts: Facts) -> LoggedRows:
    """Return the rows of a log; values that have another meaning than our columns are left out and noted."""
    result = LoggedRows()
    cells: dict[int, dict[str, list[float]]] = {}
    times: dict[int, float] = {}
    per_episode: set[str] = set()
    last = dict.fromkeys(LOSSES, (0, 0.0))
    early = 0
    for name, series in merged.log.scalars.items():
        entry = library.lookup(name)
        if entry is None:
            continue
        if entry.when in TIMED:
            _note_times(name, entry, series, library, facts, times)
        if entry.column is None:
            continue
        factor = entry.scale(facts)
        if factor is None:
            result.notes.append(f"{entry.column} is not taken from {name}: {entry.condition}")
            continue
        if entry.when == "episode":
            per_episode.add(entry.column)
        for step, _, value in series:
            update = library.locate(name, entry, step, facts)
            if update < 1:
                early += 1
                continue
            cells.setdefault(_checked(update, cells), {}).setdefault(entry.column, []).append(value * factor)
            if entry.column in last:
                last[entry.column] = max(last[entry.column], (update, value), key=lambda pair: pair[0])
    if early:
        result.notes.append(f"{early:,} values from before the end of the first update are left out")
    columns: dict[str, list[Tag]] = {}
    for entry in library.tags:
        if entry.column is not None:
            columns.setdefault(entry.column, []).append(entry)
    result.rows = [_row(update, cells[update], columns, per_episode, facts) for update in sorted(cells)]
    _add_times(result.rows, times, merged)
    result.has_diverged = any(not math.isfinite(value) for _, value in last.values())
    _add_notes(result, library, per_episode)
    return result


def _note_times(
    name: str, entry: Tag, series: Series, library: LibraryLog, facts: Facts, times: dict[int, float]
) -> None:
    """Keep the latest time of each update, from values that are written at its end."""
    for step, time, _ in series:
        if math.isfinite(time) and library.axis_of(name) != "time":
            update = library.locate(name, entry, step, facts)
            times[update] = max(times.get(update, -math.inf), time)


def _checked(update: int, cells: dict[int, Any]) -> int:
    if update > MOST_UPDATES or (len(cells) >= MOST_ROWS and update not in cells):
        raise RequestError(
            "log",
            f"The log has update {update:,}, or more than {MOST_ROWS:,} rows: at most {MOST_UPDATES:,} updates and so "
            "many rows are read.",
            "Check --num-envs and --num-steps, or import a shorter log.",
        )
    return update


def _row(
    update: int,
    cells: dict[str, list[float]],
    columns: Mapping[str, list[Tag]],
    per_episode: set[str],
    facts: Facts,
) -> dict[str, Any]:
    row: dict[str, Any] = {"update": update, "timesteps": update * facts.plan.rollout_size}
    row |= dict.fromkeys(EXTRA_COLUMNS)
    for column, entries in columns.items():
        values = [value for value in cells.get(column, ()) if abs(value) <= LARGEST]  # NaN is not
        row[column] = _combine(values, entries, facts) if values else None
    episodes = [value for value in cells.get(RETURN, ()) if abs(value) <= LARGEST]
    if RETURN in per_episode and episodes:
        row["episodes"] = len(episodes)
        row["episodic_return_std"] = float(np.std(episodes, ddof=1)) if len(episodes) > 1 else None
    return row


def _combine(values: list[float], entries: list[Tag], facts: Facts) -> Any:
    """Return the value of a column: the mean of episodes and of parts of a rollout, else what was written last."""
    if entries[0].last_epoch:
        return [*([None] * (facts.plan.num_epochs - 1)), values[-1]]
    if any(entry.when in ("episode", "rollout") for entry in entries):
        return sum(values) / len(values)
    return values[-1]


def _add_times(rows: list[dict[str, Any]], times: dict[int, float], merged: MergedLog) -> None:
    """Add wall_time, and sps where the library does not log it: steps over seconds since the row before.

    The first row counts from the start of the log if the log begins with the run. No speed is computed over a pause
    between two sessions, nor from times in whole seconds (progress.csv) below 10 s.
    """
    start = min(merged.sessions, default=0.0)
    is_rounded = not merged.sessions
    updates = [row["update"] for row in rows[:2]]
    is_from_start = merged.sessions and len(updates) == 2 and updates[1] == 2 * updates[0]
    before: tuple[float, int] | None = (start, 0) if is_from_start else None
    for row in rows:
        time = times.get(row["update"])
        row["wall_time"] = None if time is None or time < start else time - start
        row.setdefault("sps", None)
        if time is None:
            continue
        if before is not None and row["sps"] is None and row["timesteps"] > before[1]:
            seconds = time - before[0]
            is_pause = any(before[0] < session <= time for session in merged.sessions if session != start)
            if seconds > (10 if is_rounded else 0) and not is_pause:
                row["sps"] = (row["timesteps"] - before[1]) / seconds
        if before is None or not is_rounded or time - before[0] > 10:
            before = (time, row["timesteps"])


def _add_notes(result: LoggedRows, library: LibraryLog, per_episode: set[str]) -> None:
    measured = {name for row in result.rows for name, value in row.items() if value is not None}
    if RETURN in measured and (RETURN not in per_episode or library.name == "cleanrl"):
        result.notes.append(f"{RETURN} is the mean of {library.window}")
    if not {RETURN, "eval_return"} & measured:
        result.notes.append("the log has no returns, so it does not show whether the run learned")
    if "approx_kl_epochs" in measured:
        entry = next(entry for entry in library.tags if entry.column == "approx_kl_epochs")
        result.notes.append(f"KL is known for the last epoch only: {entry.meaning}")
