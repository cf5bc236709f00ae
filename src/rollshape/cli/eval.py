"""`rollshape eval`: a trained policy's score, with its interval, and a picture of it at work."""

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
    episodes: Annotated[int, "how many episodes"] = 128
    checkpoint: Annotated[int | Literal["latest"], "the update after which the policy is taken"] = "latest"
    seed: Annotated[int | None, "seed of the evaluation (default: the run's)"] = None
    render: Annotated[str | None, "draw an episode into this file, .gif or .webp"] = None


def run(argv: Sequence[str]) -> None:
    args = parse(EvalArgs, "eval", argv)
    from rollshape.cli.output import print_json
    from rollshape.geometry.request import whole_number
    from rollshape.training.run import open_run

    trainer, state = open_run(Path(args.run_dir), None if args.checkpoint == "latest" else args.checkpoint)
    episodes = whole_number("episodes", args.episodes, most=1_000_000)
    seed = trainer.spec.seed if args.seed is None else whole_number("seed", args.seed, least=0, most=2**32 - 1)
    shown = None
    if args.render is not None:
        from rollshape.training.film import film

        shown = film(trainer, state, seed, Path(args.render))
    score = trainer.score(state, seed, episodes)
    if args.json:
        drawn = {"render": shown._asdict() if shown else None}
        print_json({"run_dir": args.run_dir, "update": int(state.update), **score._asdict(), **drawn})
        return
    interval = f"{score.mean:.2f} ± {score.half_width:.2f} (95 %)"
    print(f"return {interval} over {score.episodes} episodes of {score.length:.0f} steps on average")
    if shown:
        told = f"{shown.episodic_length} steps with return {shown.episodic_return:.2f}"
        print(f"{shown.file} shows an episode of {told}")
