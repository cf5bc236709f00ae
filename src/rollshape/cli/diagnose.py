"""`rollshape diagnose`: how each run ended, and the suspected causes of bad runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rollshape.cli.flags import CommonArgs, parse

if TYPE_CHECKING:
    from rollshape.studies.diagnosis import Diagnosis

MAX_SUSPECTS = 3  # shown per shape


@dataclass(frozen=True, kw_only=True)
class DiagnoseArgs(CommonArgs):
    """Classify runs as learned, still rising, plateaued, never learned, collapsed or diverged, and explain bad ones."""

    directory: Annotated[str, "a run directory, a study, or a folder of runs"]
    target: Annotated[
        float | None, "return that counts as solved (default: the environment's registered threshold)"
    ] = None


def run(argv: Sequence[str]) -> None:
    args = parse(DiagnoseArgs, "diagnose", argv)
    from rollshape.cli.output import print_json
    from rollshape.studies.diagnosis import diagnose

    diagnoses = diagnose(Path(args.directory), args.target)
    if args.json:
        print_json([diagnosis.to_dict() for diagnosis in diagnoses])
        return
    groups: dict[Any, list[Diagnosis]] = {}
    for diagnosis in diagnoses:
        groups.setdefault(diagnosis.record.group_key, []).append(diagnosis)
    for group in groups.values():
        _show_group(group)


def _show_group(diagnoses: list[Diagnosis]) -> None:
    """Print the verdicts of runs that differ in the seed only, and the suspects of a typical one."""
    from rich.markup import escape

    from rollshape.cli.output import console, show_findings

    record, out = diagnoses[0].record, console()
    counts = Counter(diagnosis.verdict.name for diagnosis in diagnoses).most_common()
    most_common = counts[0][0]
    verdicts = ", ".join(f"{verdict} {count} of {len(diagnoses)}" for verdict, count in counts)
    out.print(f"[bold]{escape(record.spec.env)} {record.shape}[/]  {most_common if len(diagnoses) == 1 else verdicts}")
    typical = next(diagnosis for diagnosis in diagnoses if diagnosis.verdict.name == most_common)
    out.print(f"      {escape(typical.verdict.reason)}")
    show_findings(typical.suspects[:MAX_SUSPECTS])
    if typical.verdict.is_bad and not typical.suspects:
        out.print("      No measured cause stands out; a probe may show more.")
