"""The run directory of a run that another library trains: run.json and metrics.jsonl. Does not import JAX.

Rows are only appended, each in one write, so a process that is killed at any time leaves a run that can be read.
"""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from rollshape import __version__
from rollshape.checksums import seal
from rollshape.errors import RequestError
from rollshape.files import atomic_write, describe_lock_owner, disk_errors, lock_file, output_directory
from rollshape.integrations.description import RunDescription
from rollshape.training.metrics_file import MetricsFile

RETRY = "record the run in another directory"
LOCK = ".lock"
Status = Literal["done", "diverged", "interrupted", "failed"]
# All rows have these columns: what a library does not report is null. Further ones may follow.
COLUMNS = (
    "update", "timesteps", "wall_time", "episodic_return", "episodic_length", "episodes", "episodic_return_std",
    "timeout_share", "success_rate", "eval_return", "reset_phase_entropy", "reward_rms", "return_std",
    "observation_scale", "observation_scale_ratio", "gradient_steps", "policy_loss", "value_loss", "entropy",
    "action_std", "approx_kl", "clip_fraction", "ratio_ess", "grad_norm", "approx_kl_epochs", "ratio_ess_epochs",
    "explained_variance", "learning_rate", "noise_scale", "effective_sample_size", "gradient_snr",
    "value_gradient_share", "sps",
)  # fmt: skip


class RunWriter:
    """Write one run. The directory must be new; while it is written, no other process can write to it."""

    def __init__(self, path: str | Path, description: RunDescription) -> None:
        self.path = output_directory(path)
        self.metrics = MetricsFile(self.path / "metrics.jsonl")
        with disk_errors(self.path, RETRY):
            self.path.mkdir(parents=True, exist_ok=True)
        lock = lock_file(self.path / LOCK, RETRY)
        if lock is None:
            owner = describe_lock_owner(self.path / LOCK)
            raise RequestError("owner", f"{self.path} is in use by {owner}.", f"{RETRY.capitalize()}.")
        self._lock = lock
        try:
            if any(os.path.lexists(self.path / name) for name in ("run.json", "metrics.jsonl")):
                raise RequestError("run", f"{self.path} already holds a run.", f"{RETRY.capitalize()}.")
            self._document = {
                **description.to_document(),
                "versions": {"rollshape": __version__, "python": platform.python_version()},
                "status": "running",
                "notes": [],
            }
            self._write()
        except BaseException:
            lock.release()
            raise

    def append(self, row: Mapping[str, Any]) -> None:
        """Append a row of metrics by name; `update` and `timesteps` are required, what is not finite becomes null."""
        self.metrics.append({**dict.fromkeys(COLUMNS), **{name: _finite(value) for name, value in row.items()}})

    def note(self, text: str) -> None:
        """Add a remark to run.json, for example how a value was determined."""
        if text not in self._document["notes"]:
            self._document["notes"] = [*self._document["notes"], text]
            self._write()

    def end(self, status: Status = "done", **summary: Any) -> None:
        """Write how the run ended, with the checksum of its metrics, and release the directory."""
        self._document |= {
            "status": status,
            "metrics": self.metrics.sync()._asdict(),
            "summary": {name: _finite(value) for name, value in summary.items()},
        }
        self._write()
        self._lock.release()

    def _write(self) -> None:
        with atomic_write(self.path / "run.json", RETRY) as file:
            file.write(json.dumps(seal(self._document), indent=2, allow_nan=False).encode())


def _finite(value: Any) -> Any:
    """Return a metric as JSON: arrays of one value are numbers, what is not finite is null."""
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    number = float(value)
    return number if math.isfinite(number) else None
