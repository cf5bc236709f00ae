"""`rollshape probe`: what a batch of a run's shape is worth, in words, tables, figures and JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from rollshape.cli.flags import CommonArgs, parse
from rollshape.probes.ask import Ask


@dataclass(frozen=True, kw_only=True)
class ProbeArgs(Ask, CommonArgs):
    """What a batch of a run's shape is worth, and what every other split of its size would give."""

    run_dir: Annotated[str, "a run directory"]
    checkpoint: Annotated[int | Literal["latest", "all"], "the update after which it is measured"] = "latest"
    no_figures: Annotated[bool, "write probe.json only"] = False


def run(argv: Sequence[str]) -> None:
    args = parse(ProbeArgs, "probe", argv)
    from rollshape.probes.files import save
    from rollshape.probes.probe import probe

    asked: dict[str, Any] = {field.name: getattr(args, field.name) for field in fields(Ask)}
    with _Spinner() as told:
        if args.checkpoint == "all":
            found = probe(args.run_dir, "all", told=told, **asked)
        else:
            found = [probe(args.run_dir, args.checkpoint, told=told, **asked)]
        told("figures" if not args.no_figures else "writing")
        folders = [save(each, figures=not args.no_figures) for each in found]
    if args.json:
        from rollshape.cli.output import print_json

        documents = [each.to_dict() for each in found]
        print_json({"probes": documents} if args.checkpoint == "all" else documents[0])
        return
    from rollshape.cli.probe_view import show

    for each, folder in zip(found, folders, strict=True):
        show(each)
        print(folder)


class _Spinner:
    """What is being done, on stderr: one line that changes in a terminal, and a line each elsewhere."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True, highlight=False)
        self._status = self._console.status("opening the run")

    def __enter__(self) -> _Spinner:
        if self._console.is_terminal:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def __call__(self, text: str) -> None:
        if self._console.is_terminal:
            self._status.update(text)
        else:
            print(text, file=sys.stderr, flush=True)
