"""Evaluate a run: score its policy on fresh episodes, and render one of them."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from rollshape.envs.access import TIMEOUT, EnvAccess
from rollshape.errors import RollshapeError
from rollshape.files import output_directory
from rollshape.geometry.calls import check_arguments
from rollshape.geometry.values import POSITIVE, SEED, Range
from rollshape.training.evaluate import OnScore, StopReason
from rollshape.training.render import RenderedEpisode, render_episode
from rollshape.training.setup import open_run, use_compilation_cache
from rollshape.training.spec import FINAL_EPISODES, MOST_EPISODES

EPISODES, UPDATE = Range(1, MOST_EPISODES), Range(0, 2**31 - 1)


@dataclass(frozen=True)
class Evaluation:
    """The mean return of fresh episodes, with half the width of its 95 % interval over these episodes."""

    run_dir: str
    update: int  # of the checkpoint
    mean: float
    half_width: float
    episodes: int
    length: float  # mean length of an episode
    stopped_by: StopReason
    render: RenderedEpisode | None = None

    def __str__(self) -> str:
        """Return `475.3 ± 8.1 (95 %, 128 episodes)`."""
        return f"{self.mean:.4g} ± {self.half_width:.2g} (95 %, {self.episodes} episodes)"

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "render": self.render._asdict() if self.render else None}


@check_arguments
def evaluate(
    run: str | os.PathLike[str],
    checkpoint: Annotated[int | Literal["latest"], UPDATE] = "latest",
    *,
    episodes: Annotated[int, EPISODES] = FINAL_EPISODES,
    seed: Annotated[int | None, SEED] = None,
    render: str | os.PathLike[str] | None = None,
    trust: bool = False,
    env: Any = None,
    network: Any = None,
    env_timeout: Annotated[float, POSITIVE] = TIMEOUT,
    isolate_env: bool = False,
    on_score: OnScore | None = None,
) -> Evaluation:
    """Score a run's policy on fresh, full-length episodes.

    Args:
        run: a run or its directory.
        checkpoint: the update whose checkpoint is used, or "latest".
        episodes: number of episodes; as many as the final score has repeat it.
        seed: seed of the evaluation, by default the run's.
        render: file (.gif or .webp) for an animation of one episode.
        trust: open a run whose environment is in a module that is not installed, which executes the module.
        env: the run's environment, if it was given to `train` as an object that is not in a module.
        network: the run's network, if it was given to `train`.
        env_timeout: seconds that a call into a host environment may last.
        isolate_env: run host environments in a process of their own.
        on_score: called with the progress in host environments.
    """
    path = output_directory(os.fspath(run))
    use_compilation_cache()
    access = EnvAccess(env_timeout, isolate_env)
    update = None if checkpoint == "latest" else checkpoint
    driver, state = open_run(path, update, network, trust=trust, access=access, env=env)
    try:
        seed = driver.spec.seed if seed is None else seed
        rendered = None if render is None else render_episode(driver, state, seed, Path(render))
        score = driver.score(state, seed, episodes, on_score=on_score)
        return Evaluation(str(path), int(state.update), *score, rendered)
    finally:
        with suppress(RollshapeError):  # the first error is the one to report
            driver.close()
