"""`rollshape import`: turn logs of other libraries into run directories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rollshape.cli.flags import parse
from rollshape.cli.log_flags import LogArgs, show_skipped
from rollshape.errors import RequestError

if TYPE_CHECKING:
    from rollshape.integrations.logs.imported_run import ImportedRun


@dataclass(frozen=True, kw_only=True)
class ImportArgs(LogArgs):
    """Turn the log of a run of SB3, CleanRL, rl_games, RSL-RL or skrl, or a folder of them, into run directories.

    Logs are TensorBoard event files, progress.csv, monitor.csv, evaluations.npz, and W&B's offline files and CSV
    exports. docs/import.md says what each library's log contains.
    """

    path: Annotated[str, "folder of a run, a folder of such folders, or a log file"]
    out: Annotated[str | None, "new run directory, or the folder of several (required)"] = None


def run(argv: Sequence[str]) -> None:
    args = parse(ImportArgs, "import", argv)
    if args.out is None:
        raise RequestError("flags", "--out is missing.", "Give the run directory to write: --out runs/NAME.")
    from rollshape.cli.output import print_json
    from rollshape.integrations.logs.importing import read_logs, write_runs

    result = read_logs(Path(args.path), args.import_options())
    places = write_runs(result, args.out)
    if args.json:
        print_json(
            {
                "out": args.out,
                "runs": [
                    {"run_dir": str(place), **run.to_dict()} for place, run in zip(places, result.runs, strict=True)
                ],
                "skipped": [log.to_dict() for log in result.skipped],
            }
        )
        return
    for place, imported in zip(places, result.runs, strict=True):
        _show_run(place, imported)
    show_skipped(result.skipped)


def _show_run(place: Path, run: ImportedRun) -> None:
    """Print what was imported, what the log does not give, and the remarks."""
    from rich.markup import escape

    from rollshape.cli.output import console

    out, document = console(), run.to_dict()
    size = f"{document['num_envs']:,}×{document['num_steps']:,}"
    out.print(f"[bold]{escape(str(place))}[/]")
    out.print(
        f"  {escape(document['library'])}, {escape(document['env'])}, {size}, {document['rows']:,} rows, "
        f"{document['timesteps']:,} timesteps, {document['status']}"
    )
    out.print(f"  not in this log: {', '.join(document['missing']) or 'nothing'}", soft_wrap=False)
    if document["assumed"]:
        values = ", ".join(f"{name} {value}" for name, value in document["assumed"].items())
        out.print(f"  not in the config, so the library's default: {escape(values)}", soft_wrap=False)
    for note in document["notes"]:
        out.print(f"  [dim]note[/] {escape(note)}", soft_wrap=False)
