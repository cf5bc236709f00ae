"""skrl."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rollshape.errors import RequestError
from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.behaviors import Normalization, Switch, TimeLimit
from rollshape.geometry.dialects.keys import EXTRA, Key, check_range, is_number
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.dialects.sharing import Agents, Ranks, Recurrence, find_outward
from rollshape.geometry.minibatch import Remainder, Split, split_by_count
from rollshape.geometry.values import plain_scalar, whole_number

_ADAPTIVE = "KLAdaptiveLR"
_ADAPTIVE_DEFAULT = 0.008
_THRESHOLD = Key("agent.learning_rate_scheduler_kwargs.kl_threshold", "adaptive_kl", _ADAPTIVE_DEFAULT)


_LENGTHS = (
    ("sequence_length",), ("agent", "sequence_length"), ("models", "policy", "sequence_length"),
    ("models", "value", "sequence_length"),
)  # fmt: skip


class Skrl(Dialect):
    """`timesteps` counts vector steps; since 2.1 a remainder is distributed over the minibatches.

    PPO_RNN splits the rollout, environment by environment, into contiguous minibatches, and the model reshapes each of
    them into sequences. `sequence_length` is part of the model, not of the config: give it with `--seq-length`. It must
    divide `rollouts`, or sequences continue into the next environment without an error.
    """

    name = "skrl"
    library = "skrl PPO (torch)"
    version = "2.1.1"
    proof = "test_skrl.py"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("num_envs", "num_envs"),
        Key("agent.rollouts", "num_steps", 16),
        Key("agent.mini_batches", "num_minibatches", 2),
        Key("agent.learning_epochs", "num_epochs", 8),
        Key("trainer.timesteps", "vector_steps"),
        Key("agent.learning_rate", "learning_rate", 1e-3),
        Key("agent.discount_factor", "gamma", 0.99),
        Key("agent.gae_lambda", "gae_lambda", 0.95, aliases=("lambda",)),
        Key("agent.ratio_clip", "clip_range", 0.2),
        Key("agent.entropy_loss_scale", "entropy_coef", 0.0),
        Key("agent.value_loss_scale", "value_coef", 2.5),
        Key("agent.grad_norm_clip", "max_grad_norm", 0.5, off=0.0),
        Key("agent.kl_threshold", "target_kl", 0.0, off=0.0),
        Key("agent.learning_rate_scheduler", EXTRA),
        Key("agent.learning_rate_scheduler_kwargs", EXTRA),
    )
    remainder = Remainder.BALANCE
    remainder_detail = "distributes the remainder: the first minibatches are one sample larger (2.0 and older drop it)"
    normalization = Normalization.ROLLOUT
    time_limit = TimeLimit.IGNORED
    value_clip = "clipped (value_clip)"
    agents = Agents.SEPARATE
    ranks = Ranks.PER_RANK
    recurrence = Recurrence.SEQUENCES
    switches: ClassVar[tuple[Switch, ...]] = (
        Switch("agent.time_limit_bootstrap", "time limit", {True: TimeLimit.CURRENT, False: TimeLimit.IGNORED}),
    )
    algorithm_keys = ("agent.class", "class")
    algorithm_names: ClassVar[frozenset[str]] = Dialect.algorithm_names | {"ippo", "mappo", "rpo"}
    notes: ClassVar[tuple[str, ...]] = (
        "memory_size must equal rollouts; skrl does not check this",
        "kl_threshold only stops the current epoch",
        "before 2.1, minibatches are contiguous blocks without shuffling",
        "IPPO and MAPPO train every agent on a rollout of its own: these are the sizes of one agent",
    )

    def facts(self, config: Mapping[str, Any], level: tuple[str, ...]) -> dict[str, Any]:
        length = next((value for path in _LENGTHS if (value := find_outward(config, level, *path)) is not None), None)
        name = str(find_outward(config, level, "agent", "class") or "")
        facts: dict[str, Any] = {"recurrent": name.upper().endswith("_RNN") or length is not None}
        return facts | ({} if length is None else {"seq_length": whole_number("sequence_length", length)})

    def parse(self, sizes: Mapping[str, Any]) -> Recipe:
        if sizes.get("recurrent") and sizes.get("seq_length") is None:
            raise RequestError(
                "recurrent",
                "The sequence length of a recurrent skrl model is in its get_specification(), not in the config.",
                "Give it with --seq-length.",
            )
        return super().parse(sizes)

    def refuses_remainder(self, recipe: Recipe) -> bool:
        return (recipe.seq_length or 1) > 1

    def sequence_problem(self, recipe: Recipe) -> str:
        length, size = recipe.seq_length or 1, recipe.minibatch_size // recipe.world_size
        if length == 1:
            return ""
        if recipe.rollout_size // recipe.world_size % recipe.num_minibatches or size % length:
            return f"RuntimeError: minibatches of {size} samples cannot be viewed as sequences of {length}"
        if recipe.num_steps % length:
            return (
                f"after {recipe.num_steps:,} steps, a sequence of {length:,} would continue into the next environment"
            )
        return ""

    def epoch(self, recipe: Recipe) -> Split:
        if recipe.recurrent and recipe.seq_length == 1:  # slices of floor(rollout / K)
            rollout = recipe.rollout_size // recipe.world_size
            return split_by_count(rollout, recipe.num_minibatches, Remainder.DROP).scaled(recipe.world_size)
        return super().epoch(recipe)

    def parse_hyper(self, values: Mapping[str, Any]) -> dict[str, float]:
        hyper = super().parse_hyper(values)
        if str(values.get("agent.learning_rate_scheduler", "")).endswith(_ADAPTIVE):
            options = values.get("agent.learning_rate_scheduler_kwargs")
            chosen = plain_scalar(options.get(_THRESHOLD.leaf)) if isinstance(options, Mapping) else None
            hyper["adaptive_kl"] = (
                check_range(_THRESHOLD, chosen) if is_number(chosen) and chosen else _ADAPTIVE_DEFAULT
            )
        return hyper

    def emit_hyper(self, hyper: Mapping[str, float]) -> dict[str, Any]:
        values = super().emit_hyper(hyper)
        if "adaptive_kl" in hyper:
            values["agent.learning_rate_scheduler"] = _ADAPTIVE
            values["agent.learning_rate_scheduler_kwargs"] = {"kl_threshold": hyper["adaptive_kl"]}
        return values
