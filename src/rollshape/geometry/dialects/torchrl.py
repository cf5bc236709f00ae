"""The PPO scripts of TorchRL."""

from __future__ import annotations

from rollshape.geometry.dialects.base import Dialect, Key, TimeLimit
from rollshape.geometry.minibatch import Remainder


class TorchRL(Dialect):
    """`frames_per_batch` is the rollout size; the steps per environment are derived from it."""

    name = "torchrl"
    library = "TorchRL sota-implementations/ppo (MuJoCo)"
    version = "0.14.1"
    keys = (
        Key("env.num_envs", "num_envs", 1),
        Key("collector.frames_per_batch", "rollout_size", 2048),
        Key("loss.mini_batch_size", "minibatch_size", 64),
        Key("loss.ppo_epochs", "num_epochs", 10),
        Key("collector.total_frames", "total_timesteps", 1_000_000),
        Key("optim.lr", "learning_rate", 3e-4),
        Key("loss.gamma", "gamma", 0.99),
        Key("loss.gae_lambda", "gae_lambda", 0.95),
        Key("loss.clip_epsilon", "clip_range", 0.2),
        Key("loss.entropy_coeff", "entropy_coef", 0.0, aliases=("entropy_coef",)),
        Key("loss.critic_coeff", "value_coef", 0.25, aliases=("critic_coef",)),
        Key("optim.max_grad_norm", "max_grad_norm"),
    )
    remainder = Remainder.REFUSE
    remainder_detail = "IndexError: the loss table of the scripts has no row for a smaller last minibatch"
    rounds_up = True
    time_limit = TimeLimit.FINAL
    schedule = "linear to zero (optim.anneal_lr)"
    notes = (
        "GAE is recomputed each epoch",
        "the Atari config counts emulator frames: its sizes are divided by 4",
        "only the Atari script has the key max_grad_norm",
    )
