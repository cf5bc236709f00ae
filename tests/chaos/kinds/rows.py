"""Rows of metrics.jsonl that are torn, missing, duplicated, out of order, foreign or of wrong types; then resume."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

from chaos.arena import SCENARIOS, Arena
from chaos.commands import run_here
from chaos.faults import Finding, kind
from chaos.judge import judge_reading, judge_resume
from chaos.kinds.damage import is_uncovered, read_run
from chaos.trees import copy_tree, read_tree

Lines = list[bytes]
WRONG = (b"[]", b"3", b"null", b'"text"', b"{}", b'{"update": "one"}', b'{"update": null}', b'{"update": 1.5}', b"true",
         b'{"update": -1}', b'{"update": 99999999999999999999}', b"NaN", b"\xff\xfe", b"\xef\xbb\xbf{}")  # fmt: skip


def tear_last(lines: Lines, rng: random.Random) -> str:
    last = lines[-1]
    lines[-1] = last[: rng.randrange(1, len(last))]
    return "the last row torn"


def tear_one(lines: Lines, rng: random.Random) -> str:
    i = rng.randrange(len(lines) - 1)
    lines[i] = lines[i][: rng.randrange(1, len(lines[i]) - 1)] + rng.choice([b"\n", b""])
    return f"row {i + 1} torn"


def remove(lines: Lines, rng: random.Random) -> str:
    first = rng.randrange(len(lines))
    last = rng.randrange(first, min(len(lines), first + 3)) + 1
    del lines[first:last]
    return f"rows {first + 1}…{last} removed"


def duplicate(lines: Lines, rng: random.Random) -> str:
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines) + 1)
    lines.insert(j, lines[i])
    return f"row {i + 1} duplicated at line {j + 1}"


def swap(lines: Lines, rng: random.Random) -> str:
    i, j = rng.sample(range(len(lines)), 2)
    lines[i], lines[j] = lines[j], lines[i]
    return f"rows {i + 1} and {j + 1} swapped"


def insert_wrong(lines: Lines, rng: random.Random) -> str:
    i, row = rng.randrange(len(lines) + 1), rng.choice(WRONG)
    lines.insert(i, row + b"\n")
    return f"{row!r} inserted at line {i + 1}"


def replace_wrong(lines: Lines, rng: random.Random) -> str:
    i, row = rng.randrange(len(lines)), rng.choice(WRONG)
    lines[i] = row + b"\n"
    return f"row {i + 1} replaced by {row!r}"


def change_value(lines: Lines, rng: random.Random) -> str:
    """Change one value, as a flipped bit in a digit does, or to a wrong type."""
    i = rng.randrange(len(lines))
    row = json.loads(lines[i])
    name = rng.choice(["update", "timesteps", "episodic_return", "policy_loss", "eval_return"])
    row[name] = rng.choice([0, 7, -1, 1e300, "text", None, [], {}, True])
    lines[i] = json.dumps(row).encode() + b"\n"
    return f"{name} of row {i + 1} set to {row[name]!r}"


EDITS: tuple[Callable[[Lines, random.Random], str], ...] = (
    tear_last, tear_one, remove, duplicate, swap, insert_wrong, replace_wrong, change_value,
)  # fmt: skip


@kind("rows", 80, short=8)
def edit_rows(arena: Arena, rng: random.Random) -> Finding:
    reference, state = arena.run(rng.choice(list(SCENARIOS))), rng.choice(["half", "half", "done"])
    edit, command = rng.choice(EDITS), rng.choice(["resume", "resume", "resume", "report", "diagnose"])
    with arena.scratch() as folder:
        run = copy_tree(getattr(reference, state), folder / "run")
        done = _write(run, edit, rng)
        command = "resume" if is_uncovered(reference, state, run) else command
        fault = f"{reference.scenario} run, {state}: {done}; {command}"
        before = read_tree(run)
        if command == "resume":
            result = run_here(reference.command(run, "--resume"))
            return judge_resume(reference.done, run, before, result, fault)
        expected, result = read_run(arena, reference, state, run, command)
        return judge_reading([expected], run, before, result, fault)


def _write(run: Path, edit: Callable[[Lines, random.Random], str], rng: random.Random) -> str:
    metrics = run / "metrics.jsonl"
    lines = metrics.read_bytes().splitlines(keepends=True)
    done = edit(lines, rng)
    metrics.write_bytes(b"".join(lines))
    return done
