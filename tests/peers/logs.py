"""What the tests of log readers share: TensorBoard's own reader, and an import of one run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rollshape.integrations.logs.events import read_events
from rollshape.integrations.logs.imported_run import ImportedRun
from rollshape.integrations.logs.importing import read_logs
from rollshape.integrations.logs.sizes import ImportOptions


def import_one(path: Path, **options: Any) -> ImportedRun:
    result = read_logs(path, ImportOptions(**options))
    assert not result.skipped
    [run] = result.runs
    return run


def column(run: ImportedRun, name: str) -> dict[int, Any]:
    """The values of a column by update, without those that are null."""
    return {row["update"]: row[name] for row in run.rows if row.get(name) is not None}


def check_same_as_tensorboard(folder: Path) -> None:
    """Our decoder reads every scalar of the event files exactly as TensorBoard's EventAccumulator does."""
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    files = sorted(folder.rglob("*tfevents*"))
    assert files
    for file in files:
        theirs = accumulators.EventAccumulator(str(file), size_guidance={"scalars": 0})
        theirs.Reload()
        ours = read_events(file)
        assert not ours.notes
        assert set(ours.scalars) == set(theirs.Tags()["scalars"])
        for tag, series in ours.scalars.items():
            expected = [(event.step, event.wall_time, event.value) for event in theirs.Scalars(tag)]
            assert [(int(step), time, pytest.approx(value, nan_ok=True)) for step, time, value in series] == expected
