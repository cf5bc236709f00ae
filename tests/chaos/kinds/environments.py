"""Environments that misbehave: one message that names the environment, rows kept, and a resume once they are fixed."""

from __future__ import annotations

import os
import random
from pathlib import Path

from chaos.arena import ON_POLICY, Arena, ReferenceRun
from chaos.commands import Result, child_environment, run_child, run_here
from chaos.faults import Finding, Verdict, kind
from chaos.faulty_envs import ENV_ID, TRIGGER
from chaos.judge import complaint, judge_resume, message_of, must_resume
from chaos.trees import read_tree, rows_of

HERE = ("raise", "raise-reset", "raise-init", "nan-reward", "inf-reward", "nan-observation", "shape", "dtype",
        "text-reward", "list-reward", "none-observation", "array-done", "few-values", "text-info",
        "recursion", "memory", "remove", "print")  # fmt: skip
CHILD = ("exit", "exit-init", "interrupt", "interrupt-reset", "base")
TIMEOUT = ("hang", "hang-reset")  # with --env-timeout 2
ISOLATED = ("segfault", "abort", "os-exit", "hang", "exit")  # with --isolate-env
HARMLESS = ("print", "text-info")  # may be accepted: the run ends as ever
TOTAL, LAST_RESET = 12 * 8, 80  # steps of one of the 4 environments, and a step that a reset follows


@kind("env", 40, short=5)
def misbehave_here(arena: Arena, rng: random.Random) -> Finding:
    return _misbehave(arena, rng, rng.choice(HERE), ())


@kind("envprocess", 24)
def misbehave_in_child(arena: Arena, rng: random.Random) -> Finding:
    group = rng.choice(["child", "timeout", "isolated"])
    fault = rng.choice({"child": CHILD, "timeout": TIMEOUT, "isolated": ISOLATED}[group])
    flags = {
        "child": (),
        "timeout": ("--env-timeout", "2"),
        "isolated": ("--isolate-env", "--env-timeout", "2"),
    }[group]
    return _misbehave(arena, rng, fault, flags, in_child=True)


def _misbehave(
    arena: Arena, rng: random.Random, name: str, flags: tuple[str, ...], *, in_child: bool = False
) -> Finding:
    at = rng.randrange(1, LAST_RESET if name.endswith("-reset") else TOTAL)
    with arena.scratch() as folder:
        reference = _undisturbed(folder, name, at, flags)
        run, trigger = folder / "run", folder / "trigger"
        trigger.touch()
        variables = {TRIGGER: str(trigger), f"{TRIGGER}_RUN": str(run)}
        command = reference.command(run)
        result = _run_with(command, variables, in_child)
        fault = f"environment, step {at}: {name} {' '.join(flags)}".strip()
        rows = rows_of((run / "metrics.jsonl").read_bytes()) if (run / "metrics.jsonl").exists() else []
        if problem := complaint(result) or _wrong_message(result, name):
            return Finding(Verdict.TRACEBACK, fault, problem)
        finished = max((at - 1) // 8, 0)
        if result.code != 0 and name != "remove" and not name.endswith("-init") and len(rows) < min(finished, 11):
            return Finding(Verdict.LOST, fault, f"{len(rows)} rows, but {finished} updates were done")
        if result.code == 0 and name not in HARMLESS:
            return Finding(Verdict.SILENT, fault, "exit code 0")
        trigger.unlink()
        before = read_tree(run)
        resumed = run_here(reference.command(run, "--resume"))
        finding = must_resume(judge_resume(reference.done, run, before, resumed, f"{fault}; fixed, resume"))
        if result.code != 0 and finding.verdict is Verdict.IDENTICAL:
            return Finding(Verdict.REFUSED, fault, message_of(result))
        return finding


def _undisturbed(folder: Path, name: str, at: int, flags: tuple[str, ...]) -> ReferenceRun:
    """Train with the same options and without the trigger."""
    options = ("--env", ENV_ID, "--env-kwargs", f"fault={name}", f"at={at}")
    reference = ReferenceRun("faulty", (*options, *ON_POLICY, *flags), folder)
    plain = ReferenceRun("faulty", (*options, *ON_POLICY), folder)
    result = run_here(plain.command(reference.done))
    if result.code != 0:
        raise RuntimeError(f"the undisturbed run failed: {result.err}{result.exception}")
    return reference


def _run_with(command: list[str], variables: dict[str, str], in_child: bool) -> Result:
    if in_child:
        return run_child(command, env=child_environment(**variables), timeout=60)
    os.environ.update(variables)
    try:
        return run_here(command)
    finally:
        for name in variables:
            del os.environ[name]


def _wrong_message(result: Result, name: str) -> str | None:
    """Return what is wrong with a message about an environment: it must name it, and be about it."""
    if result.code == 0 or name == "remove":
        return None
    if result.error.get("rule") == "flags" or "ChaosFaulty" not in result.err:
        return f"the message does not name the environment: {message_of(result)}"
    return None
