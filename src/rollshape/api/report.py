"""`rollshape.report` and `rollshape.diagnose`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated

from rollshape.api.runs import read_path, records_of
from rollshape.files import output_directory
from rollshape.geometry.calls import check_arguments
from rollshape.geometry.values import FINITE
from rollshape.reports.report import WrittenReport, write_report
from rollshape.studies.diagnosis import Diagnosis, diagnose_records
from rollshape.studies.records import RunRecord


@check_arguments
def report(directory: str | os.PathLike[str]) -> WrittenReport:
    """Write report.html and report.md into the folder of a study or of runs; return where, and the conclusion.

    Args:
        directory: a study, a folder of runs, a run (directory), or logs of other libraries.
    """
    folder = output_directory(os.fspath(directory))
    return write_report(folder, read_path(folder))


@check_arguments
def diagnose(
    runs: str | os.PathLike[str] | Sequence[RunRecord], *, target: Annotated[float | None, FINITE] = None
) -> list[Diagnosis]:
    """Classify runs (learned, still rising, plateaued, never learned, collapsed, diverged) and explain bad ones.

    Args:
        runs: a run, several runs, or a path: a run directory, a study or a folder of runs. Runs of one environment are
            compared with each other.
        target: return that counts as solved, by default the environment's registered threshold.
    """
    return diagnose_records(records_of(runs), target)
