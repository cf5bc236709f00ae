"""`rollshape probe`: what a batch of a run's shape is worth, in words, tables, figures and JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from rollshape.cli.flags import CommonArgs, parse
from rollshape.errors import RequestError
from rollshape.probes.ask import Ask


@dataclass(frozen=True, kw_only=True)
class ProbeArgs(Ask, CommonArgs):
    """What a batch of a run's shape is worth, and what every other split of its size would give."""

    run_dir: Annotated[str, "a run directory"]
    checkpoint: Annotated[int | Literal["latest", "all"], "the update after which it is measured"] = "latest"
    no_figures: Annotated[bool, "write probe.json only"] = False


def run(argv: Sequence[str]) -> None:
    args = parse(ProbeArgs, "probe", argv)
    from rollshape.training.rundir import RunDirectory

    if RunDirectory(Path(args.run_dir)).spec().algo == "rrd":
        _rewards(args)
        return
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


def _rewards(args: ProbeArgs) -> None:
    """A run of RRD: its reward network."""
    from rollshape.probes.rewards import answer, probe_rewards

    if args.checkpoint == "all":
        raise RequestError("choice", "A run of rrd is probed at one checkpoint.", "Give its update, or leave it out.")
    with _Spinner() as told:
        told("reward network")
        found = probe_rewards(args.run_dir, args.checkpoint, seed=args.seed)
        folder = found.save(figures=not args.no_figures)
    if args.json:
        from rollshape.cli.output import print_json

        print_json(found.to_dict())
        return
    print(f"{found.run_dir} after update {found.update:,} ({found.timesteps:,} timesteps)")
    print("\n".join(answer(found)))
    print(f"\n{'K':>6} {'subsequences':>12} {'variance':>10} {'95 %':>23} {'bias²':>10} {'mse':>10}")
    for point in found.surface:
        ends = f"{point.variance.low:.3g} … {point.variance.high:.3g}"
        mark = "  run's" if point.rrd_sample_size == found.rrd_sample_size else ""
        print(f"{point.rrd_sample_size:>6,} {point.num_subsequences:>12,} {point.variance.value:>10.3g} {ends:>23} "
              f"{point.bias2.value:>10.3g} {point.mse:>10.3g}{mark}")  # fmt: skip
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
