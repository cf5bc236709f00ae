"""Two owners of one directory: two `train`, `--resume` beside a live run, a reader beside it, two studies."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from chaos.arena import SCENARIOS, Arena
from chaos.commands import finish, kill_session, run_child, run_here, start
from chaos.faults import Finding, Verdict, kind
from chaos.judge import complaint, message_of, run_difference
from chaos.trees import read_tree

WAIT = 60.0


@contextlib.contextmanager
def paused_training(command: list[str], run: Path, rows: int) -> Iterator[subprocess.Popen[str]]:
    """Start a run and stop its process (SIGSTOP) once it has so many rows: it lives, and is not done."""
    process = start(command, launcher=("chaos.child", str(10 + 3 * rows), "SIGSTOP", str(run)))
    try:
        until = time.monotonic() + WAIT
        while _state(process.pid) != "T" and process.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        yield process
    finally:
        kill_session(process)
        process.communicate()


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return ""


@kind("owner", 20, short=1)
def second_owner(arena: Arena, rng: random.Random) -> Finding:
    """A command in the directory of a live run must refuse or leave it alone, and the live run must end as ever."""
    reference = arena.run(rng.choice(list(SCENARIOS)))
    other = rng.choice(["train", "resume", "resume", "eval", "report"])
    with arena.scratch() as folder:
        run = folder / "run"
        commands = {
            "train": reference.command(run),
            "resume": reference.command(run, "--resume"),
            "eval": ["eval", str(run), "--episodes", "2", "--json"],
            "report": ["report", str(run), "--json"],
        }
        with paused_training(reference.command(run), run, rng.randrange(1, 9)) as owner:
            fault = f"{reference.scenario} run: {other} beside the live run"
            if owner.poll() is not None:
                return Finding(Verdict.TRACEBACK, fault, "the first process ended before it could be stopped")
            before = read_tree(run)
            second = run_here(commands[other])
            after = read_tree(run)
            owner.send_signal(signal.SIGCONT)
            first = finish(owner)
        if problem := complaint(second) or complaint(first):
            return Finding(Verdict.TRACEBACK, fault, problem)
        if other in ("train", "resume") and second.code == 0:
            return Finding(Verdict.SILENT, fault, "the second owner was let in")
        if changed := [name for name in before if after.get(name) != before[name]]:
            return Finding(Verdict.LOST, fault, f"the second owner changed {changed}")
        if other == "resume" and str(owner.pid) not in second.err:
            return Finding(Verdict.TRACEBACK, fault, f"the message does not name the owner: {message_of(second)}")
        if first.code != 0 or (difference := run_difference(reference.done, run)):
            return Finding(Verdict.SILENT, fault, difference if first.code == 0 else message_of(first))
        refused = second.code != 0
        return Finding(Verdict.REFUSED if refused else Verdict.IDENTICAL, fault, message_of(second) if refused else "")


@kind("race", 8)
def two_starts(arena: Arena, rng: random.Random) -> Finding:
    """Two `train` start at the same time in one directory: one ends as ever, the other is refused."""
    reference = arena.run(rng.choice(["functional", "host"]))
    with arena.scratch() as folder:
        run = folder / "run"
        flags = rng.choice([(), ("--resume",)])
        fault = f"{reference.scenario} run: two `train {' '.join(flags)}` at once"
        processes = []
        for _ in range(2):
            processes.append(start(reference.command(run, *flags)))
            time.sleep(rng.choice([0.0, 0.0, 0.1, 1.0]))
        results = [finish(process) for process in processes]
        for result in results:
            if problem := complaint(result):
                return Finding(Verdict.TRACEBACK, fault, problem)
        if all(result.code != 0 for result in results):
            return Finding(Verdict.LOST, fault, f"both were refused: {message_of(results[0])}")
        difference = run_difference(reference.done, run)
        if difference is not None:
            return Finding(Verdict.SILENT, fault, difference)
        refused = [result for result in results if result.code != 0]
        return Finding(
            Verdict.REFUSED if refused else Verdict.IDENTICAL, fault, message_of(refused[0]) if refused else ""
        )


@kind("studyowner", 4)
def two_studies(arena: Arena, rng: random.Random) -> Finding:
    """Two processes run one study: together they end as one, no trial twice."""
    from chaos.kinds.studies import study_difference

    reference = arena.study()
    with arena.scratch() as folder:
        out = folder / "study"
        first = start(reference.command(out))
        time.sleep(rng.uniform(0.0, 6.0))
        second = run_child(reference.command(out))
        results = [finish(first), second]
        fault = "two processes run one study"
        for result in results:
            if problem := complaint(result):
                return Finding(Verdict.TRACEBACK, fault, problem)
        if difference := study_difference(reference.done, out):
            return Finding(Verdict.SILENT, fault, difference)
        return Finding(Verdict.IDENTICAL, fault)
