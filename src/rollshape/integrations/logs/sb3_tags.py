"""Stable-Baselines3 (PPO, A2C), RecurrentPPO of sb3-contrib, sbx: tags of its logger.

The logger writes between the rollout and the update on it (`OnPolicyAlgorithm.learn`: collect, dump_logs, train). So
values of `train/` describe the update before, and those of the last update are never written.
"""

from __future__ import annotations

from typing import ClassVar

from rollshape.integrations.logs.library import Facts, LibraryLog, Tag, ceil_steps, check_multiples, tag
from rollshape.integrations.logs.series import LogFile

MONITOR_RETURN, MONITOR_LENGTH = "monitor.csv r", "monitor.csv l"  # episodes of monitor files, placed on the axis


def _value_factor(facts: Facts) -> float | None:
    return None if "train/clip_range_vf" in facts.tags else 1.0


class Sb3Log(LibraryLog):
    name = "sb3"
    version = "2.9.2"
    axis = "environment steps (`num_timesteps`)"
    dialects: ClassVar[tuple[str, ...]] = ("sb3", "sb3:a2c", "sb3:recurrent_ppo", "sbx", "isaaclab:sb3")
    marks: ClassVar[tuple[str, ...]] = (
        "rollout/ep_rew_mean", "train/policy_gradient_loss", "train/entropy_loss", "time/fps", MONITOR_RETURN,
    )  # fmt: skip
    foreign: ClassVar[tuple[str, ...]] = (
        "rollout/exploration_rate", "train/actor_loss", "train/critic_loss", "train/ent_coef",
        "train/kl_divergence_loss",
    )  # fmt: skip
    window = "the last 100 episodes (`stats_window_size`), whenever they ended; with monitor.csv, those of the interval"
    tags: ClassVar[tuple[Tag, ...]] = (
        tag("rollout/ep_rew_mean", "episodic_return", "mean return of the last 100 episodes", when="rollout",
            factor=lambda facts: None if MONITOR_RETURN in facts.tags else 1.0,
            condition="monitor files have the episodes of every interval"),
        tag("rollout/ep_len_mean", "episodic_length", "mean length of the last 100 episodes", when="rollout",
            factor=lambda facts: None if MONITOR_LENGTH in facts.tags else 1.0,
            condition="monitor files have the episodes of every interval"),
        tag(MONITOR_RETURN, "episodic_return", "return of one episode", when="episode"),
        tag(MONITOR_LENGTH, "episodic_length", "length of one episode", when="episode"),
        tag("rollout/success_rate", "success_rate", "share of the last 100 episodes with `is_success`", when="rollout"),
        tag("eval/mean_reward", "eval_return", "mean return of EvalCallback's episodes (by default with deterministic "
            "actions)", when="evaluation"),
        tag("train/policy_gradient_loss|train/policy_loss", "policy_loss", "clipped surrogate loss, mean over the "
            "gradient steps; `train/policy_loss` is that of A2C's one step", when="previous"),
        tag("train/value_loss", "value_loss", "mean((V − R)²) over the gradient steps", when="previous",
            factor=_value_factor, condition="with `clip_range_vf` it is the error of the clipped prediction"),
        tag("train/entropy_loss", "entropy", "−entropy, mean over the gradient steps", when="previous", factor=-1.0),
        tag("train/approx_kl", "approx_kl_epochs", "mean((r − 1) − log r) over the minibatches of the last epoch",
            when="previous", last_epoch=True),
        tag("train/clip_fraction", "clip_fraction", "mean over the gradient steps", when="previous"),
        tag("train/explained_variance", "explained_variance", "of the rollout's values", when="previous"),
        tag("train/learning_rate", "learning_rate", "in the update", when="previous"),
        tag("train/std", "action_std", "mean of exp(log_std)", when="previous"),
        tag("train/loss", None, "total loss of the last minibatch only", when="previous"),
        tag("train/n_updates", None, "epochs so far", when="previous"),
        tag("time/fps", None, "environment steps per second since the start, not of the interval", when="rollout"),
    )  # fmt: skip

    def locate(self, name: str, entry: Tag, step: float, facts: Facts) -> int:  # noqa: ARG002
        begun = ceil_steps(step, facts.plan.rollout_size)
        return begun - 1 if entry.when in ("previous", "evaluation") else begun

    def check(self, scalars: LogFile, facts: Facts) -> None:
        """Rollouts end at multiples of their size; progress.csv also numbers them."""
        name = "time/iterations" if "time/iterations" in scalars.scalars else "time/fps"
        plan = facts.plan
        check_multiples(scalars, name, plan.rollout_size, f"{plan.num_envs} × {plan.num_steps}")
