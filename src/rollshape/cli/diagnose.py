"""`rollshape diagnose`: what became of each run, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rollshape.cli.flags import CommonArgs, parse

if TYPE_CHECKING:
    from rollshape.studies.diagnosis import Diagnosis

SHOWN = 3  # suspects of a shape


@dataclass(frozen=True, kw_only=True)
class DiagnoseArgs(CommonArgs):
    """Learned, still rising, plateaued, never learned, collapsed or diverged; and for the bad ones why, by evidence."""

    directory: Annotated[str, "a run directory, a study, or a folder of runs"]
    target: Annotated[float | None, "the return that counts as solved (default: the environment's registered one)"] = (
        None
    )


def run(argv: Sequence[str]) -> None:
    args = parse(DiagnoseArgs, "diagnose", argv)
    from rollshape.cli.output import print_json
    from rollshape.studies.diagnosis import diagnose

    found = diagnose(Path(args.directory), args.target)
    if args.json:
        print_json([each.to_dict() for each in found])
        return
    groups: dict[Any, list[Diagnosis]] = {}
    for each in found:
        groups.setdefault(each.record.group, []).append(each)
    for runs in groups.values():
        _show(runs)


def _show(runs: list[Diagnosis]) -> None:
    """Runs that differ in the seed only: their verdicts, and the suspects of a typical bad one."""
    from rich.markup import escape

    from rollshape.cli.output import console, show_findings

    first, out = runs[0].record, console()
    verdicts = Counter(each.judgement.verdict for each in runs)
    counted = ", ".join(f"{verdict} {count} of {len(runs)}" for verdict, count in verdicts.most_common())
    counted = runs[0].judgement.verdict if len(runs) == 1 else counted
    out.print(f"[bold]{escape(first.spec['env'])} {first.shape}[/]  {counted}")
    typical = next(each for each in runs if each.judgement.verdict == verdicts.most_common(1)[0][0])
    out.print(f"      {escape(typical.judgement.reason)}")
    show_findings(typical.suspects[:SHOWN])
    if typical.judgement.bad and not typical.suspects:
        out.print("      Nothing that is measured stands out; a probe may tell more.")
