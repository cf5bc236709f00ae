"""`rollshape advise`: race shapes and name the best."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rollshape.cli import INTERRUPTED, signal_of
from rollshape.cli.flags import CommonArgs, given_flags
from rollshape.errors import RequestError
from rollshape.studies.engines import EngineName
from rollshape.studies.racing.candidates import Variation
from rollshape.studies.racing.settings import DEFAULT_BUDGET, Objective
from rollshape.training.spec import Spec

if TYPE_CHECKING:
    from rollshape.reports.report import WrittenReport
    from rollshape.studies.racing.advise import Recommendation

WIDTH = 78


@dataclass(frozen=True, kw_only=True)
class AdviseArgs(Spec, CommonArgs):
    """Race rollout shapes: train the most promising candidates, estimate the others from them, and name the best.

    Other flags of `rollshape train`, such as --learning-rate, are the same for all candidates. Run the command again to
    resume it.
    """

    shapes: Annotated[tuple[str, ...] | None, "candidates as NxT (default: planned)"] = None
    max_envs: Annotated[int | None, "most environments of a planned candidate (default: 512; 128 on the host)"] = None
    budget: Annotated[float, "cost of the race, as a share of training all candidates with all seeds to the end"] = (
        DEFAULT_BUDGET
    )
    seeds: Annotated[int, "seeds per candidate, at most"] = 3
    objective: Annotated[
        Objective, "what to compare: return after total_timesteps, return after equal seconds, area under the curve"
    ] = "return"
    vary: Annotated[tuple[Variation, ...], "also race smaller minibatches, or learning rates scaled by √M"] = ()
    to: Annotated[str | None, "dialect of the config to print; `rollshape dialects` lists them"] = None
    out: Annotated[str | None, "folder of the race (default: studies/advise-ENV)"] = None
    engine: Annotated[EngineName, "where the trials run"] = "local"
    address: Annotated[str | None, "ray: address of a cluster, or auto for the running one"] = None
    jobs: Annotated[int | None, "trials to run in parallel (default: one per core; a race trains two at a time)"] = None


OPTIONS = tuple(field.name for field in fields(AdviseArgs) if field.name not in {item.name for item in fields(Spec)})


def run(argv: Sequence[str]) -> int:
    given = given_flags(AdviseArgs, "advise", argv)
    for name in ("env", "total_timesteps"):
        if name not in given:
            flag = "--" + name.replace("_", "-")
            raise RequestError(
                "flags",
                f"advise needs {flag}.",
                "For example: rollshape advise --env CartPole-v1 --total-timesteps 2e5",
            )
    from rollshape.cli.env_flags import calling_envs
    from rollshape.cli.study_view import StudyView
    from rollshape.reports.report import write_report
    from rollshape.studies.racing.advise import advise, default_folder

    as_json = given.pop("json", False)
    options: dict[str, Any] = {**given, "command": shlex.join(["rollshape", "advise", *argv])}
    try:
        with calling_envs(as_json), StudyView(quiet=as_json) as view:
            answer = advise(**options, on_start=view.on_start, on_event=view.on_event)
    except KeyboardInterrupt as interrupt:
        folder = Path(given["out"]) if "out" in given else default_folder(given["env"])
        return _end_interrupted(interrupt, folder)
    report = write_report(answer.out)
    if as_json:
        from rollshape.cli.output import print_json

        print_json({**answer.to_dict(), "report": str(report.html)})
    else:
        show_recommendation(answer, given.get("to"), report)
    return 0


def _end_interrupted(interrupt: KeyboardInterrupt, folder: Path) -> int:
    from rollshape.studies.store import Store

    if not Store(folder).has_begun():
        raise interrupt
    print(f"Interrupted. Run the same command again to resume {folder}.", file=sys.stderr)
    return INTERRUPTED + signal_of(interrupt)


def show_recommendation(answer: Recommendation, to: str | None, report: WrittenReport) -> None:
    """Print the answer in a few lines, then the ranking, the reasons and the config."""
    import textwrap

    from rich.markup import escape
    from rich.table import Table

    from rollshape.cli.output import console
    from rollshape.geometry.dialects.text import as_yaml
    from rollshape.studies.racing.why import describe_groups

    advice, best = answer.advice, answer.advice.best
    plan = best.candidate.plan
    lines = [
        f"Use {best.candidate.label}: {plan.rollout_size:,} samples per update, {plan.num_minibatches} "
        f"minibatch{'es' if plan.num_minibatches > 1 else ''} of "
        f"{plan.minibatch_size:,}, {plan.num_epochs} epochs, learning rate {best.candidate.spec.learning_rate:g}."
    ]
    lines += describe_groups(advice)
    lines.append(f"Cost: {advice.timesteps:,} timesteps, {advice.share:.1%} of training all {len(advice.ranking)} "
                 "candidates with all seeds to the end.")  # fmt: skip
    out = console()
    for i, line in enumerate(lines):
        text = escape(textwrap.fill(line, WIDTH, subsequent_indent="  "))
        out.print(f"[bold]{text}[/]" if i == 0 else text, soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    for name in ("shape", "status", "estimate", "95 % interval", "own runs", "runs"):
        table.add_column(name, justify="left" if name in ("shape", "status") else "right")
    for item in advice.ranking:
        score = "–" if item.score is None else f"{item.score:.4g}"
        interval = "–" if item.low is None or item.high is None else f"{item.low:.4g} … {item.high:.4g}"
        table.add_row(
            escape(item.candidate.label),
            item.label,
            score,
            interval,
            "–" if item.measured is None else f"{item.measured:.4g}",
            str(item.num_seeds),
        )
    out.print()
    out.print(table)
    out.print("\nWhy", style="bold")
    for line in answer.why:
        out.print(escape(textwrap.fill(line, WIDTH, initial_indent="- ", subsequent_indent="  ")), soft_wrap=True)
    if answer.config is not None:
        out.print(f"\nConfig for {to}", style="bold")
        out.print(escape(as_yaml(answer.config).rstrip()), soft_wrap=True)
        for line in answer.not_preserved:
            out.print(escape(f"# not preserved: {line}"), soft_wrap=True)
    out.print(f"\n{escape(str(report.html))}", soft_wrap=True)
