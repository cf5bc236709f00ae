"""rl_games."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import gcd
from typing import Any, ClassVar

from rollshape.errors import RequestError
from rollshape.formatting import short_repr
from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.behaviors import CLIPPED, Normalization, Shuffle, Switch, TimeLimit
from rollshape.geometry.dialects.keys import EXTRA, Key
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.dialects.sharing import UNKNOWN_AGENTS, Agents, Ranks, Recurrence, find_outward
from rollshape.geometry.dialects.smac import MULTIWALKER, SMAC, SMAC_AGENTS, SMAC_V2
from rollshape.geometry.divisors import nearest_divisor
from rollshape.geometry.minibatch import Remainder

_CENTRAL = "central_value_config.minibatch_size"
_CENTRAL_RECURRENT = "central value is recurrent"
SEQ_LENGTH = 4  # default of rl_games, which checks it even without a recurrent network


class RlGames(Dialect):
    """`minibatch_size` must divide the rollout size; `tau` is λ; `grad_norm` has no effect without `truncate_grads`.

    With a recurrent network (`network.rnn`), `seq_length` must divide `minibatch_size` (checked before the first
    rollout) and `horizon_length` (an IndexError during it). A central value network has batches without the factor
    num_agents, and minibatches of its own. Agents are those of the environment; `--num-agents` overrides what follows
    from `env_name` and `env_config` (the maps of SMAC, multiwalker).
    """

    name = "rl_games"
    library = "rl_games PPO"
    version = "1.6.5"
    proof = "test_rl_games.py"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("num_actors", "num_envs"),
        Key("horizon_length", "num_steps"),
        Key("minibatch_size", "minibatch_size"),
        Key("minibatch_size_per_env", "minibatch_per_env"),
        Key("mini_epochs", "num_epochs"),
        Key("max_epochs", "num_updates"),
        Key("max_frames", "total_timesteps", aliases=("max_steps",)),
        Key("seq_length", EXTRA, SEQ_LENGTH),
        Key(_CENTRAL, EXTRA, whole=True),
        Key("learning_rate", "learning_rate"),
        Key("gamma", "gamma"),
        Key("tau", "gae_lambda"),
        Key("e_clip", "clip_range"),
        Key("entropy_coef", "entropy_coef"),
        Key("critic_coef", "value_coef", scale=0.5),
        Key("grad_norm", "max_grad_norm"),
        Key("truncate_grads", EXTRA, False),
        Key("multi_gpu", EXTRA, False),
        Key("kl_threshold", "adaptive_kl"),
        Key("lr_schedule", EXTRA, "None"),
        Key("value_bootstrap", EXTRA, True),
    )
    remainder = Remainder.REFUSE
    remainder_detail = (
        "ValueError: 'batch_size' ({rollout}) must be divisible by 'minibatch_size' ({minibatch}) "
        "(AssertionError in older versions)"
    )
    rounds_up = True
    stops_at_first = True
    fixable: ClassVar[frozenset[str]] = frozenset({"seq_length", _CENTRAL})
    rollout_name = "batch_size"
    shuffle = Shuffle.NONE
    normalization = Normalization.ROLLOUT
    time_limit = TimeLimit.CURRENT
    agents = Agents.MULTIPLY
    ranks = Ranks.PER_RANK
    recurrence = Recurrence.SEQUENCES
    switches: ClassVar[tuple[Switch, ...]] = (
        Switch("value_bootstrap", "time limit", {True: TimeLimit.CURRENT, False: TimeLimit.TERMINAL}),
        Switch("clip_value", "value loss", {True: CLIPPED}),
        Switch("normalize_advantage", "advantage normalization", {False: Normalization.OFF}),
    )
    algorithm_keys = ("params.algo.name", "algo.name")
    algorithm_names: ClassVar[frozenset[str]] = Dialect.algorithm_names | {"a2cdiscrete", "a2ccontinuous"}
    notes: ClassVar[tuple[str, ...]] = (
        "a multi-agent environment multiplies the rollout size by its agents: use --num-agents",
        "with multi_gpu, max_frames counts the frames of all processes",
        "2.0.0 (unreleased) has the same keys, sizes and rules; it also takes max_steps for max_frames (1.6.5 raises "
        "an error), and masks the reset steps of Gymnasium's next-step autoreset",
    )

    def facts(self, config: Mapping[str, Any], level: tuple[str, ...]) -> dict[str, Any]:
        return {
            **_agents(config, level),
            "recurrent": _find(config, level, "network", "rnn") is not None,
            _CENTRAL_RECURRENT: _find(config, level, "central_value_config", "network", "rnn") is not None,
        }

    def parse(self, sizes: Mapping[str, Any]) -> Recipe:
        sizes = dict(sizes)
        n, per_env = self.required(sizes, "num_envs"), sizes.get("minibatch_per_env")
        if sizes.get("minibatch_size") is None:  # if both keys are given, minibatch_size is used
            if per_env is None:
                raise RequestError(
                    "missing-key",
                    "The rl_games config has neither minibatch_size nor minibatch_size_per_env.",
                    "Add minibatch_size; rollshape plan computes a valid one.",
                )
            sizes["minibatch_size"] = n * per_env
        self.required(sizes, "num_epochs")
        length = sizes.get("seq_length") or sizes.get(self.prefix + "seq_length") or SEQ_LENGTH
        recipe = super().parse({**sizes, "seq_length": length})
        central = {_CENTRAL_RECURRENT: bool(sizes.get(_CENTRAL_RECURRENT))}
        return replace(recipe, extra={**recipe.extra, **central, self.prefix + "seq_length": length})

    def emit(self, recipe: Recipe) -> dict[str, Any]:
        sizes = {**super().emit(recipe), "minibatch_per_env": None, "total_timesteps": None}
        extra: dict[str, Any] = {"seq_length": self.length(recipe)}
        if self.extra(recipe, _CENTRAL):
            extra[_CENTRAL] = self.extra(recipe, _CENTRAL)
        if recipe.world_size > 1:
            extra["multi_gpu"] = True
        sizes[self.prefix + "value_bootstrap"] = recipe.bootstraps
        return sizes | {self.prefix + name: value for name, value in extra.items()}

    def extra(self, recipe: Recipe, name: str) -> Any:
        """Return an extra value by its name without the prefix."""
        return recipe.extra.get(self.prefix + name)

    def length(self, recipe: Recipe) -> int:
        """Return seq_length, which must divide the rollout even without a recurrent network."""
        return recipe.seq_length or self.extra(recipe, "seq_length") or SEQ_LENGTH

    def _central_minibatch(self, recipe: Recipe, size: int) -> int:
        """Return a valid minibatch of the central value, whose rollout has one sample per environment and step."""
        unit = self.length(recipe) if recipe.extra.get(_CENTRAL_RECURRENT) else 1
        rollout = recipe.num_envs // recipe.world_size * recipe.num_steps
        nearest = unit * nearest_divisor(rollout // unit, Fraction(size, unit))
        choices = (size, recipe.minibatch_size // recipe.world_size, nearest)
        return next((choice for choice in choices if not self._central_problem(recipe, choice)), nearest)

    def _central_problem(self, recipe: Recipe, size: int) -> str:
        rollout, length = recipe.num_envs // recipe.world_size * recipe.num_steps, self.length(recipe)
        if rollout % size:
            return f"the batch of {rollout} is not divisible by its minibatch_size {size}"
        if rollout % length:
            return f"Batch size must be divisible by sequence length ({rollout} % {length})"
        if recipe.extra.get(_CENTRAL_RECURRENT) and (size % length or recipe.num_steps % length):
            return f"its minibatch_size {size} or horizon_length {recipe.num_steps} is not divisible by {length}"
        return ""

    def adapt(self, recipe: Recipe) -> Recipe:
        """Adapt the minibatch, and the sequence length, which must divide the rollout even if it is not used."""
        nearest = super().adapt(recipe)
        rollout = recipe.num_envs // recipe.world_size * recipe.num_steps
        central = self.extra(recipe, _CENTRAL)
        batch = rollout if central else rollout * recipe.num_agents
        is_recurrent = recipe.extra.get(_CENTRAL_RECURRENT, False)
        wanted = self.extra(recipe, "seq_length") or SEQ_LENGTH
        length = nearest_divisor(recipe.num_steps, wanted) if is_recurrent else gcd(wanted, batch)
        length = nearest.seq_length or length
        nearest = replace(nearest, extra={self.prefix + "seq_length": length, _CENTRAL_RECURRENT: is_recurrent})
        if central:
            central = self._central_minibatch(nearest, central)
        return replace(nearest, extra={**nearest.extra, self.prefix + _CENTRAL: central})

    def problem(self, recipe: Recipe) -> str:
        """Return the first of rl_games' checks that fails, in the order in which it makes them."""
        refusal = recipe.refusal or self.remainder_problem(recipe)
        central = self.extra(recipe, _CENTRAL)
        if not refusal and central and (reason := self._central_problem(recipe, central)):
            return f"ValueError: central_value_config: {reason}"
        length, rollout = self.length(recipe), recipe.rollout_size // recipe.world_size
        if not refusal and rollout % length:
            return f"ValueError: Batch size must be divisible by sequence length ({rollout} % {length})"
        return refusal or self.sequence_problem(recipe)

    def sequence_problem(self, recipe: Recipe) -> str:
        length, world = recipe.seq_length, recipe.world_size
        if length is None:
            return ""
        if recipe.minibatch_size // world % length:
            total, count = recipe.num_envs * recipe.num_agents // world, recipe.rollout_size // recipe.minibatch_size
            return (
                f"ValueError: Horizon length ({recipe.num_steps}) times total agents ({total}) divided by num "
                f"minibatches ({count}) must be divisible by sequence length ({length})"
            )
        if recipe.num_steps % length:
            return f"IndexError: horizon_length {recipe.num_steps} is not a multiple of seq_length {length}"
        return ""

    def parse_hyper(self, values: Mapping[str, Any]) -> dict[str, float]:
        hyper = super().parse_hyper(values)
        if not values.get(self.prefix + "truncate_grads"):
            hyper.pop("max_grad_norm", None)
        if values.get(self.prefix + "lr_schedule") != "adaptive":
            hyper.pop("adaptive_kl", None)
        return hyper

    def emit_hyper(self, hyper: Mapping[str, float]) -> dict[str, Any]:
        values = super().emit_hyper(hyper)
        values[self.prefix + "truncate_grads"] = "max_grad_norm" in hyper
        if "max_grad_norm" not in hyper:
            values[self.prefix + "grad_norm"] = 1.0  # no effect, but rl_games raises a KeyError without it
        values[self.prefix + "lr_schedule"] = "adaptive" if "adaptive_kl" in hyper else "None"
        return values


def _find(config: Mapping[str, Any], level: tuple[str, ...], *path: str) -> Any:
    """Return a value of an agent file: its keys are below `params` or `params.config`, or the file is only a part."""
    for section in ((), ("config",), ("params",), ("params", "config")):
        value = find_outward(config, level, *section, *path)
        if value is not None:
            return value
    return None


def _agents(config: Mapping[str, Any], level: tuple[str, ...]) -> dict[str, Any]:
    """Return the agents of the environment that the config names, or that their number is unknown."""
    env, options = _find(config, level, "env_name"), _find(config, level, "env_config")
    options = options if isinstance(options, Mapping) else {}
    if options.get("as_single_agent") or not isinstance(env, str):
        return {}
    name = options.get("name", "3m")
    if env in SMAC and name not in SMAC_AGENTS:
        return {UNKNOWN_AGENTS: f"the SMAC map {short_repr(name)}"}
    if env == SMAC_V2:
        return {UNKNOWN_AGENTS: f"the environment of {short_repr(options.get('path', SMAC_V2))}"}
    if env == MULTIWALKER[0]:
        return {"num_agents": MULTIWALKER[1]}
    return {"num_agents": SMAC_AGENTS[name]} if env in SMAC else {}
