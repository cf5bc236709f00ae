"""RSL-RL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.behaviors import UNCLIPPED, Normalization, Shuffle, Switch, TimeLimit
from rollshape.geometry.dialects.keys import EXTRA, Key
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.dialects.sharing import Ranks, Recurrence, find_outward
from rollshape.geometry.minibatch import Remainder

_RECURRENT = ("Recurrent", "RNN")
_CLASS_NAMES = (
    ("policy", "class_name"), ("actor", "class_name"), ("critic", "class_name"), ("policy_class_name",),
    ("runner", "policy_class_name"),
)  # fmt: skip


class RslRl(Dialect):
    """K minibatches, shuffled once; samples that do not fill a minibatch are never used.

    A recurrent policy (`policy.class_name: ActorCriticRecurrent`, or `actor.class_name: RNNModel`) is trained on whole
    environments, num_envs // num_mini_batches in each minibatch, without shuffling; the others are never used.
    """

    name = "rsl_rl"
    library = "RSL-RL PPO"
    version = "5.5.1"
    proof = "test_rsl_rl.py"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("num_envs", "num_envs", aliases=("env.num_envs",)),  # legged_gym
        Key("num_steps_per_env", "num_steps", aliases=("runner.num_steps_per_env",)),
        Key("algorithm.num_mini_batches", "num_minibatches", 4),
        Key("algorithm.num_learning_epochs", "num_epochs", 5),
        Key("max_iterations", "num_updates", aliases=("num_learning_iterations", "runner.max_iterations")),
        Key("algorithm.learning_rate", "learning_rate", 1e-3),
        Key("algorithm.gamma", "gamma", 0.99),
        Key("algorithm.lam", "gae_lambda", 0.95),
        Key("algorithm.clip_param", "clip_range", 0.2),
        Key("algorithm.entropy_coef", "entropy_coef", 0.01),
        Key("algorithm.value_loss_coef", "value_coef", 1.0),
        Key("algorithm.max_grad_norm", "max_grad_norm", 1.0),
        Key("algorithm.desired_kl", "adaptive_kl", 0.01),
        Key("algorithm.schedule", EXTRA, "adaptive"),
    )
    remainder = Remainder.DROP
    remainder_detail = "silently drops the last steps of the highest-numbered environments, in every update"
    shuffle = Shuffle.ONCE
    normalization = Normalization.ROLLOUT
    time_limit = TimeLimit.CURRENT
    value_clip = "clipped (use_clipped_value_loss)"
    ranks = Ranks.PER_RANK
    recurrence = Recurrence.ENVIRONMENTS
    switches: ClassVar[tuple[Switch, ...]] = (
        Switch("algorithm.use_clipped_value_loss", "value loss", {False: UNCLIPPED}),
    )
    algorithm_keys = ("algorithm.class_name", "algorithm_class_name", "runner.algorithm_class_name")
    notes: ClassVar[tuple[str, ...]] = (
        "continuous actions only",
        "the gradient norms of actor and critic are clipped separately",
    )

    def facts(self, config: Mapping[str, Any], level: tuple[str, ...]) -> dict[str, Any]:
        names = [find_outward(config, level, *path) for path in _CLASS_NAMES]
        return {"recurrent": any(word in str(name) for name in names for word in _RECURRENT)}

    def sequence_problem(self, recipe: Recipe) -> str:
        envs = recipe.num_envs // recipe.world_size
        if recipe.seq_length and recipe.num_minibatches > envs:
            return f"{recipe.num_minibatches:,} minibatches of {envs:,} whole environments would be empty"
        return ""

    def parse_hyper(self, values: Mapping[str, Any]) -> dict[str, float]:
        hyper = super().parse_hyper(values)
        if values.get("algorithm.schedule", "adaptive") != "adaptive":
            hyper.pop("adaptive_kl", None)
        return hyper

    def emit_hyper(self, hyper: Mapping[str, float]) -> dict[str, Any]:
        values = super().emit_hyper(hyper)
        return values | {"algorithm.schedule": "adaptive" if "adaptive_kl" in hyper else "fixed"}
