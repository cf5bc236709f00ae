"""Hostile values through the command line and Python: a message before anything is written, or a legal result."""

from __future__ import annotations

import contextlib
import random
import traceback
from dataclasses import fields
from typing import Any

from chaos import hostile
from chaos.arena import SCENARIOS, STUDY, Arena
from chaos.commands import run_here
from chaos.faults import Finding, Verdict, kind
from chaos.judge import complaint, message_of
from chaos.trees import read_tree

# A large budget is legal and endless.
ENDLESS = ("total_timesteps",)
LEGAL_BUT_LONG = ("4294967296", "9223372036854775808", "18446744073709551616", "1e30", "1e308")
LONG = ("total_timesteps", "num_epochs", "train_batches", "env")  # with 2³¹ legal and endless, or another run
TINY = {
    "env": "CartPole-v1",
    "num_envs": 4,
    "num_steps": 8,
    "num_epochs": 1,
    "total_timesteps": 64,
    "hidden_sizes": (8,),
}
OPEN = ("plan", "train", "probe")  # take any keyword, and check it themselves
UNKNOWN = ("num_env", "batch_size", "", "нет", "__class__", "self", "request", "spec")


@kind("flags", 80, short=6)
def hostile_flags(arena: Arena, rng: random.Random) -> Finding:
    """One or two flags of a command get hostile values."""
    from rollshape.cli.eval import EvalArgs
    from rollshape.cli.plan import PlanArgs
    from rollshape.cli.probe import ProbeArgs
    from rollshape.cli.train import TrainArgs

    command = rng.choice(["train", "train", "plan", "plan", "eval", "probe"])
    arguments: Any = {"train": TrainArgs, "plan": PlanArgs, "eval": EvalArgs, "probe": ProbeArgs}[command]
    names = [
        field.name for field in fields(arguments) if field.name not in ("json", "out", "resume", "run_dir", "help")
    ]
    with arena.scratch() as folder:
        run = folder / "run"
        base = {
            "train": ["train", *SCENARIOS["functional"], "--out", str(run)],
            "plan": ["plan"],
            "eval": ["eval", str(arena.run("functional").done)],
            "probe": ["probe", str(arena.run("functional").done), "--no-figures", "--parts", "none"],
        }[command]
        given = [_flag(name, _text(rng, name)) for name in rng.sample(names, rng.choice([1, 1, 2]))]
        argv = [*base, *(part for pair in given for part in pair), "--json"]
        fault = f"{command} {' '.join(repr(part)[:60] for pair in given for part in pair)}"
        result = run_here(argv)
        if problem := complaint(result):
            return Finding(Verdict.TRACEBACK, fault, problem)
        if result.code == 2 and command == "train" and (read_tree(run) or run.exists()):
            return Finding(Verdict.LOST, fault, f"exit code 2, but the directory was made: {message_of(result)}")
        if result.code != 0:
            return Finding(Verdict.REFUSED, fault, message_of(result))
        return Finding(Verdict.IDENTICAL, fault, "accepted")


def _flag(name: str, text: str) -> tuple[str, ...]:
    return (f"--{name.rstrip('_').replace('_', '-')}", text)


def _text(rng: random.Random, name: str) -> str:
    text = hostile.text(rng)
    return "-1" if name in ENDLESS and text in LEGAL_BUT_LONG else text


@kind("out", 12, short=2)
def hostile_out(arena: Arena, rng: random.Random) -> Finding:
    """Directories that cannot be meant: an empty name, a file, a device, a name that is too long."""
    reference = arena.run("functional")
    with arena.scratch() as folder, contextlib.chdir(folder):
        (folder / "file").write_bytes(b"precious")
        (folder / "study.yaml").write_text(STUDY)
        outs = ["", "/dev/null", "/proc/x", "file", "file/x", "x" * 300, "/dev/full"]
        out, command = rng.choice(outs), rng.choice(["train", "resume", "study", "report", "eval"])
        argv = {
            "train": ["train", *reference.flags, "--out", out, "--json"],
            "resume": ["train", *reference.flags, "--out", out, "--resume", "--json"],
            "study": ["study", str(folder / "study.yaml"), "--out", out, "--json"],
            "report": ["report", out, "--json"],
            "eval": ["eval", out, "--json"],
        }[command]
        result = run_here(argv)
        fault = f"{command} with the directory {out[:40]!r}"
        if problem := complaint(result):
            return Finding(Verdict.TRACEBACK, fault, problem)
        if (folder / "file").read_bytes() != b"precious":
            return Finding(Verdict.LOST, fault, "the user's file has changed")
        if result.code == 0:
            return Finding(Verdict.SILENT, fault, "accepted")
        return Finding(Verdict.REFUSED, fault, message_of(result))


