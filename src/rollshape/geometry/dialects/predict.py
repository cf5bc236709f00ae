"""Predicting what a library does with a recipe: its Plan, including its treatment of remainders and budgets."""

from __future__ import annotations

from fractions import Fraction

from rollshape.errors import RequestError
from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.behaviors import Shuffle
from rollshape.geometry.dialects.keys import EXTRA
from rollshape.geometry.dialects.language import CompletionRecipe, LanguageDialect, predict_completions
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.dialects.sharing import emit_per_rank, rank_problem
from rollshape.geometry.divisors import surrounding_divisors
from rollshape.geometry.memory import on_policy_memory
from rollshape.geometry.minibatch import Split
from rollshape.geometry.partition import MinibatchSource
from rollshape.geometry.plan import Plan
from rollshape.geometry.request import Request
from rollshape.geometry.rules import Finding, check_rules

_SPLIT_CONCEPTS = ("num_steps", "rollout_size", "minibatch_size", "num_minibatches", "trajectories")
_ROLLSHAPE_RULES = ("remainder", "lr-minibatch", "budget-rounding")  # specific to Rollshape's trainer


def predict(dialect: Dialect, recipe: Recipe, source: MinibatchSource = "user") -> Plan:
    """Return the plan that the library runs; raise a RequestError with its message if it rejects the recipe."""
    if isinstance(dialect, LanguageDialect) and isinstance(recipe, CompletionRecipe):
        return predict_completions(dialect, recipe)
    check_recipe(dialect, recipe)
    split, updates = dialect.epoch(recipe), recipe.num_updates
    if updates == 0:
        raise RequestError(
            "zero-updates",
            f"{dialect.name}: a budget of {recipe.total_timesteps or 0:,} timesteps allows no update with a rollout of "
            f"{recipe.rollout_size:,}.",
            f"The smallest possible budget is {dialect.least_budget(recipe):,}.",
        )
    steps = dialect.steps_per_update(recipe)
    result = Plan(
        algo=recipe.algo,
        num_envs=recipe.num_envs,
        num_steps=recipe.num_steps,
        gae_window=recipe.gae_window,
        rollout_size=recipe.rollout_size,
        minibatch_size=split.minibatch_size,
        minibatch_source=source,
        minibatch_reason=f"set by {dialect.name}",
        num_minibatches=split.num_minibatches,
        last_minibatch_size=split.last_minibatch_size,
        dropped=split.dropped,
        larger_minibatches=split.larger,
        num_epochs=recipe.num_epochs,
        num_agents=recipe.num_agents,
        world_size=recipe.world_size,
        recurrent=recipe.recurrent,
        seq_length=recipe.seq_length,
        total_timesteps=recipe.total_timesteps,
        actual_timesteps=None if updates is None else updates * recipe.rollout_size,
        num_updates=updates,
        gradient_steps=None if updates is None else updates * steps,
        gradient_steps_per_update=steps,
        sample_reuse=recipe.num_epochs * (1 - split.dropped / recipe.rollout_size),
        memory=on_policy_memory(
            Request(),
            recipe.num_envs * recipe.num_agents // recipe.world_size,
            recipe.rollout_size // recipe.world_size,
            split.minibatch_size // recipe.world_size,
        ),
    )
    request = Request(
        gamma=recipe.hyper.get("gamma", 0.99),
        gae_lambda=recipe.hyper.get("gae_lambda", 0.95),
    )
    general = [finding for finding in check_rules(result, request) if finding.rule not in _ROLLSHAPE_RULES]
    special = (*_remainder_finding(dialect, recipe, split), *_unknown_ranks(dialect, recipe))
    return result.attach_findings((*special, *general))


def check_recipe(dialect: Dialect, recipe: Recipe) -> None:
    """Raise a RequestError with the library's message and the nearest valid sizes if it rejects the recipe."""
    error = rank_problem(dialect, recipe)
    if error is None and (refusal := dialect.problem(recipe)):
        error = refusal_error(dialect, recipe, refusal)
    if error is not None:
        raise error


