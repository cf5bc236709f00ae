"""`train` is stopped by SIGKILL, SIGTERM or SIGINT at a random file event or a random time; then resume."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

from chaos.arena import SCENARIOS, Arena, ReferenceRun
from chaos.commands import Result, finish, run_child, run_here, start
from chaos.faults import Finding, Verdict, kind
from chaos.judge import complaint, judge_resume, must_resume
from chaos.trees import read_tree

SIGNALS = ("SIGKILL", "SIGKILL", "SIGTERM", "SIGINT")
CODES = {"SIGKILL": (-9,), "SIGTERM": (143, -15), "SIGINT": (130, -2)}  # a shell shows −15 and −2 as 143 and 130
STARTUP = 0.3  # seconds after which Python itself is up


@kind("kill", 50, short=1)
def kill_training(arena: Arena, rng: random.Random) -> Finding:
    return _stop(arena, rng, "SIGKILL", at_event=rng.random() < 0.6)


@kind("signal", 60)
def interrupt_training(arena: Arena, rng: random.Random) -> Finding:
    """SIGINT and SIGTERM save the state, and the exit code and the JSON document say so, at any time."""
    return _stop(arena, rng, rng.choice(["SIGINT", "SIGTERM"]), at_event=rng.random() < 0.3)


def _stop(arena: Arena, rng: random.Random, name: str, *, at_event: bool) -> Finding:
    reference = arena.run(rng.choice(list(SCENARIOS)))
    with arena.scratch() as folder:
        run = folder / "run"
        if at_event:
            moment = rng.randrange(reference.events)
            launcher = ("chaos.child", str(moment), name, str(run))
            fault = f"{reference.scenario} run: {name} at file event {moment} of {reference.events}; resume"
            stopped = run_child(reference.command(run), launcher=launcher)
        else:
            fault, stopped = _stop_at_time(arena, reference, run, name, rng)
        problem = stop_problem(stopped, name)
        if problem is not None:
            return Finding(Verdict.TRACEBACK, fault, problem)
        before = read_tree(run)
        result = run_here(reference.command(run, "--resume"))
        return must_resume(judge_resume(reference.done, run, before, result, fault))


def _stop_at_time(
    arena: Arena, reference: ReferenceRun, run: Path, name: str, rng: random.Random
) -> tuple[str, Result]:
    """Send a signal at a random time of the seconds that the command takes here, from its start to its exit."""

    def measure() -> str:
        with arena.scratch() as folder:
            began = time.monotonic()
            run_child(reference.command(folder / "run"))
            return str(time.monotonic() - began)

    seconds = float(arena.answer(f"{reference.scenario}-seconds", measure))
    after = rng.uniform(STARTUP, seconds)
    process = start(reference.command(run))
    time.sleep(after)
    process.send_signal(signal.Signals[name])
    return f"{reference.scenario} run: {name} after {after:.3f} s; resume", finish(process)


def stop_problem(stopped: Result, name: str) -> str | None:
    """Return what is wrong with how a command reacted to a signal; it may have been done before."""
    return complaint(stopped, (0, *CODES[name]))
