"""A process of `rollshape train --num-seeds`: trains one seed after the other, each in its own run directory.

`python -P -m rollshape.studies.engines.seed_worker OPTIONS CORE IMPORT_PATH…`, with `SeedOptions` as JSON.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from rollshape.envs.access import TIMEOUT
from rollshape.geometry.plan import Plan
from rollshape.studies.engines.worker import run_process, serve
from rollshape.studies.events import Event, OnEvent
from rollshape.studies.metrics import MetricsRow
from rollshape.studies.trial_runner import Assignment, resume_run
from rollshape.training.rundir import default_path
from rollshape.training.spec import Spec


@dataclass(frozen=True, kw_only=True)
class SeedOptions:
    """Options of `rollshape train` that all seeds share. `out` is the folder of their run directories."""

    out: str | None = None
    track: tuple[str, ...] = ()
    keep_checkpoints: int | None = None
    env_timeout: float = TIMEOUT
    isolate_env: bool = False

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> SeedOptions:
        values = json.loads(text)
        return cls(**{**values, "track": tuple(values["track"])})


def seed_path(out: str | None, spec: Spec, plan: Plan) -> Path:
    """Return the run directory of a seed: OUT/seed0, or by default that of a single run."""
    return default_path(spec, plan) if out is None else Path(out) / f"seed{spec.seed}"


def main(options: str, core: str, *folders: str) -> None:
    serve(core, folders, partial(_train, SeedOptions.from_json(options)))


def _train(options: SeedOptions, assignment: Assignment, write: OnEvent) -> Event:
    trial, spec = assignment.trial, assignment.spec

    def on_row(row: MetricsRow) -> None:
        write(Event("row", trial, row=row))

    write(Event("begin", trial))
    result = resume_run(
        spec,
        seed_path(options.out, spec, spec.plan()),
        on_row,
        track=options.track,
        keep_checkpoints=options.keep_checkpoints,
        env_timeout=options.env_timeout,
        isolate_env=options.isolate_env,
        on_note=lambda note: write(Event("note", trial, reason=note)),
    )
    return Event("end", trial, result=result)


if __name__ == "__main__":
    run_process(main)
