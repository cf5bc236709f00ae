"""Output of commands: one JSON document, or formatted text."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.markup import escape

from rollshape.formatting import format_bytes
from rollshape.geometry.memory import Memory
from rollshape.geometry.plan import Plan
from rollshape.geometry.rules import Finding

_COLORS = {"error": "bold red", "warn": "yellow", "info": "cyan"}


def print_json(document: Any) -> None:
    """Print one JSON document; NaN values must have been replaced by null."""
    print(json.dumps(document, indent=2, allow_nan=False))


def console(*, to_stderr: bool = False) -> Console:
    """Return a console that neither highlights numbers nor wraps lines."""
    return Console(highlight=False, soft_wrap=True, stderr=to_stderr)


def show_plan(plan: Plan) -> None:
    """Print a plan: one line per size with its source, then the findings."""
    out = console()
    out.print("[bold]Batch configuration[/bold]")
    rows = list(_rows(plan))
    names, values = (max(len(row[i]) for row in rows) for i in (0, 1))
    for name, value, note in rows:
        out.print(f"  [dim]{name:<{names}}[/dim]  {value:>{values}}  {escape(note)}".rstrip())
    for note in plan.repaired:
        out.print(f"[green]repaired[/green] {escape(note)}")
    show_findings(plan.findings)


def show_findings(findings: Iterable[Finding], *, to_stderr: bool = False) -> None:
    """Print findings with their fixes."""
    out = console(to_stderr=to_stderr)
    for finding in findings:
        color = _COLORS[finding.severity]
        out.print(f"[{color}]{finding.severity:<5}[/] {escape(finding.message)} [dim]\\[{finding.rule}][/dim]")
        out.print(f"      [dim]{escape(finding.fix)}[/dim]")


def _rows(plan: Plan) -> Iterable[tuple[str, str, str]]:
    def note(name: str, text: str = "") -> str:
        return f"(default) {text}".strip() if name in plan.chosen else text

    yield "algo", plan.algo, ""
    yield "num_envs", f"{plan.num_envs:,}", note("num_envs")
    yield "num_steps", f"{plan.num_steps:,}", note("num_steps")
    agents = f" × {plan.num_agents:,} agents" if plan.num_agents > 1 else ""
    yield "rollout_size", f"{plan.rollout_size:,}", f"{plan.num_envs:,} × {plan.num_steps:,}{agents}"
    source = "" if plan.minibatch_source == "user" else f"({plan.minibatch_source}) "
    yield "minibatch_size", f"{plan.minibatch_size:,}", f"{source}{plan.minibatch_reason}"
    omitted = f"; {plan.dropped:,} samples omitted" if plan.dropped else ""
    yield "num_minibatches", f"{plan.num_minibatches:,}", f"per {'iteration' if plan.replay else 'epoch'}{omitted}"
    if plan.seq_length:
        sequences = plan.minibatch_size // plan.seq_length
        yield "seq_length", f"{plan.seq_length:,}", f"{sequences:,} sequences per minibatch"
    if plan.world_size > 1:
        yield "world_size", f"{plan.world_size:,}", "processes; gradients are averaged over all"
        for name, size in plan.per_rank.items():
            yield name, f"{size:,}", ""
    yield "num_epochs", f"{plan.num_epochs:,}", note("num_epochs")
    yield "sample_reuse", f"{plan.sample_reuse:.4g}", "uses of each sample, on average"
    if plan.replay:
        replay = plan.replay
        yield "steps_per_iteration", f"{replay.steps_per_iteration:,}", note("steps_per_iteration")
        yield "updates_per_step", f"{replay.updates_per_step:.4g}", "gradient steps per environment step"
        if replay.num_subsequences:
            yield "rrd_batch_size", f"{replay.rrd_batch_size:,}", note("rrd_batch_size", "timesteps")
            yield "rrd_sample_size", f"{replay.rrd_sample_size:,}", note("rrd_sample_size", "timesteps per subsequence")
            yield "num_subsequences", f"{replay.num_subsequences:,}", "rrd_batch_size / rrd_sample_size"
        yield "learning_starts", f"{replay.learning_starts:,}", note("learning_starts")
        yield "buffer_size", f"{replay.buffer_size:,}", note("buffer_size")
    yield from _budget_rows(plan)
    if plan.memory:
        yield from _memory_rows(plan.memory)


def _budget_rows(plan: Plan) -> Iterable[tuple[str, str, str]]:
    if plan.total_timesteps is None or plan.actual_timesteps is None:
        yield (
            "gradient_steps",
            f"{plan.num_epochs * plan.num_minibatches:,}",
            "per update; use --total-timesteps to set a budget",
        )
        return
    gap = plan.actual_timesteps - plan.total_timesteps
    yield "total_timesteps", f"{plan.total_timesteps:,}", "requested"
    yield (
        "actual_timesteps",
        f"{plan.actual_timesteps:,}",
        f"{gap:+,}: only whole rollouts are collected" if gap else "",
    )
    yield "num_updates", f"{plan.num_updates:,}", ""
    yield "gradient_steps", f"{plan.gradient_steps:,}", ""


def _memory_rows(memory: Memory) -> Iterable[tuple[str, str, str]]:
    known = "" if memory.observation_known else "without observations; use --env or --obs-shape"
    if memory.replay_bytes:
        yield "memory replay", format_bytes(memory.replay_bytes), known
    else:
        yield "memory rollout", format_bytes(memory.rollout_bytes), known
    yield "memory minibatch", format_bytes(memory.minibatch_bytes), ""
    if memory.env_bytes:
        yield "memory environments", format_bytes(memory.env_bytes), ""
    if memory.traffic_bytes:
        yield "memory traffic", format_bytes(memory.traffic_bytes), "transferred per iteration, not part of the peak"
    parts = {"Python and JAX": memory.program_bytes, "the compiler": memory.compiler_bytes}
    included = " and ".join(f"{format_bytes(size)} for {name}" for name, size in parts.items() if size)
    total = memory.machine_bytes
    note = f"including {included}" + (f"; this machine has {format_bytes(total)}" if total else "")
    yield "memory peak", format_bytes(memory.peak_bytes), note
