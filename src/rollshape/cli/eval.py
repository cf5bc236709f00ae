"""`rollshape eval`: score a trained policy on fresh episodes, and render one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from rollshape.cli.flags import CommonArgs, parse


@dataclass(frozen=True, kw_only=True)
class EvalArgs(CommonArgs):
    """Score a run's policy on fresh, full-length episodes."""

    run_dir: Annotated[str, "a run directory"]
    episodes: Annotated[int, "number of episodes"] = 128
    checkpoint: Annotated[int | Literal["latest"], "the update whose checkpoint is used"] = "latest"
    seed: Annotated[int | None, "seed of the evaluation (default: the run's)"] = None
    render: Annotated[str | None, "render an episode to this file (.gif or .webp)"] = None


def run(argv: Sequence[str]) -> None:
    args = parse(EvalArgs, "eval", argv)
    from rollshape.cli.output import print_json
    from rollshape.geometry.request import whole_number
    from rollshape.training.setup import open_run

    driver, state = open_run(Path(args.run_dir), None if args.checkpoint == "latest" else args.checkpoint)
    episodes = whole_number("episodes", args.episodes, most=1_000_000)
    seed = driver.spec.seed if args.seed is None else whole_number("seed", args.seed, least=0, most=2**32 - 1)
    rendered = None
    if args.render is not None:
        from rollshape.training.render import render_episode

        rendered = render_episode(driver, state, seed, Path(args.render))
    score = driver.score(state, seed, episodes)
    if args.json:
        render = {"render": rendered._asdict() if rendered else None}
        print_json({"run_dir": args.run_dir, "update": int(state.update), **score._asdict(), **render})
        return
    interval = f"{score.mean:.2f} ± {score.half_width:.2f} (95 %)"
    print(f"return {interval} over {score.episodes} episodes of {score.length:.0f} steps on average")
    if rendered:
        episode = f"{rendered.episodic_length} steps, return {rendered.episodic_return:.2f}"
        print(f"{rendered.file}: one episode of {episode}")
