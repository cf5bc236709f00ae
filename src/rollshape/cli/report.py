"""`rollshape report`: write the report of a study or of a folder of runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from rollshape.cli.flags import parse
from rollshape.cli.log_flags import LogArgs, show_skipped
from rollshape.errors import RequestError

if TYPE_CHECKING:
    from rollshape.reports.report import WrittenReport


@dataclass(frozen=True, kw_only=True)
class ReportArgs(LogArgs):
    """Write report.html (a single offline file) and report.md into the folder of a study or of runs."""

    directory: Annotated[str, "a study, a folder of runs, a run directory, or logs of other libraries"]


def run(argv: Sequence[str]) -> None:
    args = parse(ReportArgs, "report", argv)
    from rollshape.cli.output import print_json
    from rollshape.files import output_directory
    from rollshape.integrations.logs.importing import read_all_records
    from rollshape.reports.report import write_report

    folder = output_directory(args.directory)
    if folder.is_file():
        raise RequestError("file", f"{folder} is a file; a report is written into a folder.", "Import it first.")
    records, skipped = read_all_records(folder, args.import_options())
    show_skipped(skipped)
    report = write_report(folder, records)
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
