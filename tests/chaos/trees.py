"""The files below a folder as values: what was there before a command, and what of it is missing after it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

Tree = dict[str, bytes]
ROWS = ("metrics.jsonl", "journal.jsonl")
REWRITTEN = ("run.json",)  # replaced whenever the state of the run changes
GENERATED = ("report.html", "report.md", "probe.json", ".lock")
TIMES = ("wall_time", "rollout_s", "update_s", "sps", "compile_s", "run_dir", "time", "load", "pid", "host", "command",
         "notes")  # fmt: skip
GENERATED_FOLDERS = ("report", "claims")


def read_tree(folder: Path) -> Tree:
    """Return relative path → content of every file; a symbolic link counts as its target's text."""
    if not folder.is_dir():
        return {}
    return {
        str(path.relative_to(folder)): str(path.readlink()).encode() if path.is_symlink() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def write_tree(folder: Path, tree: Mapping[str, bytes]) -> None:
    """Write files below a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in tree.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def copy_tree(source: Path, target: Path) -> Path:
    """Copy a folder with the modes of its files."""
    shutil.copytree(source, target, symlinks=True)
    return target


def without_times(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row without what differs between two undisturbed runs."""
    return {
        name: without_times(value) if isinstance(value, dict) else value
        for name, value in row.items()
        if name not in TIMES
    }


def rows_of(content: bytes) -> list[dict[str, Any]]:
    """Return the rows that can be read, wherever they are."""
    rows = []
    for line in content.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows


def lost(before: Tree, after: Tree, damaged: Collection[str] = (), last_row: int | None = None) -> str | None:
    """Return what was readable before and is missing now, or None.

    Args:
        before: the files after the fault, before the command.
        after: the files after the command.
        damaged: files that the fault damaged; their readable rows must stay, nothing else of them.
        last_row: the update up to which rows must stay (None: all), for a run that had begun to repeat the others.
    """
    for name, content in before.items():
        short = name.rsplit("/", 1)[-1]
        if short in ROWS:
            kept = {_identity(row) for row in rows_of(after.get(name, b""))}
            for row in rows_of(content):
                if _is_needed(row, last_row) and _identity(row) not in kept:
                    return f"{name}: row {json.dumps(row)[:80]} is gone"
        elif name in damaged or short in REWRITTEN or _is_generated(name):
            if short in REWRITTEN and name not in after:
                return f"{name} is gone"
        elif after.get(name) != content:
            return f"{name} is {'changed' if name in after else 'gone'}"
    return None


def _is_generated(name: str) -> bool:
    return name.rsplit("/", 1)[-1] in GENERATED or bool(set(name.split("/")) & set(GENERATED_FOLDERS))


def _is_needed(row: Mapping[str, Any], last_row: int | None) -> bool:
    update = row.get("update")
    return last_row is None or not isinstance(update, int) or update <= last_row


def _identity(row: Mapping[str, Any]) -> str:
    return json.dumps(without_times(row), sort_keys=True)
