"""`rollshape train`: train a policy at any shape, into a run directory that every other command reads."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from rollshape.cli.flags import CommonArgs, parse
from rollshape.training.spec import Spec


@dataclass(frozen=True, kw_only=True)
class TrainArgs(Spec, CommonArgs):
    """Train a policy. Sizes that are not given are planned (`rollshape plan` shows how)."""

    out: Annotated[str | None, "run directory (default: runs/ENV_ALGO_NxT_seedS)"] = None
    preset: Annotated[bool, "use tuned settings for this environment; other flags override them"] = False
    resume: Annotated[bool, "continue a run that was stopped or killed"] = False
    track: Annotated[tuple[Literal["tensorboard", "wandb"], ...], "further places for the metrics"] = ()
    keep_checkpoints: Annotated[int | None, "number of evenly spaced checkpoints to keep (plus the initial one)"] = None


def run(argv: Sequence[str]) -> int:
    args = parse(TrainArgs, "train", argv)
    spec = Spec(**{field.name: getattr(args, field.name) for field in fields(Spec)})
    if args.preset:
        from rollshape.training.presets import with_preset

        spec, preset = with_preset(spec)
        missing = f" (without {preset.not_kept})" if preset.not_kept else ""
        print(f"preset from {preset.source}{missing}", file=sys.stderr)
    from rollshape.training.run import train

    options: dict[str, Any] = {name: getattr(args, name) for name in ("out", "resume", "track", "keep_checkpoints")}
    if args.json:
        from rollshape.cli.output import print_json

        with redirect_stdout(sys.stderr):  # an environment may print; stdout is the command's
            result = train(spec, **options)
        print_json(result.summary)
        return 0 if result.status == "done" else 1
    from rollshape.cli.output import show_plan

    with _progress_bar() as bar:
        task = bar.add_task("compiling", total=None, status="")

        def on_plan(plan: Any) -> None:
            bar.stop()
            show_plan(plan)
            bar.update(task, total=plan.num_updates)
            bar.start()

        def on_row(row: dict[str, Any], _: Any) -> None:
            score = "–" if row["episodic_return"] is None else f"{row['episodic_return']:.1f}"
            status = f"return {score}  {row['sps']:,} steps/s"
            bar.update(task, completed=row["update"], description="training", status=status)

        result = train(spec, on_plan=on_plan, on_row=on_row, **options)
    summary = result.summary
    if result.final_return is not None:
        speed = f", {summary['sps']:,} steps/s" if summary["sps"] else ""
        print(f"final return {result.final_return:.1f} ± {summary['final_return_ci']:.1f} over "
              f"{summary['final_episodes']} fresh episodes{speed}")  # fmt: skip
    print(f"{result.status}: {result.path}")
    return 0 if result.status == "done" else 1


def _progress_bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("updates  {task.fields[status]}"),
        TimeRemainingColumn(),
        console=Console(file=sys.stderr),
    )
