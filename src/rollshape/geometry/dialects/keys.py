"""The keys of a config: a key's name, what it means in the shared vocabulary, and its default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from rollshape.geometry.values import FINITE, NOT_NEGATIVE, POSITIVE, UNIT, real_number

NO_OFF: Final = object()


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a config: its name (`section.name` if it is nested), its concept, and its default.

    Rollshape's value of the concept is `scale` × the value in the config.
    """

    name: str
    concept: str
    default: Any = None
    scale: float = 1
    aliases: tuple[str, ...] = ()
    whole: bool = False  # whether an extra without a default is a whole number
    off: Any = NO_OFF  # the value that disables it, if there is one (for a minibatch: the whole rollout)

    @property
    def leaf(self) -> str:
        return self.name.rpartition(".")[2]


SHAPE_CONCEPTS = frozenset(
    {
        "num_envs", "workers", "envs_per_worker", "num_steps", "rollout_size", "minibatch_size", "num_minibatches",
        "trajectories", "minibatch_per_env", "num_epochs", "total_timesteps", "num_updates", "vector_steps",
        "transition_batch_size", "train_batches", "steps_per_iteration", "rrd_batch_size", "rrd_sample_size",
        "num_prompts", "num_generations", "prompts_per_minibatch", "microbatch_size", "gradient_accumulation_steps",
        "steps_per_generation", "world_size", "optimizer_steps",
    }
)  # fmt: skip
OVERRIDE = "num_envs argument"  # in the input of `parse`, in addition to the concepts
EXTRA = "extra"  # a key that affects the shape but has no counterpart in other libraries


def is_number(value: Any) -> TypeGuard[float]:
    """Return whether a value is an int or a float, but not a bool."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_RANGES = {
    "gamma": UNIT, "gae_lambda": UNIT, "entropy_coef": FINITE, "value_coef": NOT_NEGATIVE,
    "kl_loss_coef": NOT_NEGATIVE, "kl_reward_coef": NOT_NEGATIVE,
}  # fmt: skip


def check_range(key: Key, value: float) -> float:
    """Return a hyperparameter, or raise a RequestError that names its key if it is out of range."""
    return real_number(key.name, value, _RANGES.get(key.concept, POSITIVE), key.default)
