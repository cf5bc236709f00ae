"""rl_games: tags in `summaries`, over frames, epochs and seconds.

Frames are environment steps. A discrete agent writes them after the rollout, a continuous one before it, so its first
values stand at frame 0; `info/epochs`, written at the same frame, says which it is.
"""

from __future__ import annotations

from typing import ClassVar

from rollshape.errors import RequestError
from rollshape.integrations.logs.library import Facts, LibraryLog, Tag, tag
from rollshape.integrations.logs.series import LogFile

_EPOCHS = "info/epochs"
_TIME = "/time"


def _value_factor(facts: Facts) -> float | None:
    return 1.0 if facts.setting("normalize_value") is False else None


class RlGamesLog(LibraryLog):
    name = "rl_games"
    version = "1.6.5"
    axis = "frames (environment steps), or epochs for tags that end in `/iter`"
    dialects: ClassVar[tuple[str, ...]] = ("rl_games", "isaaclab:rl_games")
    marks: ClassVar[tuple[str, ...]] = ("losses/a_loss", "info/last_lr", "performance/step_inference_rl_update_fps")
    foreign: ClassVar[tuple[str, ...]] = ("losses/c1_loss", "losses/alpha_loss")
    window = "the last 100 episodes (`games_to_track`), whenever they ended"
    tags: ClassVar[tuple[Tag, ...]] = (
        tag("rewards/iter", "episodic_return", "mean return of the last 100 episodes, before `reward_shaper`"),
        tag("episode_lengths/iter", "episodic_length", "mean length of the last 100 episodes"),
        tag("losses/a_loss", "policy_loss", "clipped surrogate loss, mean over the gradient steps"),
        tag("losses/c_loss", "value_loss", "mean((V − R)²) over the gradient steps (clipped if `clip_value`)",
            factor=_value_factor, condition="unless `normalize_value` is false, it is in units of the running value "
            "normalization"),
        tag("losses/entropy", "entropy", "mean over the gradient steps"),
        tag("info/kl", "approx_kl", "mean over the gradient steps; discrete: ½·mean((log r)²), continuous: the KL of "
            "the Gaussians, new to old. All agree to second order"),
        tag("info/last_lr", "learning_rate", "after the update"),
        tag("performance/step_inference_rl_update_fps", "sps", "frames per second of this epoch",
            factor=lambda facts: float(facts.plan.num_agents)),
        tag("rewards/step|rewards/time", None, "as `rewards/iter`, over frames and seconds"),
        tag("shaped_rewards/iter|shaped_rewards/step|shaped_rewards/time", None, "returns after `reward_shaper`"),
        tag("losses/bounds_loss", None, "penalty of actions outside the bounds"),
        tag("info/e_clip", None, "clip range"),
        tag(_EPOCHS, None, "number of the epoch (update) at a frame: used for the axis"),
    )  # fmt: skip

    def axis_of(self, name: str) -> str:
        return "iter" if name.endswith("/iter") else "time" if name.endswith(_TIME) else "frame"

    def locate(self, name: str, entry: Tag, step: float, facts: Facts) -> int:  # noqa: ARG002
        if self.axis_of(name) == "iter":
            return int(step)
        return int(step * facts.plan.num_agents // facts.plan.rollout_size) + _offset(facts)

    def check(self, scalars: LogFile, facts: Facts) -> None:
        size, agents = facts.plan.rollout_size, facts.plan.num_agents
        epochs = scalars.scalars.get(_EPOCHS)
        for frame, _, epoch in epochs or ():
            if frame * agents not in (epoch * size, (epoch - 1) * size):
                raise RequestError(
                    "log-sizes",
                    f"The log has epoch {int(epoch):,} at frame {int(frame):,}, but a rollout has {size:,} samples: "
                    "the config is not that of this log.",
                    "Give the sizes of this run: --num-envs, --num-steps, or its --config.",
                )


def _offset(facts: Facts) -> int:
    return 1 if FRAMES_BEFORE in facts.tags else 0


FRAMES_BEFORE = "frames are those before the rollout"  # stands among the tags if the log says so


def mark_frames(log: LogFile) -> set[str]:
    """Return the mark that frames are counted before the rollout, if the first epochs say so."""
    epochs = log.scalars.get(_EPOCHS)
    if epochs is None or not len(epochs):
        return set()
    steps, values = epochs.steps, epochs.values
    if any(step == 0 for step in steps):
        return {FRAMES_BEFORE}
    per_epoch = [(after - before) / (later - earlier) for before, after, earlier, later in
                 zip(steps, steps[1:], values, values[1:], strict=False) if later > earlier]  # fmt: skip
    return {FRAMES_BEFORE} if per_epoch and steps[0] < values[0] * per_epoch[0] else set()
