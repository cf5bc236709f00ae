"""A whole study: begun or continued in its folder, run on an engine, and what came of it."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rollshape.errors import RequestError
from rollshape.formatting import format_bytes
from rollshape.geometry.machine import machine
from rollshape.studies.engines.pool import Event
from rollshape.studies.store import FINAL, Result, Store
from rollshape.studies.study import Study
from rollshape.studies.trials import Expansion, Illegal, Trial, expand

Engine = Literal["local", "ray"]


@dataclass(frozen=True)
class Outcome:
    """How a study stands: the trials that can be run, each with its result so far, and the points that cannot."""

    study: Study
    store: Store
    expansion: Expansion
    trials: tuple[Trial, ...]
    illegal: tuple[Illegal, ...]
    results: dict[str, Result]

    @property
    def finished(self) -> bool:
        return all(self.results[trial.id].state in FINAL for trial in self.trials)

    def groups(self) -> dict[str, list[Trial]]:
        """Trials that differ in the seed only, in the order of the study's points."""
        found: dict[str, list[Trial]] = {}
        for trial in self.trials:
            found.setdefault(trial.group, []).append(trial)
        return found

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: the study, its trials with their results, and its illegal points."""
        return {
            "name": self.study.name,
            "out": str(self.store.path),
            "study": self.study.to_dict(),
            "evaluate_every": self.expansion.evaluate_every,
            "aligned": self.expansion.aligned,
            "trials": [
                {
                    "id": trial.id,
                    "point": trial.point,
                    "num_envs": trial.plan.num_envs,
                    "num_steps": trial.plan.num_steps,
                    "seed": trial.seed,
                    **vars(self.results[trial.id]),
                }
                for trial in self.trials
            ],
            "illegal": [point.to_dict() for point in self.illegal],
        }


def open_study(path: Path) -> Outcome:
    """A study as it stands in its folder."""
    store = Store(path)
    study = store.study()
    return _outcome(study, store, expand(study))


def run_study(
    study: Study,
    out: Path,
    *,
    engine: Engine = "local",
    jobs: int | None = None,
    address: str | None = None,
    command: str = "",
    begun: Callable[[Outcome], None] | None = None,
    watch: Callable[[Event], None] | None = None,
) -> Outcome:
    """Run what is left of a study; `begun` is told how it stands before, `watch` everything that happens.

    The `command` is noted in the journal, with the machine.
    """
    if engine == "ray":
        from rollshape.studies.engines.ray import check_installed

        check_installed()
    expansion, store = expand(study), Store(out)
    ended = store.progress()
    left = [trial for trial in expansion.trials if trial.id not in ended or not ended[trial.id].final]
    refused = _refused(study, left)
    store.begin(study)
    for trial in left:
        error = refused.get(trial.group)
        if error is not None and (trial.id not in ended or ended[trial.id].result != error):
            store.ends(trial.id, error)
    left = [trial for trial in left if trial.group not in refused]
    if begun is not None:
        begun(_outcome(study, store, expansion))
    if left:
        store.append({"event": "run", "command": command, "engine": engine, **_here()})
        _run_on(engine, store, left, jobs, address, watch or (lambda _: None))
    return _outcome(study, store, expansion)


def _run_on(
    engine: Engine, store: Store, left: Sequence[Trial], jobs: int | None, address: str | None,
    watch: Callable[[Event], None],
) -> None:  # fmt: skip
    if engine == "ray":
        from rollshape.studies.engines.ray import run as run_on_ray

        run_on_ray(store, left, jobs, address, watch)
    else:
        from rollshape.studies.engines.local import run as run_locally

        run_locally(store, left, jobs, watch)


def _here() -> dict[str, str]:
    """This machine, and how busy it is with other things."""
    here = machine()
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    told = f"{platform.machine()}, {here.cores} cores, {format_bytes(here.memory_bytes)}"
    return {"machine": told, "load": load}


def _outcome(study: Study, store: Store, expansion: Expansion) -> Outcome:
    progress = store.progress()
    results = {
        trial.id: progress[trial.id].result if trial.id in progress else Result("pending") for trial in expansion.trials
    }
    refused = {trial.group: trial for trial in expansion.trials if results[trial.id].state == "illegal"}
    illegal = [
        Illegal(trial.point, results[trial.id].cause, results[trial.id].reason, results[trial.id].summary["fix"])
        for trial in refused.values()
    ]
    legal = tuple(trial for trial in expansion.trials if trial.group not in refused)
    return Outcome(study, store, expansion, legal, (*expansion.illegal, *illegal), results)


def _refused(study: Study, trials: Sequence[Trial]) -> dict[str, Result]:
    """Group → why its environment cannot be made or does not fit; a study of which nothing is left is refused whole."""
    from rollshape.training.run import planned

    refused = {}
    groups = {trial.group: trial for trial in trials}
    for trial in groups.values():
        try:
            planned(trial.spec)
        except RequestError as error:
            refused[trial.group] = Result("illegal", error.rule, error.message, {"fix": error.fix})
    if refused and len(refused) == len(groups):
        first = next(iter(refused.values()))
        raise RequestError("study", f"No point of {study.name} can be run: {first.reason}", first.summary["fix"])
    return refused
