"""`rollshape diagnose`: how each run ended, and the suspected causes of runs that did not learn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rollshape.cli.flags import parse
from rollshape.cli.log_flags import LogArgs, show_skipped

if TYPE_CHECKING:
    from rollshape.studies.diagnosis import Diagnosis

MAX_SUSPECTS = 3  # per run in the details
INDENT = "    "


@dataclass(frozen=True, kw_only=True)
class DiagnoseArgs(LogArgs):
    """Classify runs as learned, still rising, plateaued, never learned, collapsed or diverged, and explain bad ones."""

    directory: Annotated[str, "a run directory, a study, a folder of runs, or logs of another library"]
    target: Annotated[
        float | None, "return that counts as solved (default: the environment's registered threshold)"
    ] = None
    details: Annotated[
        bool, "also print each run's verdict, evidence, cleared suspects and what the log cannot tell"
    ] = False


def run(argv: Sequence[str]) -> None:
    args = parse(DiagnoseArgs, "diagnose", argv)
    from rollshape.cli.output import console, print_json
    from rollshape.integrations.logs.importing import read_all_records
    from rollshape.studies.diagnosis import diagnose_records, group_diagnoses
    from rollshape.studies.groups import group_tasks

    records, skipped = read_all_records(Path(args.directory), args.import_options())
    show_skipped(skipped)
    diagnoses = diagnose_records(records, args.target)
    if args.json:
        print_json([diagnosis.to_dict() for diagnosis in diagnoses])
        return
    labels = {
        (run.task_key, run.group_key): (task.label, group.label)
        for task in group_tasks([diagnosis.record for diagnosis in diagnoses])
        for group in task.groups
        for run in group.runs
    }
    task = ""
    for key, group in group_diagnoses(diagnoses).items():
        if labels[key][0] != task:
            task = labels[key][0]
            console().print(task, style="bold", markup=False)
        _show_group(labels[key][1] or group[0].record.shape, group, is_detailed=args.details or len(diagnoses) == 1)
    if not args.details and len(diagnoses) > 1:
        console().print("Use --details for the evidence of each run.", style="dim")


def _show_group(label: str, group: list[Diagnosis], *, is_detailed: bool) -> None:
    """Print the outcome of runs that differ in the seed only in one line, and what to change in a second one."""
    from rollshape.cli.output import console
    from rollshape.studies.diagnosis import common_suspect

    out = console()
    counts = Counter(diagnosis.verdict.name for diagnosis in group).most_common()
    outcome = counts[0][0] if len(group) == 1 else ", ".join(f"{count} {verdict}" for verdict, count in counts)
    common = common_suspect(group)
    suspect = ""
    if common:
        suspect = common[0].rule if len(group) == 1 else f"{common[0].rule} ({common[1]} of {len(group)})"
    out.print(f"  {label}  {outcome}{f'  → {suspect}' if suspect else ''}", markup=False)
    if is_detailed:
        for diagnosis in group:
            _show_run(diagnosis, is_single=len(group) == 1)
    elif common:
        _print_wrapped(common[0].fix, style="dim")


def _show_run(diagnosis: Diagnosis, *, is_single: bool) -> None:
    """Print a run's verdict and its suspects with their evidence, then what is cleared and what is not measurable."""
    seed = "" if is_single else f"seed {diagnosis.record.spec.seed}, {diagnosis.verdict.name}: "
    _print_wrapped(f"{seed}{diagnosis.verdict.reason}")
    for finding in diagnosis.suspects[:MAX_SUSPECTS]:
        _print_wrapped(f"{finding.rule}: {finding.message}", style="yellow")
        _print_wrapped(f"Change {finding.fix}" if finding.numbers["changes"] else finding.fix, indent=2 * INDENT)
    if diagnosis.verdict.is_bad and not diagnosis.suspects:
        _print_wrapped("No measured cause stands out; a probe may show more.")
    if diagnosis.cleared:
        _print_wrapped(f"cleared: {', '.join(finding.rule for finding in diagnosis.cleared)}", style="dim")
    if diagnosis.not_measurable:
        parts = [f"{suspect.rule} (needs {', '.join(suspect.needs)})" for suspect in diagnosis.not_measurable]
        _print_wrapped(f"not measurable from this log: {', '.join(parts)}", style="dim")


def _print_wrapped(text: str, style: str = "", indent: str = INDENT) -> None:
    """Print a paragraph, wrapped to the width of the terminal and indented."""
    import textwrap

    from rollshape.cli.output import console

    out = console()
    width = max(40, min(out.width, 120))
    for line in textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False):
        out.print(line, style=style or None, markup=False)
