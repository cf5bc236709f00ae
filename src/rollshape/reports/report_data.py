"""Everything a report is made from, read once: runs, study, verdicts on claims and on runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rollshape.errors import RequestError
from rollshape.studies.diagnosis import Diagnosis, diagnose_records
from rollshape.studies.groups import Task, group_tasks
from rollshape.studies.records import RunRecord, read_records
from rollshape.studies.rules import ClaimVerdict, judge_claims
from rollshape.studies.run import StudyState, open_study
from rollshape.studies.store import Store


@dataclass(frozen=True)
class ReportData:
    """Runs grouped by task, the study where there is one, and the verdicts."""

    path: Path
    state: StudyState | None
    records: list[RunRecord]
    tasks: list[Task]
    claims: list[ClaimVerdict]
    diagnoses: list[Diagnosis]

    @property
    def command(self) -> str:
        """The command that writes this report."""
        return f"rollshape report {self.path}"


def read_report_data(path: Path, records: list[RunRecord] | None = None) -> ReportData:
    """Read a study, a folder of runs or a run directory; a RequestError where there is nothing to report."""
    state = open_study(path) if Store(path).journal.exists() else None
    records = read_records(path) if records is None else records
    if not any(record.rows for record in records):
        raise RequestError("run", f"No run in {path} has a row of metrics yet.", "Continue the study, then report.")
    tasks = group_tasks(records)
    rule, claim = (state.study.rule, state.study.claim) if state else ("", "")
    return ReportData(path, state, records, tasks, judge_claims(rule, claim, tasks), diagnose_records(records))
