"""The run directory: run.json, metrics.jsonl, checkpoints/. Every later command reads it."""

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
from rollshape.training.spec import Spec

PACKAGES = ("jax", "jaxlib", "equinox", "optax", "numpy", "gymnax")
WHEN = ("wall_time", "rollout_s", "update_s", "sps")  # all but these repeat bit for bit


class RunDirectory:
    """Files of one run; what is written is whole or absent, and metrics are only appended."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def metrics_file(self) -> Path:
        return self.path / "metrics.jsonl"

    def exists(self) -> bool:
        return (self.path / "run.json").exists()

    def write(self, document: dict[str, Any]) -> None:
        """Replace run.json in one step."""
        self.path.mkdir(parents=True, exist_ok=True)
        temporary = self.path / ".run.json.writing"
        with temporary.open("w") as file:
            json.dump(document, file, indent=2, allow_nan=False)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path / "run.json")

    def read(self) -> dict[str, Any]:
        try:
            document = json.loads((self.path / "run.json").read_text())
        except (OSError, ValueError):
            raise RequestError(
                "run", f"{self.path} is no run directory.", "Give one that `rollshape train` made."
            ) from None
        return dict(document)

    def spec(self) -> Spec:
        """The spec that the run was made with."""
        stored = self.read()["spec"]
        known: dict[str, Any] = {name: stored[name] for name in Spec.__dataclass_fields__ if name in stored}
        known["hidden_sizes"] = tuple(known["hidden_sizes"])  # JSON has no tuples
        return Spec(**known)

    def append(self, row: dict[str, Any]) -> None:
        with self.metrics_file.open("a") as file:
            file.write(json.dumps(row, allow_nan=False) + "\n")

    def rows(self) -> Iterator[dict[str, Any]]:
        """All whole rows; a torn last line is passed over."""
        if not self.metrics_file.exists():
            return
        for line in self.metrics_file.read_text().splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                return

    def rewind(self, update: int) -> None:
        """Keep only the rows up to an update, so that a resumed run appends what comes after."""
        kept = [row for row in self.rows() if row["update"] <= update]
        temporary = self.path / ".metrics.writing"
        temporary.write_text("".join(json.dumps(row) + "\n" for row in kept))
        temporary.replace(self.metrics_file)


def fingerprint() -> dict[str, str]:
    """What a bit-identical repeat needs to be the same."""
    found = {"rollshape": __version__, "python": platform.python_version(), "machine": platform.machine()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
