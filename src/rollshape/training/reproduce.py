"""Repeating a run: is every metric and every parameter the same?"""

from __future__ import annotations

import os
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np

from rollshape.envs.access import TIMEOUT, EnvAccess
from rollshape.errors import RequestError
from rollshape.files import output_directory
from rollshape.geometry.calls import check_arguments
from rollshape.geometry.values import POSITIVE
from rollshape.training.driver import RunState
from rollshape.training.metrics import TIMES
from rollshape.training.run import train
from rollshape.training.rundir import RunDirectory, fingerprint
from rollshape.training.setup import open_run, trusted_spec


@dataclass(frozen=True)
class Comparison:
    """Number of compared rows and arrays, and the first difference."""

    rows: int
    arrays: int
    difference: str
    versions: dict[str, tuple[str, str]] = field(default_factory=dict)  # then and now, where they differ

    @property
    def same(self) -> bool:
        return not self.difference

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"same": self.same}


@check_arguments
def reproduce(
    run: str | os.PathLike[str],
    *,
    trust: bool = False,
    env: Any = None,
    env_timeout: Annotated[float, POSITIVE] = TIMEOUT,
    isolate_env: bool = False,
) -> Comparison:
    """Train a finished run again in a temporary folder and compare metrics and parameters, bit for bit.

    Args:
        run: a run or its directory.
        trust: open a run whose environment is in a module that is not installed, which executes the module.
        env: the run's environment, if it was given to `train` as an object that is not in a module.
        env_timeout: seconds that a call into a host environment may last.
        isolate_env: run host environments in a process of their own.
    """
    path = output_directory(os.fspath(run))
    original = RunDirectory(path)
    document = original.read()
    if document["status"] != "done":
        raise RequestError("run", f"{path} is {document['status']}, not done.", "Finish it with --resume first.")
    now = fingerprint()
    versions = {
        name: (then, now.get(name, "absent")) for name, then in document["versions"].items() if now.get(name) != then
    }
    spec = trusted_spec(original, trust, env)
    with tempfile.TemporaryDirectory() as scratch:
        again = train(spec, out=Path(scratch) / "again", env_timeout=env_timeout, isolate_env=isolate_env)
        before, after = list(original.rows()), again.metrics
        access = EnvAccess(env_timeout, isolate_env)
        arrays = [jax.tree.leaves(_load_state(folder, access)) for folder in (path, again.path)]
    difference = first_difference(before, after)
    if not difference:
        for i, (old, new) in enumerate(zip(*arrays, strict=True)):
            if not np.array_equal(np.asarray(old), np.asarray(new), equal_nan=True):
                difference = f"array {i} of the last checkpoint"
                break
    return Comparison(len(before), len(arrays[0]), difference, versions)


def _load_state(path: Path, access: EnvAccess) -> RunState:
    """Return the last state of a run."""
    driver, state = open_run(path, trust=True, access=access)
    driver.close()
    return state


def first_difference(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> str:
    """Return the first metric that differs, times aside; empty if none does."""
    for old, new in zip(before, after, strict=False):
        for name in old:
            if name not in TIMES and old[name] != new.get(name):
                return f"{name} at update {old['update']}: {old[name]!r} then, {new.get(name)!r} now"
    return "" if len(before) == len(after) else f"{len(before)} rows then, {len(after)} now"
