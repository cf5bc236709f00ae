"""skrl: tags of the agent, over vector timesteps, written every `write_interval` of them."""

from __future__ import annotations

from typing import Any, ClassVar

from rollshape.integrations.logs.library import Facts, LibraryLog, Tag, ceil_steps, tag

_EARLY_STOP = "with `kl_threshold` the sum is divided by the planned number of gradient steps, also after an early stop"


def _is_off(value: Any) -> bool:
    """Return whether a setting is disabled; None: the config does not contain it, and the default disables it."""
    return value in (None, 0, 0.0, "", False)


def _loss_factor(facts: Facts) -> float | None:
    return 1.0 if _is_off(facts.setting("kl_threshold")) else None


def _value_factor(facts: Facts) -> float | None:
    scale = facts.setting("value_loss_scale")
    if not isinstance(scale, (int, float)) or scale <= 0 or _is_clipped(facts) or _loss_factor(facts) is None:
        return None
    return 1.0 / scale if _is_off(facts.setting("value_preprocessor")) else None


def _is_clipped(facts: Facts) -> bool:
    """Return whether predicted values are clipped: `value_clip`, in older versions only with clip_predicted_values."""
    switch, clip = facts.setting("clip_predicted_values"), facts.setting("value_clip")
    return switch is True if switch is not None else clip is None or not _is_off(clip)


def _entropy_factor(facts: Facts) -> float | None:
    scale = facts.setting("entropy_loss_scale")
    if not isinstance(scale, (int, float)) or scale <= 0 or _loss_factor(facts) is None:
        return None
    return -1.0 / scale


class SkrlLog(LibraryLog):
    name = "skrl"
    version = "2.1.1"
    axis = "vector timesteps (times `num_envs`: environment steps)"
    dialects: ClassVar[tuple[str, ...]] = ("skrl", "isaaclab:skrl")
    marks: ClassVar[tuple[str, ...]] = ("Loss / Policy loss", "Reward / Total reward (mean)")
    foreign: ClassVar[tuple[str, ...]] = (
        "Loss / Critic loss",
        "Loss / Q-network loss",
        "Loss / Entropy coefficient loss",
    )
    window = (
        "episodes that ended in the write interval (at most the last 100), averaged over its steps: early ones weigh "
        "more"
    )
    tags: ClassVar[tuple[Tag, ...]] = (
        tag("Reward / Total reward (mean)", "episodic_return", "mean return of the episodes", when="rollout"),
        tag("Episode / Total timesteps (mean)", "episodic_length", "mean length of the episodes", when="rollout"),
        tag("Loss / Policy loss", "policy_loss", "clipped surrogate loss, mean over the gradient steps",
            factor=_loss_factor, condition=_EARLY_STOP),
        tag("Loss / Value loss", "value_loss", "`value_loss_scale` · mean((V − R)²), mean over the gradient steps",
            factor=_value_factor, condition="divided by `value_loss_scale`; only if the config has it, and not with a "
            "`value_preprocessor` (other units), `value_clip` (error of the clipped prediction) or `kl_threshold`"),
        tag("Loss / Entropy loss", "entropy", "−`entropy_loss_scale` · entropy, mean over the gradient steps",
            factor=_entropy_factor, condition="divided by −`entropy_loss_scale`; not with `kl_threshold`"),
        tag("Learning / Learning rate", "learning_rate", "after the update (only with a scheduler)"),
        tag("Policy / Standard deviation", "action_std", "mean standard deviation of the last minibatch's actions"),
        tag("Reward / Instantaneous reward (mean)", None, "mean reward per step", when="rollout"),
        tag("Stats / Algorithm update time (ms)", None, "milliseconds of an update"),
    )  # fmt: skip

    def locate(self, name: str, entry: Tag, step: float, facts: Facts) -> int:  # noqa: ARG002
        num_steps = facts.plan.num_steps
        return ceil_steps(step, num_steps) if entry.when == "rollout" else int(step // num_steps)
