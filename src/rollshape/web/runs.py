"""Runs as the page shows them: the list, curves of a selection, the details of one, and the difference of two."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rollshape.checksums import is_intact
from rollshape.errors import RequestError
from rollshape.formatting import short_repr
from rollshape.typed import parse_json
from rollshape.web.folder import Folder
from rollshape.web.metrics import columns, last_row, number, sample_rows

MOST_RUN_JSON = 5_000_000
MOST_OVERLAID = 24
MOST_DIAGNOSED = 50_000_000  # bytes of metrics
PLANNED = "planned "  # before the name of a size in a difference
RETURNS = ("eval_return", "episodic_return")

Document = dict[str, Any]
Stamp = tuple[int, int]


class RunList:
    """The runs of a folder. What was read is kept until its file changes."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._runs: dict[str, tuple[Stamp | None, Stamp | None, Document]] = {}

    def document(self) -> Document:
        """Return one entry per run, with its shape, status and last metrics."""
        contents = self.folder.contents()
        runs = [self._entry(name) for name in contents.runs]
        self._runs = {name: self._runs[name] for name in contents.runs if name in self._runs}
        return {"root": str(self.folder.root), "runs": runs, "is_complete": contents.is_complete}

    def _entry(self, name: str) -> Document:
        path = os.path.join(self.folder.root, name)  # text: a thousand Path objects would take as long as the files
        stamps = _stamp(f"{path}/run.json"), _stamp(f"{path}/metrics.jsonl")
        known = self._runs.get(name)
        if known is None or known[:2] != stamps:
            known = (*stamps, describe_run(path, stamps) | {"path": name})
            self._runs[name] = known
        return known[2]


def _stamp(path: str | Path) -> Stamp | None:
    try:
        state = os.stat(path)
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size


def read_document(path: str | Path) -> Document:
    """Return run.json of a run directory; a RequestError that says what is wrong with it."""
    try:
        with open(os.path.join(path, "run.json"), "rb") as file:
            if os.fstat(file.fileno()).st_size > MOST_RUN_JSON:
                raise RequestError("run", f"run.json has more than {MOST_RUN_JSON:,} bytes.", "It is not a run's.")
            document = parse_json(file.read())
    except OSError as error:
        raise RequestError("run", f"run.json cannot be read: {error.strerror}.", "It may have been moved.") from None
    except ValueError:
        raise RequestError("run", "run.json is damaged: it is not JSON.", "Restore it from a copy.") from None
    if not isinstance(document, dict) or not all(isinstance(document.get(name), dict) for name in ("spec", "plan")):
        raise RequestError("run", "run.json is not a run's: it has no spec or plan.", "Restore it from a copy.")
    if not is_intact(document):
        raise RequestError("run", "run.json was changed after it was written.", "Restore it from a copy.")
    return document


def describe_run(path: str | Path, stamps: tuple[Stamp | None, ...] | None = None) -> Document:
    """Return the line of a run in the list; one that cannot be read has the status unreadable and the reason.

    `stamps` are those of run.json and metrics.jsonl, if they are known.
    """
    name = os.path.basename(os.path.normpath(path))  # also of the root, as “.”
    if stamps is None:
        stamps = _stamp(os.path.join(path, "run.json")), _stamp(os.path.join(path, "metrics.jsonl"))
    try:
        document = read_document(path)
    except RequestError as error:
        return {"name": name, "status": "unreadable", "reason": error.message}
    spec, plan, summary = document["spec"], document["plan"], _mapping(document.get("summary"))
    row = last_row(os.path.join(path, "metrics.jsonl")) or {}
    total = number(plan.get("actual_timesteps"))
    timesteps = number(row.get("timesteps"))
    return {
        "name": name,
        "env": _text(spec.get("env")),
        "algo": _text(plan.get("algo")),
        "trainer": _text(_mapping(document.get("trainer")).get("name") or "Rollshape"),
        "status": _text(document.get("status")),
        "seed": number(spec.get("seed")),
        "num_envs": number(plan.get("num_envs")),
        "num_steps": number(plan.get("num_steps")),
        "minibatch_size": number(plan.get("minibatch_size")),
        "num_epochs": number(plan.get("num_epochs")),
        "learning_rate": number(spec.get("learning_rate")),
        "timesteps": timesteps,
        "total_timesteps": total,
        "gradient_steps_per_update": number(plan.get("gradient_steps_per_update")),
        "return": next((value for name in RETURNS if (value := number(row.get(name))) is not None), None),
        "final_return": number(summary.get("final_return")),
        "sps": number(summary.get("sps")) or number(row.get("sps")),
        "written": max((stamp[0] / 1e9 for stamp in stamps if stamp is not None), default=None),  # seconds since 1970
    }


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else short_repr(value)


