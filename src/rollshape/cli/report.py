"""`rollshape report`: write the report of a study or of a folder of runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from rollshape.cli.flags import CommonArgs, parse

if TYPE_CHECKING:
    from rollshape.reports.report import WrittenReport


@dataclass(frozen=True, kw_only=True)
class ReportArgs(CommonArgs):
    """Write report.html (a single offline file) and report.md into the folder of a study or of runs."""

    directory: Annotated[str, "a study, a folder of runs, or a run directory"]


def run(argv: Sequence[str]) -> None:
    args = parse(ReportArgs, "report", argv)
    from rollshape.cli.output import print_json
    from rollshape.files import output_directory
    from rollshape.reports.report import write_report

    report = write_report(output_directory(args.directory))
    if args.json:
        print_json(report.to_dict())
    else:
        show_report(report)


def show_report(report: WrittenReport) -> None:
    """Print the conclusion of a report, and where it was written."""
    from rich.markup import escape

    from rollshape.cli.output import console

    out = console()
    out.print(f"\n[bold]{escape(report.title)}[/]")
    out.print(f"[bold]{escape(report.headline)}[/]")
    for line in report.summary:
        out.print(escape(line))
    out.print(f"\n{escape(str(report.html))}")
