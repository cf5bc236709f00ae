"""Continuing a run: what is on disk is checked before anything is changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rollshape.envs.objects import describe_object
from rollshape.errors import RequestError
from rollshape.training import checkpoint
from rollshape.training.checkpoint import NO_METRICS, Contents, DamagedCheckpoint
from rollshape.training.driver import Driver, RunState
from rollshape.training.rundir import RunDirectory, fingerprint
from rollshape.training.spec import Spec
from rollshape.training.trainer import OURS


class Restored(NamedTuple):
    """The state to continue from, and what the user should know about how it was restored."""

    state: RunState
    notes: list[str]


def earlier_document(directory: RunDirectory, spec: Spec, resume: bool, keep_checkpoints: int | None) -> dict[str, Any]:
    """Return run.json of the run to resume, an empty document for a new run."""
    if not directory.exists():
        return {}
    if not resume:
        raise RequestError("run", f"{directory.path} already holds a run.", "Use --resume, or another --out.")
    if directory.spec() != spec:
        raise RequestError(
            "run", f"{directory.path} holds a run of another spec.", "Resume with the same flags, or use another --out."
        )
    document = directory.read()
    kept = document.get("keep_checkpoints")
    if keep_checkpoints not in (None, kept):
        raise RequestError(
            "run",
            f"{directory.path} was started with keep_checkpoints {kept}, not {keep_checkpoints}.",
            "Resume without --keep-checkpoints.",
        )
    return document


def is_done(document: Mapping[str, Any]) -> bool:
    """Return whether run.json is that of a finished run."""
    return document.get("status") == "done" and "summary" in document


def restore(directory: RunDirectory, document: dict[str, Any], driver: Driver) -> Restored:
    """Restore the newest intact checkpoint; cut the metrics there, and mark the run as running."""
    damaged, contents = _load_newest(directory, driver)
    directory.metrics.check(contents.metrics)
    state = driver.start_and_compile() if contents.state is None else driver.place(contents.state)
    if not driver.restore(contents.snapshot):
        document["fresh_episodes_at"] = [*document["fresh_episodes_at"], int(state.update)]
    notes = [
        f"{path} is damaged and was renamed to {path.name}{checkpoint.DAMAGED_SUFFIX}; the run continues after update "
        f"{int(state.update):,}."
        for path in damaged
    ]
    directory.write({**document, "notes": [*document["notes"], *notes]})
    for path in damaged:
        checkpoint.set_aside(path)
    directory.metrics.rewind(contents.metrics)
    return Restored(state, notes)


def _load_newest(directory: RunDirectory, driver: Driver) -> tuple[list[Path], Contents]:
    """Return the damaged checkpoints, and the contents of the newest intact one; without a state if there is none."""
    damaged: list[Path] = []
    for path in reversed(checkpoint.stored(directory.checkpoints)):
        try:
            return damaged, checkpoint.load(path, driver.template())
        except DamagedCheckpoint:
            damaged.append(path)
    if damaged:
        raise RequestError(
            "checkpoint",
            f"All checkpoints of {directory.path} are damaged ({', '.join(path.name for path in damaged)}): their "
            "checksums do not match.",
            "Train again with another --out: the same spec gives the same run.",
        )
    return damaged, Contents(None, None, NO_METRICS)


def new_document(driver: Driver, keep: int | None, earlier: dict[str, Any], network: str | None) -> dict[str, Any]:
    """Return run.json of a run that starts or continues."""
    return {
        "trainer": OURS.to_dict(),
        "spec": driver.spec.to_dict(),
        "plan": driver.plan.to_dict(),
        "layout": driver.layout.to_dict(),
        "network": network,
        "env_object": describe_object(driver.spec.env),
        "derived_settings": driver.algorithm.derived_settings(),
        "versions": fingerprint(),
        "status": "running",
        "keep_checkpoints": keep,
        "fresh_episodes_at": earlier.get("fresh_episodes_at", []),  # where a resume could not restore the environments
        "notes": earlier.get("notes", []),
    }