def refusal_error(dialect: Dialect, recipe: Recipe, refusal: str) -> RequestError:
    """Return the error for a rejected recipe, with the nearest sizes that the library accepts."""
    verb = "rejects" if "Error: " in refusal else "cannot use"
    nearest = dialect.adapt(recipe)
    alternative = {}
    if not dialect.problem(nearest):
        sizes = emit_per_rank(dialect, nearest)
        for entry in dialect.keys:
            fixable = entry.concept == EXTRA and entry.name.removeprefix(dialect.prefix) in dialect.fixable
            value = sizes.get(entry.name if fixable else entry.concept)
            if value is not None and (fixable or entry.concept in _SPLIT_CONCEPTS):
                alternative[entry.leaf] = value
    near = ", ".join(f"{name} {value}" for name, value in alternative.items())
    return RequestError(
        "divisibility",
        f"{dialect.name} {verb} {_product(recipe)} = {recipe.rollout_size:,} in minibatches of "
        f"{recipe.minibatch_size:,}: {refusal}.",
        f"Use {near}; `rollshape patch` changes the file." if near else "Use a larger rollout.",
        [alternative] if alternative else (),
    )


def _product(recipe: Recipe) -> str:
    agents = f" × {recipe.num_agents:,} agents" if recipe.num_agents > 1 else ""
    return f"{recipe.num_envs:,} × {recipe.num_steps:,}{agents}"


def _remainder_finding(dialect: Dialect, recipe: Recipe, split: Split) -> tuple[Finding, ...]:
    """Report what the library does with the samples that fill no minibatch."""
    unit = recipe.minibatch_unit
    count = recipe.num_minibatches if dialect.uses_count else max(1, recipe.minibatch_size // unit)
    rest = recipe.rollout_size // unit % count * unit
    if rest == 0:
        return ()
    message = (
        f"{rest:,} of {recipe.rollout_size:,} samples fill no minibatch: {dialect.name} {dialect.remainder_detail}."
    )
    if split.dropped and dialect.shuffle is Shuffle.ONCE:
        message += f" {lost_samples(recipe, split.dropped // recipe.world_size)}"
    near = surrounding_divisors(recipe.rollout_size // unit, Fraction(split.minibatch_size, unit))
    sizes = " or ".join(f"{size * unit:,}" for size in near)
    return (
        Finding(
            "remainder",
            "warn",
            message,
            f"Minibatches of {sizes} divide the rollout.",
            f"source code of {dialect.library} {dialect.version}",
            {"remainder": rest, "dropped": split.dropped, "last_minibatch_size": split.last_minibatch_size},
        ),
    )


def _unknown_ranks(dialect: Dialect, recipe: Recipe) -> tuple[Finding, ...]:
    """Report that a config is for several processes, but does not contain their number."""
    if recipe.world_size > 1 or not recipe.extra.get(dialect.prefix + "multi_gpu"):
        return ()
    message = f"multi_gpu is true, and {dialect.name} counts per process: these are the sizes of one process."
    source = f"source code of {dialect.library} {dialect.version}"
    return (Finding("world-size", "info", message, "Give the number of processes: --gpus.", source, {}),)


def lost_samples(recipe: Recipe, dropped: int) -> str:
    """Describe which (step, environment) pairs the last samples of a rank's time-major rollout are."""
    n, t = recipe.num_envs // recipe.world_size, recipe.num_steps
    where = " in every process" if recipe.world_size > 1 else ""
    if recipe.seq_length:
        return f"Never used: all steps of environments {n - dropped // t}…{n - 1}{where}."
    whole, part = divmod(dropped, n)
    parts = []
    if part:
        parts.append(f"step {t - whole - 1} of environments {n - part}…{n - 1}")
    if whole:
        parts.append(f"steps {t - whole}…{t - 1} of all environments")
    return f"Never used: {', '.join(parts)}{where}."