@kind("python", 300, short=40)
def hostile_calls(arena: Arena, rng: random.Random) -> Finding:
    """A call of the Python API gets hostile arguments: a result that is legal, or our error."""
    import rollshape

    call = rng.choice(["plan", "plan", "plan", "train", "translate", "fit_config", "probe"])
    with arena.scratch() as folder:
        arguments, keywords = _arguments(call, rng, arena, folder)
        changes = {
            name: value for name, value in keywords.items() if name != "out" and TINY.get(name, keywords) is not value
        }
        fault = f"rollshape.{call}({', '.join(map(_brief, [*arguments, changes]))})"
        try:
            result = getattr(rollshape, call)(*arguments, **keywords)
        except rollshape.RequestError as error:
            made = (folder / "run").exists()
            return Finding(
                Verdict.LOST if made else Verdict.REFUSED, fault, f"{'a directory was made; ' * made}{error}"[:300]
            )
        except rollshape.RunError as error:
            return Finding(Verdict.REFUSED, fault, str(error)[:300])
        except BaseException as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            return Finding(
                Verdict.TRACEBACK, fault, f"{type(error).__name__}: {str(error)[:200]} ({last.filename}:{last.lineno})"
            )
        if call == "plan" and (problem := _illegal(result)):
            return Finding(Verdict.SILENT, fault, problem)
        return Finding(Verdict.IDENTICAL, fault, "accepted")


def _arguments(call: str, rng: random.Random, arena: Arena, folder: Any) -> tuple[list[Any], dict[str, Any]]:
    from rollshape.geometry.dialects import NAMES
    from rollshape.geometry.request import Request
    from rollshape.training.spec import Spec

    def keywords(names: list[str]) -> dict[str, Any]:
        chosen = rng.sample(names, min(len(names), rng.choice([1, 1, 2, 3])))
        return {name: hostile.value(rng) for name in chosen}

    unknown = {rng.choice(UNKNOWN): hostile.value(rng)} if rng.random() < 0.1 and call in OPEN else {}
    match call:
        case "plan":
            given = [hostile.value(rng)] if rng.random() < 0.05 else []
            return given, {**keywords([field.name for field in fields(Request)]), **unknown}
        case "train":
            names = [field.name for field in fields(Spec) if field.name not in LONG] + ["track", "keep_checkpoints"]
            return [], {**TINY, "out": folder / "run", **keywords(names), **unknown}
        case "translate":
            config = hostile.value(rng) if rng.random() < 0.3 else {"n_envs": 8, "n_steps": hostile.value(rng)}
            source, target = (hostile.value(rng) if rng.random() < 0.2 else rng.choice(NAMES) for _ in range(2))
            return [config, source, target], {
                **(keywords(["num_envs", "key", "strict"]) if rng.random() < 0.5 else {}),
                **unknown,
            }
        case "fit_config":
            config = (
                hostile.value(rng)
                if rng.random() < 0.3
                else {"n_envs": 8, "n_steps": 128, "batch_size": hostile.value(rng)}
            )
            dialect = hostile.value(rng) if rng.random() < 0.2 else rng.choice(NAMES)
            return [config, dialect], {**(keywords(["num_envs", "key"]) if rng.random() < 0.5 else {})}
        case _:
            run = hostile.value(rng) if rng.random() < 0.3 else arena.run("functional").done
            names = ["checkpoint", "rollout_size", "num_batches", "start", "horizon", "num_envs", "seed", "parts"]
            return [run], {"parts": "none", "num_batches": 3, "num_envs": 32, **keywords(names), **unknown}


def _brief(value: Any) -> str:
    try:
        return repr(value)[:120]
    except Exception as error:  # an integer of more than 4,300 digits, for example
        return f"<{type(value).__name__}: {type(error).__name__}>"


def _illegal(plan: Any) -> str | None:
    """Return what is wrong with a plan that was accepted."""
    if plan.replay is not None:
        return None
    if plan.num_envs * plan.num_steps != plan.rollout_size or min(plan.num_envs, plan.num_steps) < 1:
        return f"{plan.num_envs} × {plan.num_steps} ≠ {plan.rollout_size}"
    if not 1 <= plan.minibatch_size <= plan.rollout_size:
        return f"minibatches of {plan.minibatch_size} in a rollout of {plan.rollout_size}"
    if plan.minibatch_size * plan.num_minibatches + plan.dropped != plan.rollout_size and plan.dropped:
        return f"{plan.num_minibatches} × {plan.minibatch_size} + {plan.dropped} ≠ {plan.rollout_size}"
    return None
