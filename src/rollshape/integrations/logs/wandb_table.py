"""CSV exports of Weights & Biases: of a chart (a column per run), or of one run's history (a column per tag)."""

from __future__ import annotations

import math
from pathlib import Path

from rollshape.errors import RequestError
from rollshape.integrations.logs.reading import parse_number
from rollshape.integrations.logs.series import LogFile
from rollshape.integrations.logs.tables import read_table
from rollshape.integrations.logs.wandb_file import AXES, add_rows

_CHART_AXES = ("global_step", "Step", "_step")
_SEPARATOR = " - "  # in a chart's column: `run name - tag`
_BOUNDS = ("__MIN", "__MAX")


def read_wandb_table(path: Path) -> dict[str, LogFile]:
    """Return the logs in an export by the name of the run; a history has one run, named like the file."""
    header, rows, notes = read_table(path)
    if any(_SEPARATOR in name for name in header):
        return _read_chart(path, header, rows, notes)
    if not set(AXES) & set(header):
        raise RequestError(
            "log",
            f"{path} is no table of a log: it has none of the columns {', '.join(AXES)}, time/total_timesteps.",
            "Give progress.csv of Stable-Baselines3, or the history of a W&B run as CSV.",
        )
    log = LogFile(path, notes=notes)
    cells = ({name: text for name, text in zip(header, row, strict=True) if text != ""} for row in rows)
    add_rows(log, ({name: parse_number(text) for name, text in row.items()} for row in cells))
    return {path.stem: log}


def _read_chart(path: Path, header: list[str], rows: list[list[str]], notes: list[str]) -> dict[str, LogFile]:
    axis = next((name for name in _CHART_AXES if name in header), None)
    if axis is None:
        axes = ", ".join(_CHART_AXES)
        raise RequestError(
            "log",
            f"{path} has no column of steps ({axes}): the chart was exported over another axis.",
            "Set the x-axis of the chart to global_step or Step, and export it again.",
        )
    logs: dict[str, LogFile] = {}
    steps = [parse_number(row[header.index(axis)]) for row in rows]
    for column, name in enumerate(header):
        run, separator, tag = name.rpartition(_SEPARATOR)
        if not separator or tag.endswith(_BOUNDS) or tag in AXES:
            continue
        log = logs.setdefault(run, LogFile(path, notes=list(notes), axis=axis))
        for step, row in zip(steps, rows, strict=True):
            if math.isfinite(step) and row[column] != "":
                log.add(tag, step, math.nan, parse_number(row[column]))
    return logs