def curves(folder: Folder, names: list[str], metrics: tuple[str, ...] | None) -> Document:
    """Return the columns of each run; a run without rows has none."""
    if len(names) > MOST_OVERLAID:
        raise RequestError(
            "argument", f"{len(names)} runs; at most {MOST_OVERLAID} are overlaid.", "Select fewer runs."
        )
    return {"runs": {name: _curve(folder.path(name), metrics) for name in names}}


def _curve(path: Path, metrics: tuple[str, ...] | None) -> Document:
    file = path / "metrics.jsonl"
    rows = sample_rows(file)
    return {"columns": columns(rows, metrics), "bytes": file.stat().st_size if rows and os.path.exists(file) else 0}


def details(folder: Folder, name: str) -> Document:
    """Return what is known about one run: its list entry, spec, findings of its plan, and its diagnosis."""
    path = folder.path(name)
    document = read_document(path)
    findings = document["plan"].get("findings")
    return describe_run(path) | {
        "path": name,
        "spec": document["spec"],
        "plan": document["plan"],
        "versions": _mapping(document.get("versions")),
        "summary": _mapping(document.get("summary")),
        "config": document.get("config"),
        "findings": findings if isinstance(findings, list) else [],
    }


def diagnose_run(folder: Folder, name: str) -> Document:
    """Return the diagnosis of one run, as `rollshape diagnose` gives it."""
    path = folder.path(name)
    size = (_stamp(path / "metrics.jsonl") or (0, 0))[1]
    if size > MOST_DIAGNOSED:
        raise RequestError(
            "run", f"metrics.jsonl has {size:,} bytes: too many to diagnose here.", f"Run rollshape diagnose {name}."
        )
    from rollshape.studies.diagnosis import diagnose

    [diagnosis] = diagnose(path)
    return diagnosis.to_dict()


def difference(folder: Folder, first: str, second: str) -> Document:
    """Return the settings and sizes in which two runs differ: name → the two values."""
    one, other = (_settings(folder.path(name)) for name in (first, second))
    names = dict.fromkeys([*one, *other])
    pairs = {name: [one.get(name), other.get(name)] for name in names if one.get(name) != other.get(name)}
    repeated = [name for name in pairs if name.startswith(PLANNED) and pairs[name] == pairs.get(name[len(PLANNED) :])]
    return {"differences": {name: pair for name, pair in pairs.items() if name not in repeated}}


def _settings(path: Path) -> dict[str, Any]:
    document = read_document(path)
    sizes = ("num_envs", "num_steps", "rollout_size", "minibatch_size", "num_minibatches", "num_epochs", "num_updates",
             "gradient_steps", "actual_timesteps")  # fmt: skip
    plan = {f"{PLANNED}{name}": document["plan"].get(name) for name in sizes}
    versions = {f"version: {name}": value for name, value in _mapping(document.get("versions")).items()}
    config = {f"config: {name}": value for name, value in _mapping(document.get("config")).items()}
    return {**document["spec"], **plan, **config, **versions}
