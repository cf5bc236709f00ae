"""The run directory: run.json, metrics.jsonl, checkpoints/. Every other command reads it."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rollshape import __version__
from rollshape.errors import RequestError
from rollshape.files import DISK_FULL, append, atomic_write, disk_errors
from rollshape.geometry.plan import Plan
from rollshape.training import checkpoint
from rollshape.training.spec import Spec

PACKAGES = ("jax", "jaxlib", "equinox", "optax", "numpy", "gymnax")


class RunDirectory:
    """The files of one run. Files are written atomically, metrics are only appended."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def metrics_file(self) -> Path:
        return self.path / "metrics.jsonl"

    def exists(self) -> bool:
        return os.path.exists(self.path / "run.json")  # also False for a path that is not readable

    def create(self) -> None:
        """Create the folders. A path that cannot be a run directory is a wrong request; a full disk is not."""
        with disk_errors(self.path):
            try:
                self.checkpoints.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                if error.errno in DISK_FULL:
                    raise
                raise RequestError(
                    "run",
                    f"{self.path} cannot be a run directory: {error.strerror}.",
                    "Use another --out: a new path, or a folder in which you can write.",
                ) from None
        if not self.exists() and (self.metrics_file.exists() or checkpoint.stored(self.checkpoints)):
            raise RequestError("run", f"{self.path} holds parts of a run, but no run.json.", "Use another --out.")

    def write(self, document: dict[str, Any]) -> None:
        """Replace run.json in one step."""
        with atomic_write(self.path / "run.json") as file:
            file.write(json.dumps(document, indent=2, allow_nan=False).encode())

    def read(self) -> dict[str, Any]:
        try:
            document = json.loads((self.path / "run.json").read_bytes())
        except OSError:
            raise RequestError(
                "run", f"{self.path} is not a run directory.", "Give a directory that `rollshape train` created."
            ) from None
        except ValueError:
            document = None
        if not isinstance(document, dict) or not {"spec", "status", "versions"} <= set(document):
            raise RequestError(
                "run", f"{self.path / 'run.json'} is damaged or not a run's.", "Train again in another directory."
            )
        return document

    def spec(self) -> Spec:
        """Return the spec of the run."""
        document = self.read()["spec"]
        if not isinstance(document, dict) or "env" not in document:
            raise RequestError(
                "run", f"{self.path / 'run.json'} does not hold a valid spec.", "Train again in another directory."
            )
        return Spec.from_dict(document)

    def plan(self) -> Plan:
        """Return the plan of the run."""
        try:
            return Plan.from_dict(self.read()["plan"])
        except (AttributeError, KeyError, TypeError, ValueError):
            raise RequestError(
                "run", f"{self.path / 'run.json'} does not hold a valid plan.", "Train again in another directory."
            ) from None

    def append(self, row: dict[str, Any]) -> None:
        append(self.metrics_file, _line(row))

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield all complete rows; a torn last line is skipped."""
        if not self.metrics_file.exists():
            return
        for line in self.metrics_file.read_bytes().splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                return

    def rewind(self, update: int) -> None:
        """Keep only the rows up to an update, so that a resumed run appends what comes after."""
        kept = [row for row in self.rows() if row["update"] <= update]
        with atomic_write(self.metrics_file) as file:
            file.write(b"".join(map(_line, kept)))


def _line(row: dict[str, Any]) -> bytes:
    return json.dumps(row, allow_nan=False).encode() + b"\n"


def fingerprint() -> dict[str, str]:
    """Return the versions that must be equal for a bit-identical repeat."""
    versions = {"rollshape": __version__, "python": platform.python_version(), "machine": platform.machine()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions
