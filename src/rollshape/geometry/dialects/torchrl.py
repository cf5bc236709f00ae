"""TorchRL's PPO scripts."""

from __future__ import annotations

from rollshape.geometry.dialects.base import Dialect, Key, TimeLimit
from rollshape.geometry.minibatch import Remainder


class TorchRL(Dialect):
    """`frames_per_batch` is the rollout; the steps of an environment follow from it."""

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
    remainder_detail = "IndexError: the scripts' loss table has no row for a short last minibatch"
    rounds_up = True
    time_limit = TimeLimit.FINAL
    schedule = "linear to zero (optim.anneal_lr)"
    notes = (
        "GAE is recomputed each epoch",
        "the Atari config counts emulator frames: its sizes are divided by 4",
        "max_grad_norm is a key of the Atari script only",
    )
