"""`rollshape probe` of a run that another library trained: what was measured while it was recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from rollshape.errors import RequestError


def show_recorded(run_dir: str, checkpoint: int | Literal["latest", "all"], as_json: bool) -> bool:
    """Show the measurements of another library's run; return whether it is one."""
    from rollshape.training.rundir import RunDirectory

    directory = RunDirectory(Path(run_dir))
    if not directory.exists() or directory.trainer().is_ours:
        return False
    from rollshape.integrations.measurement import read_measurement, stored

    updates = stored(directory.path)
    if not updates:
        raise RequestError(
            "trainer",
            f"{run_dir} was trained by {directory.trainer().name}, and its gradient was not measured.",
            "Record the run with rollshape.integrations while it trains; `rollshape diagnose` takes it as it is.",
        )
    chosen = updates if checkpoint == "all" else [updates[-1] if checkpoint == "latest" else checkpoint]
    measurements = [read_measurement(directory.path, update) for update in chosen]
    if as_json:
        from rollshape.cli.output import print_json

        documents = [{"run_dir": run_dir, **measurement.to_dict()} for measurement in measurements]
        print_json({"probes": documents} if checkpoint == "all" else documents[0])
        return True
    from rollshape.cli.probe_view import show_result

    for measurement in measurements:
        show_result(run_dir, measurement)
    return True
