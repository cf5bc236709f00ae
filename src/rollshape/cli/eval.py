"""`rollshape eval`: score a trained policy on fresh episodes, and render one of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from rollshape.cli.env_flags import EnvArgs, TrustArgs, calling_envs
from rollshape.cli.flags import parse
from rollshape.errors import RollshapeError
from rollshape.geometry.fields import new_record
from rollshape.geometry.values import SEED, Range
from rollshape.training.spec import MOST_EPISODES

if TYPE_CHECKING:
    from rollshape.training.evaluate import Score
    from rollshape.training.render import RenderedEpisode

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

    with calling_envs(args.json):
        update, score, rendered = _evaluate(args)
    if args.json:
        render = {"render": rendered._asdict() if rendered else None}
        print_json({"run_dir": args.run_dir, "update": update, **score._asdict(), **render})
        return
    interval = f"{score.mean:.2f} ± {score.half_width:.2f} (95 %)"
    print(f"return {interval} over {score.episodes} episodes of {score.length:.0f} steps on average")
    if rendered:
        episode = f"{rendered.episodic_length} steps, return {rendered.episodic_return:.2f}"
        print(f"{rendered.file}: one episode of {episode}")


def _evaluate(args: EvalArgs) -> tuple[int, Score, RenderedEpisode | None]:
    """Return (update of the checkpoint, score, the rendered episode)."""
    from rollshape.cli.progress import ScoreLine, progress_bar
    from rollshape.envs.access import EnvAccess
    from rollshape.training.setup import open_run

    update = None if args.checkpoint == "latest" else args.checkpoint
    access = EnvAccess(args.env_timeout, args.isolate_env)
    driver, state = open_run(Path(args.run_dir), update, trust=args.trust, access=access)
    try:
        seed = driver.spec.seed if args.seed is None else args.seed
        rendered = None
        if args.render is not None:
            from rollshape.training.render import render_episode

            rendered = render_episode(driver, state, seed, Path(args.render))
        bar = progress_bar()
        on_score = None if args.json else ScoreLine(bar).on_score
        try:
            return int(state.update), driver.score(state, seed, args.episodes, on_score=on_score), rendered
        finally:
            bar.stop()
    finally:
        with suppress(RollshapeError):  # the first error is the one to report
            driver.close()
