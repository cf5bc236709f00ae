"""Agents, processes and sequences: how each library counts them, and how its sizes become those of all processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from rollshape.errors import RequestError
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.divisors import nearest_divisor, surrounding_multiples

if TYPE_CHECKING:
    from rollshape.geometry.dialects.base import Dialect


class Agents(StrEnum):
    """How the agents of a multi-agent environment enter the rollout."""

    MULTIPLY = "multiply the rollout: N·T·agents samples, one policy for all"
    ENVIRONMENTS = "each agent counts as an environment"
    SEPARATE = "each agent has a rollout and an optimizer of its own"


class Ranks(StrEnum):
    """What the sizes of a config mean if several processes train together."""

    ONE = "not supported: one process trains"
    PER_RANK = "sizes are those of one process; gradients are averaged over all"
    GLOBAL = "sizes are those of all processes, which divide them evenly"
    LEARNERS = "batch and minibatch are those of one learner; environments belong to all"
    KEYS = "as its keys say: the config contains the number of processes"


class Recurrence(StrEnum):
    """What the minibatches of a recurrent policy consist of."""

    NONE = "not supported"
    SEQUENCES = "whole sequences of a configured length, which divides num_steps"
    ENVIRONMENTS = "whole environments: all their steps of the rollout"
    PADDED = "any number of samples: sequences are cut at the edges of a minibatch and padded"


UNKNOWN_AGENTS = "environment with an unknown number of agents"
FACTS = ("num_agents", "world_size", "recurrent", "seq_length")  # of a run; partly in the config, partly arguments


def merge_facts(dialect: Dialect, sizes: dict[str, Any], config: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Add the facts of a run to the sizes of a config: those of the config, and the arguments, which override them."""
    facts = {**config, **{name: value for name, value in given.items() if value is not None}}
    if dialect.ranks is Ranks.KEYS:
        if any(name in facts for name in FACTS):
            keys = " or ".join(key.name for key in dialect.keys if key.concept == "world_size")
            raise RequestError(
                "world-size",
                f"{dialect.name} has no agents and no sequences, and its config contains the number of GPUs.",
                f"Set {keys} in the config.",
            )
        return
    if facts.get("seq_length") is not None:
        facts["recurrent"] = True
    agents, world = facts.get("num_agents") or 1, facts.get("world_size") or 1
    if facts.get(UNKNOWN_AGENTS) and facts.get("num_agents") is None:
        raise RequestError(
            "num-agents",
            f"{dialect.name} multiplies the rollout by the agents of {facts[UNKNOWN_AGENTS]}; their number is unknown.",
            "Give it with --num-agents.",
        )
    if agents > 1 and dialect.agents is Agents.ENVIRONMENTS:
        raise RequestError(
            "num-agents",
            f"In {dialect.name}, each agent counts as an environment; num_agents {agents:,} has no meaning.",
            f"Leave num_agents out; num_envs is the number of environments × {agents:,} agents.",
        )
    if facts.get("recurrent") and dialect.recurrence is Recurrence.NONE:
        raise RequestError(
            "recurrent",
            f"Rollshape does not know how {dialect.name} divides the sequences of a recurrent policy into minibatches.",
            "Leave --recurrent and --seq-length out, or give the config of a feed-forward policy.",
        )
    sizes.update(facts, num_agents=1 if dialect.agents is Agents.SEPARATE else agents, world_size=world)
    for concept in dialect.per_rank if dialect.ranks is Ranks.PER_RANK else ():
        if isinstance(sizes.get(concept), int):
            sizes[concept] *= world


def emit_per_rank(dialect: Dialect, recipe: Recipe) -> dict[str, Any]:
    """Return the values of `dialect.emit` as the config contains them: per process, if the library counts so."""
    sizes = dialect.emit(recipe)
    for concept in dialect.per_rank if dialect.ranks is Ranks.PER_RANK else ():
        if isinstance(sizes.get(concept), int):
            sizes[concept] = -(-sizes[concept] // recipe.world_size)
    return sizes


def receive(dialect: Dialect, recipe: Recipe) -> Recipe:
    """Return the recipe of another library in this library's terms: its agents, processes and sequences."""
    if dialect.ranks is Ranks.KEYS:
        return recipe
    if dialect.agents is not Agents.MULTIPLY:
        recipe = replace(recipe, num_envs=recipe.num_envs * recipe.num_agents, num_agents=1)
    if dialect.ranks is Ranks.ONE:
        recipe = replace(recipe, world_size=1)
    if not recipe.recurrent or dialect.recurrence is Recurrence.NONE:
        return replace(recipe, recurrent=False, seq_length=None)
    return replace(recipe, seq_length=sequence_length(dialect, recipe.num_steps, recipe.seq_length))


def sequence_length(dialect: Dialect, num_steps: int, configured: int | None) -> int | None:
    """Return the length of the sequences of a recurrent policy."""
    if dialect.recurrence is Recurrence.PADDED:
        return None
    return num_steps if dialect.recurrence is Recurrence.ENVIRONMENTS else configured or num_steps


def with_whole_sequences(recipe: Recipe) -> Recipe:
    """Return the recipe with the nearest sequence length that divides the steps of an environment."""
    if recipe.seq_length is None or recipe.num_steps % recipe.seq_length == 0:
        return recipe
    return replace(recipe, seq_length=nearest_divisor(recipe.num_steps, recipe.seq_length))


def rank_problem(dialect: Dialect, recipe: Recipe) -> RequestError | None:
    """Return the error of a recipe whose environments cannot be divided among the processes, or None."""
    n, world = recipe.num_envs, recipe.world_size
    if world == 1 or dialect.ranks is Ranks.KEYS:
        return None
    if dialect.ranks is Ranks.ONE:
        return RequestError(
            "world-size",
            f"{dialect.name} trains in one process; {world:,} were requested.",
            "Leave --gpus out, or translate the config to a library that trains in several processes.",
        )
    if n % world == 0 or dialect.ranks is Ranks.LEARNERS:
        return None
    near = surrounding_multiples(n, world)
    return RequestError(
        "world-size",
        f"{dialect.name}: {n:,} environments cannot be divided evenly among {world:,} processes.",
        f"Use num_envs {' or '.join(f'{m:,} ({m // world:,} per process)' for m in near)}.",
        [{"num_envs": m} for m in near],
    )


def find_outward(config: Mapping[str, Any], level: tuple[str, ...], *path: str, missing: Any = None) -> Any:
    """Return the value at a path (nested, or one dotted key), searched from the level of the sizes outward."""
    for depth in range(len(level), -1, -1):
        for keys in dict.fromkeys((path, (".".join(path),))):
            value: Any = config
            for part in (*level[:depth], *keys):
                value = value.get(part, _ABSENT) if isinstance(value, Mapping) else _ABSENT
            if value is not _ABSENT:
                return value
    return missing


_ABSENT = object()
