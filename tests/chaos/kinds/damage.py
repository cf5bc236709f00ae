"""Damaged files: a flipped bit, a truncated, deleted or zeroed file of a run, then a command that reads it."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from chaos.arena import COVERED, SCENARIOS, Arena, ReferenceRun
from chaos.commands import Result, run_here
from chaos.faults import Finding, kind
from chaos.judge import comparable, judge_reading, judge_resume
from chaos.trees import copy_tree, read_tree

TEXTS = (".json", ".jsonl")
Damage = Callable[[Path, random.Random], str]
READERS: dict[str, tuple[str, ...]] = {
    "eval": ("--episodes", "4"),
    "probe": ("--parts", "none", "--num-batches", "3", "--num-envs", "32", "--no-figures"),
    "report": (),
    "diagnose": (),
    "reproduce": (),
}


def flip_bit(path: Path, rng: random.Random) -> str:
    content = bytearray(path.read_bytes())
    if not content:
        return "left empty"
    position, bit = rng.randrange(len(content)), rng.randrange(8)
    digits = [i for i, byte in enumerate(content) if byte in b"0123456789"] if path.suffix in TEXTS else []
    if digits and rng.random() < 0.5:
        position, bit = rng.choice(digits), 0  # another digit: the file can still be read
    content[position] ^= 1 << bit
    path.write_bytes(content)
    return f"bit {bit} of byte {position:,} of {len(content):,} flipped"


def truncate(path: Path, rng: random.Random) -> str:
    content = path.read_bytes()
    length = rng.choice([0, len(content) - 1, rng.randrange(len(content) or 1)])
    path.write_bytes(content[: max(length, 0)])
    return f"truncated to {max(length, 0):,} of {len(content):,} bytes"


def delete(path: Path, _: random.Random) -> str:
    path.unlink()
    return "deleted"


def fill_with_zeros(path: Path, rng: random.Random) -> str:
    """Zero a range, as a file system does with blocks that never reached the disk."""
    content = bytearray(path.read_bytes())
    first = rng.choice([0, rng.randrange(len(content) or 1)])
    last = rng.choice([len(content), min(len(content), first + rng.randrange(1, 513))])
    content[first:last] = bytes(last - first)
    path.write_bytes(content)
    return f"bytes {first:,}…{last:,} of {len(content):,} zeroed"


def change_value(path: Path, rng: random.Random) -> str:
    """Change one value of a JSON file, or of a line of it, to another of its type: only a checksum can notice."""
    lines = path.read_text().splitlines(keepends=True) if path.suffix == ".jsonl" else [path.read_text()]
    i = rng.randrange(len(lines))
    document = json.loads(lines[i])
    *parents, last = rng.choice([keys for keys in _leaves(document) if "sha256" not in map(str, keys)])
    level = document
    for key in parents:
        level = level[key]
    before = level[last]
    level[last] = _other(before, rng)
    lines[i] = json.dumps(document, indent=None if path.suffix == ".jsonl" else 2) + "\n" * lines[i].endswith("\n")
    path.write_text("".join(lines))
    return f"{'.'.join(map(str, [*parents, last]))} changed from {before!r} to {level[last]!r}"


def _leaves(document: Any, keys: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(document, (dict, list)) and document:
        for key, value in document.items() if isinstance(document, dict) else enumerate(document):
            yield from _leaves(value, (*keys, key))
    elif keys:
        yield keys


def _other(value: Any, rng: random.Random) -> Any:
    match value:
        case bool():
            return not value
        case int():
            return value + rng.choice([-1, 1, 8])
        case float():
            return value * rng.choice([0.5, 1.0000001, 2.0])
        case str():
            return value + rng.choice(["x", "1"])
    return rng.choice([1, "x", [1]])


def damage_file(folder: Path, damage: Damage, rng: random.Random) -> tuple[str, str]:
    """Damage a random file below a folder; return its name and what was done."""
    names = sorted(read_tree(folder))
    checkpoints = [name for name in names if "checkpoints/" in name]
    used = ["run.json", "metrics.jsonl", *checkpoints[-1:]]  # what a resume reads
    if damage is change_value:
        name = rng.choice([name for name in names if name.endswith(TEXTS)])
    else:
        name = rng.choice(used if rng.random() < 0.6 and set(used) <= set(names) else names)
    path = folder / name
    path.chmod(0o644)
    return name, damage(path, rng)


def is_uncovered(reference: ReferenceRun, state: str, run: Path) -> bool:
    """Return whether only rows after the last checkpoint changed: no checksum covers them, a resume repeats them."""
    metrics = run / "metrics.jsonl"
    if state != "half" or not metrics.exists():
        return False
    whole, now = (reference.half / "metrics.jsonl").read_bytes(), metrics.read_bytes()
    covered = b"".join(whole.splitlines(keepends=True)[:COVERED])
    return now != whole and now.startswith(covered)


def read_run(arena: Arena, reference: ReferenceRun, state: str, run: Path, command: str) -> tuple[str, Result]:
    """Run a reading command; return its document on the undamaged run, and its result on this one.

    Both see the folder under the same relative name, so that paths in their output are equal. A command that names
    another update (the newest checkpoint may be gone) is compared with the undamaged run at that update.
    """
    flags = (str(run.name), *READERS[command], "--json")
    with contextlib.chdir(run.parent):
        result = run_here([command, *flags])

    def answer(*more: str) -> str:
        with arena.scratch() as folder, contextlib.chdir(folder):
            copy_tree(getattr(reference, state), folder / run.name)
            return comparable(run_here([command, *flags, *more]).document)

    name = f"{reference.scenario}-{state}-{command}"
    expected = arena.answer(name, answer)
    update, usual = (_update(document) for document in (result.document, json.loads(expected)))
    if update is not None and update != usual:
        expected = arena.answer(f"{name}-{update}", lambda: answer("--checkpoint", str(update)))
    return expected, result


def _update(document: Any) -> int | None:
    return document.get("update") if isinstance(document, dict) else None


def _inject(arena: Arena, rng: random.Random, damage: Damage) -> Finding:
    reference, state = arena.run(rng.choice(list(SCENARIOS))), rng.choice(["half", "half", "done"])
    command = rng.choice(["resume"] * 6 + [name for name in READERS for _ in range(1 if name == "probe" else 2)])
    if command == "probe" and reference.scenario in ("sac", "rrd"):
        command = "eval"  # a probe of SAC does not exist, that of RRD takes long
    with arena.scratch() as folder:
        run = copy_tree(getattr(reference, state), folder / "run")
        name, done = damage_file(run, damage, rng)
        before = read_tree(run)
        command = "resume" if is_uncovered(reference, state, run) else command
        fault = f"{reference.scenario} run, {state}: {name} {done}; {command}"
        if command == "resume":
            result = run_here(reference.command(run, "--resume"))
            return judge_resume(reference.done, run, before, result, fault, damaged=[name])
        expected, result = read_run(arena, reference, state, run, command)
        return judge_reading([expected], run, before, result, fault)


@kind("bitflip", 120, short=8)
def bitflip(arena: Arena, rng: random.Random) -> Finding:
    return _inject(arena, rng, flip_bit)


@kind("value", 60, short=4)
def changed(arena: Arena, rng: random.Random) -> Finding:
    return _inject(arena, rng, change_value)


@kind("truncate", 40, short=3)
def truncated(arena: Arena, rng: random.Random) -> Finding:
    return _inject(arena, rng, truncate)


@kind("delete", 30, short=2)
def deleted(arena: Arena, rng: random.Random) -> Finding:
    return _inject(arena, rng, delete)


@kind("zero", 40, short=3)
def zeroed(arena: Arena, rng: random.Random) -> Finding:
    return _inject(arena, rng, fill_with_zeros)
