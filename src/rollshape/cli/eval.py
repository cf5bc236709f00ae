"""`rollshape eval`: score a trained policy on fresh episodes, and render one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Literal

from rollshape.cli.env_flags import EnvArgs, TrustArgs, calling_envs
from rollshape.cli.flags import parse
from rollshape.geometry.fields import new_record
from rollshape.geometry.values import SEED, Range
from rollshape.training.spec import MOST_EPISODES

EPISODES, UPDATE = Range(1, MOST_EPISODES), Range(0, 2**31 - 1)


@dataclass(frozen=True, kw_only=True)
class EvalArgs(TrustArgs, EnvArgs):
    """Score a run's policy on fresh, full-length episodes.

    This imports the module that the run names as its environment, and so executes it; a module that is not an installed
    package needs --trust.
    """

    run_dir: Annotated[str, "a run directory"]
    episodes: Annotated[int, "number of episodes", EPISODES] = 128
    checkpoint: Annotated[int | Literal["latest"], "the update whose checkpoint is used", UPDATE] = "latest"
    seed: Annotated[int | None, "seed of the evaluation (default: the run's)", SEED] = None
    render: Annotated[str | None, "render an episode to this file (.gif or .webp)"] = None


def run(argv: Sequence[str]) -> None:
    args = new_record(EvalArgs, parse(EvalArgs, "eval", argv), {})
    from rollshape.cli.output import print_json
    from rollshape.cli.progress import ScoreLine, progress_bar
    from rollshape.training.evaluation import evaluate

    options = {field.name: getattr(args, field.name) for field in fields(args) if field.name not in ("run_dir", "json")}
    bar = progress_bar()
    try:
        with calling_envs(args.json):
            result = evaluate(args.run_dir, on_score=None if args.json else ScoreLine(bar).on_score, **options)
    finally:
        bar.stop()
    if args.json:
        print_json({**result.to_dict(), "run_dir": args.run_dir})
        return
    interval = f"{result.mean:.2f} ± {result.half_width:.2f} (95 %)"
    print(f"return {interval} over {result.episodes} episodes of {result.length:.0f} steps on average")
    if result.render:
        episode = f"{result.render.episodic_length} steps, return {result.render.episodic_return:.2f}"
        print(f"{result.render.file}: one episode of {episode}")
