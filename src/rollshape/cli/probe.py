"""`rollshape probe`: gradient statistics of a run, as sentences, tables, figures and JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rollshape.cli.env_flags import TrustArgs, calling_envs
from rollshape.cli.flags import parse
from rollshape.cli.recorded_probe import show_recorded
from rollshape.errors import RequestError
from rollshape.probes.request import ProbeRequest

if TYPE_CHECKING:
    from rollshape.probes.result import ProbeResult


@dataclass(frozen=True, kw_only=True)
class ProbeArgs(ProbeRequest, TrustArgs):
    """Measure the gradient statistics of a run and predict them for every other split of its rollout size.

    Of a run that another library trained, show what was measured while it was recorded.

    This imports the module that the run names as its environment, and so executes it; a module that is not an installed
    package needs --trust.
    """

    run_dir: Annotated[str, "a run directory"]
    checkpoint: Annotated[
        int | Literal["latest", "all"], "update whose checkpoint is measured, or all stored checkpoints"
    ] = "latest"
    no_figures: Annotated[bool, "write probe.json only"] = False


def run(argv: Sequence[str]) -> None:
    args = parse(ProbeArgs, "probe", argv)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # two threads: 36 CPU-seconds instead of 30
    if show_recorded(args.run_dir, args.checkpoint, args.json):
        return
    from rollshape.probes.subject import ProbedRun, learns_rewards

    with calling_envs(args.json), _Progress() as progress:
        measure = _measure_rewards if learns_rewards(ProbedRun(args.run_dir, trust=args.trust).spec) else _measure
        probes = measure(args, progress)
        progress("figures" if not args.no_figures else "writing")
        folders = [probe.save(figures=not args.no_figures) for probe in probes]
    if args.json:
        from rollshape.cli.output import print_json

        documents = [probe.to_dict() for probe in probes]
        print_json({"probes": documents} if args.checkpoint == "all" else documents[0])
        return
    from rollshape.cli.probe_view import show

    for probe, folder in zip(probes, folders, strict=True):
        show(probe)
        print(folder)


def _measure(args: ProbeArgs, progress: _Progress) -> Sequence[ProbeResult]:
    from rollshape.probes.probe import probe

    options: dict[str, Any] = {field.name: getattr(args, field.name) for field in fields(ProbeRequest)}
    if args.checkpoint == "all":
        return probe(args.run_dir, "all", on_progress=progress, trust=args.trust, **options)
    return [probe(args.run_dir, args.checkpoint, on_progress=progress, trust=args.trust, **options)]


def _measure_rewards(args: ProbeArgs, progress: _Progress) -> Sequence[ProbeResult]:
    """Measure the reward network of an RRD run."""
    from rollshape.probes.rewards import probe_rewards

    if args.checkpoint == "all":
        raise RequestError("choice", "A run of rrd is probed at one checkpoint.", "Give its update, or omit the flag.")
    progress("reward network")
    return [probe_rewards(args.run_dir, args.checkpoint, seed=args.seed, trust=args.trust)]


class _Progress:
    """Progress on stderr: one line that changes in a terminal, otherwise one line per step."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True, highlight=False)
        self._status = self._console.status("opening the run")

    def __enter__(self) -> _Progress:
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
