"""The run directory: run.json, metrics.jsonl, checkpoints/. Every other command reads it.

run.json and each checkpoint carry a checksum; metrics.jsonl is covered by the checksums in them.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rollshape import __version__
from rollshape.checksums import Extent, is_intact, seal
from rollshape.errors import RequestError
from rollshape.files import DISK_FULL, atomic_write, describe_lock_owner, disk_errors, lock_file
from rollshape.geometry.plan import Plan
from rollshape.training import checkpoint
from rollshape.training.metrics_file import MetricsFile, Row
from rollshape.training.spec import Spec
from rollshape.training.trainer import Trainer
from rollshape.typed import check_types

PACKAGES = ("jax", "jaxlib", "equinox", "numpy", "gymnax", "brax", "mujoco-mjx", "playground")
LOCK = ".lock"  # held by the process that trains here
NEW_DIRECTORY = "Train again in another directory."


class RunDirectory:
    """The files of one run. Files are written atomically, metrics are only appended."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metrics = MetricsFile(path / "metrics.jsonl")

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def exists(self) -> bool:
        return os.path.exists(self.path / "run.json")  # also False for a path that is not readable

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Create the folders and own them: a second process that wants to write here is refused.

        A path that cannot be a run directory is a wrong request; a full disk is not.
        """
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
        lock = lock_file(self.path / LOCK)
        if lock is None:
            owner = describe_lock_owner(self.path / LOCK)
            raise RequestError(
                "owner", f"{self.path} is in use by {owner}.", "Wait until it ends, or use another --out."
            )
        with lock:
            if not self.exists() and (self.metrics.path.exists() or checkpoint.stored(self.checkpoints)):
                raise RequestError("run", f"{self.path} holds parts of a run, but no run.json.", "Use another --out.")
            yield

    def write(self, document: Mapping[str, Any]) -> None:
        """Replace run.json in one step, with its checksum."""
        with atomic_write(self.path / "run.json") as file:
            file.write(json.dumps(seal(document), indent=2, allow_nan=False).encode())

    def end(self, status: str, **results: Any) -> None:
        """Write how the run ended to run.json, with the checksum of its metrics."""
        extent = self.metrics.sync()
        self.write({**self.read(), "status": status, "metrics": extent._asdict(), **results})

    def read(self) -> dict[str, Any]:
        """Return run.json; a RequestError if it was changed after it was written."""
        source = self.path / "run.json"
        try:
            document = json.loads(source.read_bytes())
        except OSError:
            raise RequestError(
                "run", f"{self.path} is not a run directory.", "Give a directory that `rollshape train` created."
            ) from None
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict) or not {"spec", "status", "versions"} <= set(document):
            raise RequestError("run", f"{source} is damaged or not a run's.", NEW_DIRECTORY)
        if not is_intact(document):
            raise RequestError(
                "run",
                f"{source} was changed after it was written: its checksum does not match.",
                "Restore it from a copy, or train again in another directory.",
            )
        return document

    def spec(self) -> Spec:
        """Return the spec of a run of ours; a RequestError if another library trained it."""
        document = self.read()
        spec, trainer = document["spec"], self.trainer()
        if not isinstance(spec, dict) or "env" not in spec:
            raise RequestError("run", f"{self.path / 'run.json'} does not hold a valid spec.", NEW_DIRECTORY)
        if not trainer.is_ours:
            raise RequestError(
                "trainer",
                f"{self.path} was trained by {trainer.name}, and Rollshape has only its metrics.",
                "`rollshape diagnose` and `rollshape report` take it; continue or evaluate it with its own library.",
            )
        return Spec.from_dict(spec)

    def trainer(self) -> Trainer:
        """Return what trained the run."""
        try:
            return Trainer.from_document(self.read())
        except (KeyError, ValueError):
            raise RequestError(
                "run", f"{self.path / 'run.json'} does not hold a valid trainer.", NEW_DIRECTORY
            ) from None

    def plan(self) -> Plan:
        """Return the plan of the run."""
        try:
            plan = Plan.from_dict(self.read()["plan"])
            check_types(plan, Plan)
            sizes = (plan.num_envs, plan.num_steps, plan.minibatch_size, plan.num_minibatches, plan.num_epochs)
            if min(sizes) < 1 or plan.num_envs * plan.num_steps != plan.rollout_size:
                raise ValueError("these sizes are no plan's")
            return plan
        except (AttributeError, KeyError, TypeError, ValueError):
            raise RequestError("run", f"{self.path / 'run.json'} does not hold a valid plan.", NEW_DIRECTORY) from None

    def append(self, row: Row) -> None:
        self.metrics.append(row)

    def rows(self) -> Iterator[Row]:
        """Yield all rows, checked against run.json once the run has ended, before against the latest checkpoint."""
        ended = self.read().get("metrics") if self.exists() else None
        yield from self.metrics.rows(Extent(**ended) if ended else checkpoint.metrics_before(self.checkpoints))


def default_path(spec: Spec, plan: Plan) -> Path:
    """Return runs/CartPole-v1_ppo_64x32_seed0."""
    env = spec.env.replace(":", "-").replace("/", "-")
    return Path("runs") / f"{env}_{spec.algo}_{plan.num_envs}x{plan.num_steps}_seed{spec.seed}"


def free_path(path: Path, resume: bool) -> Path:
    """Return the path of the run to resume, or of a new run: with a number behind it where it exists."""
    if resume or not path.exists():
        return path
    return next(other for i in range(2, 10_000) if not (other := path.with_name(f"{path.name}-{i}")).exists())


def fingerprint() -> dict[str, str]:
    """Return the versions that must be equal for a bit-identical repeat."""
    versions = {"rollshape": __version__, "python": platform.python_version(), "machine": platform.machine()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions
