"""RSL-RL: tags of its logger, over iterations. `Loss/value_function` is the older name of `Loss/value`."""

from __future__ import annotations

import math
from typing import ClassVar

from rollshape.errors import RequestError
from rollshape.integrations.logs.library import ENV_STEPS, Facts, LibraryLog, Tag, tag
from rollshape.integrations.logs.series import LogFile

_SPEED, _COLLECTION, _LEARNING = "Perf/total_fps", "Perf/collection_time", "Perf/learning_time"
_OLD_COLLECTION = "Perf/collection time"
_TOLERANCE = 0.1  # of the rollout size that follows from speed and time, both rounded


class RslRlLog(LibraryLog):
    name = "rsl_rl"
    version = "5.5.1"
    axis = "iterations (updates), from 0"
    dialects: ClassVar[tuple[str, ...]] = ("rsl_rl", "isaaclab:rsl_rl", "mjlab")
    marks: ClassVar[tuple[str, ...]] = ("Loss/surrogate", "Perf/total_fps", "Train/mean_reward")
    axes: ClassVar[tuple[str, ...]] = (*ENV_STEPS, "_step", "Step")  # its W&B writer gives the iteration as the step
    foreign: ClassVar[tuple[str, ...]] = ("Loss/behavior",)
    window = "the last 100 episodes, whenever they ended"
    tags: ClassVar[tuple[Tag, ...]] = (
        tag("Train/mean_reward", "episodic_return", "mean return of the last 100 episodes (with RND, including the "
            "intrinsic reward)", factor=lambda facts: None if "Rnd/mean_extrinsic_reward" in facts.tags else 1.0,
            condition="with RND, `Rnd/mean_extrinsic_reward` is the return of the task"),
        tag("Rnd/mean_extrinsic_reward", "episodic_return", "mean extrinsic return of the last 100 episodes"),
        tag("Train/mean_episode_length", "episodic_length", "mean length of the last 100 episodes"),
        tag("Loss/surrogate", "policy_loss", "clipped surrogate loss, mean over the gradient steps"),
        tag("Loss/value|Loss/value_function", "value_loss", "mean((V − R)²) over the gradient steps (clipped unless "
            "`use_clipped_value_loss` is false)"),
        tag("Loss/entropy", "entropy", "mean over the gradient steps"),
        tag("Loss/learning_rate", "learning_rate", "after the update"),
        tag("Policy/mean_std|Policy/mean_noise_std", "action_std", "mean standard deviation of the actions"),
        tag(_SPEED, "sps", "environment steps per second of this iteration"),
        tag("Train/mean_reward/time", None, "as `Train/mean_reward`, over seconds"),
        tag(_COLLECTION, None, "seconds of the rollout"),
        tag(_LEARNING, None, "seconds of the update"),
    )  # fmt: skip

    def axis_of(self, name: str) -> str:
        return "time" if name.endswith("/time") else "iteration"

    def locate(self, name: str, entry: Tag, step: float, facts: Facts) -> int:  # noqa: ARG002
        return int(step) + 1

    def check(self, scalars: LogFile, facts: Facts) -> None:
        """Compare the rollout size with steps/s × seconds, which the log has up to rounding."""
        measured, size = estimate_rollout_size(scalars), facts.plan.rollout_size
        if measured is not None and abs(math.log(measured / size)) > _TOLERANCE:
            raise RequestError(
                "log-sizes",
                f"By its speed and times the log has about {measured:,.0f} samples per iteration, but the sizes say "
                f"{size:,} ({facts.plan.num_envs} × {facts.plan.num_steps}): the config is not that of this log.",
                "Give the sizes of this run: --num-envs, --num-steps, or its --config.",
            )


def estimate_rollout_size(log: LogFile) -> float | None:
    """Return the median of steps/s × seconds, or None if the log does not have them."""
    names = (_SPEED, _COLLECTION if _COLLECTION in log.scalars else _OLD_COLLECTION, _LEARNING)
    if not all(name in log.scalars for name in names):
        return None
    columns = [dict(zip(log.scalars[name].steps, log.scalars[name].values, strict=True)) for name in names]
    sizes = sorted(
        columns[0][step] * (columns[1][step] + columns[2][step])
        for step in columns[0]
        if step in columns[1] and step in columns[2] and columns[0][step] >= 20  # it is rounded down to a whole number
    )
    size = sizes[len(sizes) // 2] if sizes else 0.0
    return size if size > 0 and math.isfinite(size) else None
