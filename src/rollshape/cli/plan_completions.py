"""`rollshape plan --algo grpo`: the batch of a language model trainer, also as the config of each library."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

from rollshape.cli.flags import CommonArgs, parse
from rollshape.geometry.completion_plan import CompletionRequest, plan_completions
from rollshape.geometry.plan import Plan

_GPUS = re.compile(r"^--gpus(?==|$)")  # the name that users know


@dataclass(frozen=True, kw_only=True)
class PlanCompletionsArgs(CompletionRequest, CommonArgs):
    """Compute all batch sizes of a language model trainer from any subset of them (GRPO, RLOO)."""


def run(argv: Sequence[str]) -> None:
    args = parse(PlanCompletionsArgs, "plan", [_GPUS.sub("--world-size", token) for token in argv])
    result = plan_completions(**{field.name: getattr(args, field.name) for field in fields(CompletionRequest)})
    configs = _configs(result)
    from rollshape.cli.output import console, print_json, show_findings

    if args.json:
        print_json(result.to_dict() | {"configs": configs})
        return
    out = console()
    out.print("[bold]Batch configuration[/bold]")
    rows = list(_rows(result))
    widths = [max(len(row[i]) for row in rows) for i in (0, 1)]
    for name, value, note in rows:
        out.print(f"  [dim]{name:<{widths[0]}}[/dim]  {value:>{widths[1]}}  {note}".rstrip())
    for note in result.repaired:
        out.print(f"[green]repaired[/green] {note}", markup=True)
    for name, config in configs.items():
        sizes = " ".join(f"{key}={value}" for key, value in config.items())
        out.print(f"[bold]{name}[/bold] {sizes}")
    show_findings(result.findings)


def _configs(plan: Plan) -> dict[str, dict[str, Any]]:
    """Return the sizes of the plan in the keys of each library that can express them."""
    from rollshape.geometry.dialects.language import size_config
    from rollshape.geometry.dialects.registry import LANGUAGE_DIALECTS

    configs = {dialect.name: size_config(dialect, plan) for dialect in LANGUAGE_DIALECTS.values()}
    return {name: config for name, config in configs.items() if config}


def _rows(plan: Plan) -> Iterator[tuple[str, str, str]]:
    def note(name: str, text: str) -> str:
        return f"(default) {text}" if name in plan.chosen else text

    sizes = plan.completions
    assert sizes is not None
    yield "algo", plan.algo, ""
    yield "num_prompts", f"{sizes.num_prompts:,}", note("num_prompts", "per update")
    yield "num_generations", f"{sizes.num_generations:,}", note("num_generations", "completions per prompt")
    yield "rollout_size", f"{plan.rollout_size:,}", "completions per update = num_prompts × num_generations"
    yield "minibatch_size", f"{plan.minibatch_size:,}", note("minibatch_size", "completions per optimizer step")
    yield "num_minibatches", f"{plan.num_minibatches:,}", "optimizer steps per epoch"
    yield "world_size", f"{plan.world_size:,}", "data-parallel GPUs"
    yield "microbatch_size", f"{sizes.microbatch_size:,}", note("microbatch_size", "completions per GPU and pass")
    yield "gradient_accumulation_steps", f"{sizes.gradient_accumulation_steps:,}", "micro-batches per optimizer step"
    yield "num_epochs", f"{plan.num_epochs:,}", "passes over the completions of an update"
    yield "gradient_steps_per_update", f"{plan.gradient_steps_per_update:,}", "num_epochs × num_minibatches"
    if plan.num_updates is not None:
        yield "num_updates", f"{plan.num_updates:,}", ""
        yield "gradient_steps", f"{plan.gradient_steps:,}", "optimizer steps in total"
        yield "total completions", f"{plan.total_timesteps:,}", f"{plan.num_updates * sizes.num_prompts:,} prompts"
