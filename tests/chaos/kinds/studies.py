"""Studies: killed or interrupted at random, with damaged files, removed while they run, in a hostile folder."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

from chaos.arena import Arena, ReferenceStudy
from chaos.commands import Result, finish, run_child, run_here, start
from chaos.faults import Finding, Verdict, kind
from chaos.judge import comparable, complaint, is_untouched, judge_reading, message_of, run_difference
from chaos.kinds.damage import change_value, damage_file, delete, fill_with_zeros, flip_bit, truncate
from chaos.kinds.kills import SIGNALS, stop_problem
from chaos.trees import copy_tree, lost, read_tree, rows_of, without_times

DAMAGES = (flip_bit, flip_bit, change_value, truncate, delete, fill_with_zeros)
LONGEST = 9.0  # seconds that a study takes


def study_difference(reference: Path, study: Path, *, parameters: bool = True) -> str | None:
    """Return how a finished study differs from the undisturbed one: runs, journaled results, probes."""
    trials = sorted(path.name for path in (reference / "trials").iterdir())
    ends, expected = _ends(study), _ends(reference)
    for trial in trials:
        if ends.get(trial) != expected[trial]:
            return f"the journal's result of {trial} is {ends.get(trial)} instead of {expected[trial]}"
        runs = (folder / "trials" / trial for folder in (reference, study))
        difference = run_difference(*runs, parameters=parameters)
        if difference is not None:
            return f"{trial}: {difference}"
    for probe in sorted((reference / "probes").glob("*/*.json")):
        other = study / probe.relative_to(reference)
        if not other.exists() or _probe(other) != _probe(probe):
            return f"{probe.relative_to(reference)} differs"
    return None


def _ends(study: Path) -> dict[str, list[Any]]:
    """Return trial → its final results in the journal, of which there should be one."""
    ends: dict[str, list[Any]] = {}
    for event in rows_of((study / "journal.jsonl").read_bytes()):
        if event.get("event") == "end" and event.get("state") == "done":
            ends.setdefault(event["trial"], []).append(without_times(event)["summary"])
    return ends


def _probe(path: Path) -> str:
    try:
        return comparable(json.loads(path.read_bytes()))
    except ValueError:
        return "not readable"


def judge_study(reference: ReferenceStudy, out: Path, before: dict[str, bytes], result: Result, fault: str,
                damaged: tuple[str, ...] = ()) -> Finding:  # fmt: skip
    """Judge a study that was run again: the end of the reference, or a message and nothing lost."""
    problem = complaint(result)
    if problem is not None and not _has_failed_trials(result):
        return Finding(Verdict.TRACEBACK, fault, problem)
    if result.code == 0:
        difference = study_difference(reference.done, out, parameters=not is_untouched(damaged, before, read_tree(out)))
        return Finding(Verdict.SILENT if difference else Verdict.IDENTICAL, fault, difference or "")
    missing = lost(before, read_tree(out), damaged)
    return Finding(Verdict.LOST if missing else Verdict.REFUSED, fault, missing or _reason(result))


def _has_failed_trials(result: Result) -> bool:
    """Return whether a study ended with exit code 1 and the reasons of its failed trials in the document."""
    return result.code == 1 and "Traceback" not in result.err and bool(_failed(result))


def _failed(result: Result) -> list[str]:
    document = result.document
    trials = document.get("trials", []) if isinstance(document, dict) else []
    return [trial["reason"] for trial in trials if trial["state"] == "failed" and trial["reason"]]


def _reason(result: Result) -> str:
    failed = _failed(result)
    return f"failed trial: {failed[0]}" if failed else message_of(result)


@kind("studykill", 16)
def stop_study(arena: Arena, rng: random.Random) -> Finding:
    """Stop the study, or one of its workers, and run it again."""
    import psutil

    reference, name, after = arena.study(), rng.choice(SIGNALS), rng.uniform(0.3, LONGEST)
    is_worker = rng.random() < 0.3
    with arena.scratch() as folder:
        out = folder / "study"
        process = start(reference.command(out))
        time.sleep(after)
        fault = f"study: {'a worker gets SIGKILL' if is_worker else name} after {after:.2f} s; run again"
        with contextlib.suppress(psutil.NoSuchProcess, IndexError):
            if is_worker:
                rng.choice(psutil.Process(process.pid).children()).kill()
            else:
                process.send_signal(signal.Signals[name])
        stopped = finish(process)
        problem = complaint(stopped, (0, 1)) if is_worker else stop_problem(stopped, name)
        if problem is not None:
            return Finding(Verdict.TRACEBACK, fault, problem)
        before = read_tree(out)
        return judge_study(reference, out, before, run_child(reference.command(out)), fault)


@kind("studydamage", 60)
def damage_study(arena: Arena, rng: random.Random) -> Finding:
    """Damage a file of a finished study (one in three: without the end of a trial), then run it again or report."""
    is_probed = rng.random() < 0.5
    reference, damage = arena.study(probed=is_probed), rng.choice(DAMAGES)
    command = rng.choice(["study", "study", "report", "diagnose"])
    with arena.scratch() as folder:
        out = copy_tree(reference.done, folder / "study")
        _remove_generated(out)
        is_open = command == "study" and not is_probed and rng.random() < 0.5
        if is_open:
            _forget_end(out, rng)
        name, done = damage_file(out, damage, rng)
        before = read_tree(out)
        state = "one trial not journaled as done" if is_open else "finished"
        fault = f"{'probed ' if is_probed else ''}study, {state}: {name} {done}; {command}"
        if command == "study":
            return judge_study(reference, out, before, run_here(reference.command(out)), fault, (name,))
        with contextlib.chdir(folder):
            result = run_here([command, "study", "--json"])
        return judge_reading([_answer(arena, reference, command)], out, before, result, fault)


def _remove_generated(out: Path) -> None:
    shutil.rmtree(out / "report", ignore_errors=True)
    for name in ("report.html", "report.md"):
        (out / name).unlink(missing_ok=True)


def _forget_end(out: Path, rng: random.Random) -> None:
    journal = out / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    ends = [i for i, line in enumerate(lines) if b'"event": "end"' in line]
    del lines[rng.choice(ends)]
    journal.write_bytes(b"".join(lines))


def _answer(arena: Arena, reference: ReferenceStudy, command: str) -> str:
    def answer() -> str:
        with arena.scratch() as folder, contextlib.chdir(folder):
            copy_tree(reference.done, folder / "study")
            _remove_generated(folder / "study")
            return comparable(run_here([command, "study", "--json"]).document)

    return arena.answer(f"{reference.folder.name}-{command}", answer)


@kind("studyremoved", 4)
def remove_study(arena: Arena, rng: random.Random) -> Finding:
    """Remove the folder of a running study: one message, no traceback."""
    reference, after = arena.study(), rng.uniform(1.5, LONGEST)
    with arena.scratch() as folder:
        out = folder / "study"
        process = start(reference.command(out))
        time.sleep(after)
        shutil.rmtree(out, ignore_errors=True)
        result = finish(process)
        fault = f"study: its folder removed after {after:.2f} s"
        problem = complaint(result)
        if problem is not None and not _has_failed_trials(result):
            return Finding(Verdict.TRACEBACK, fault, problem)
        if result.code == 0 and not out.exists():
            return Finding(Verdict.SILENT, fault, "exit code 0, but there is no study")
        return Finding(Verdict.REFUSED if result.code else Verdict.IDENTICAL, fault, _reason(result))


@kind("hostilefolder", 4)
def hostile_folder(arena: Arena, rng: random.Random) -> Finding:
    """Modules in the current folder have the names of ours: nothing may run them."""
    reference, name = arena.study(), rng.choice(["jax", "json", "rollshape", "equinox", "numpy"])
    with arena.scratch() as folder:
        marker = folder / "was-run"
        (folder / f"{name}.py").write_text(f"open({str(marker)!r}, 'w').close()\nraise SystemExit(3)\n")
        result = run_child(reference.command(folder / "study"), cwd=folder)
        fault = f"study in a folder with {name}.py"
        if marker.exists():
            return Finding(Verdict.SILENT, fault, f"{name}.py was run")
        return judge_study(reference, folder / "study", {}, result, fault)
