"""What a library will do with a recipe: its Plan, in its own treatment of remainders and budgets."""

from __future__ import annotations

from rollshape.errors import RequestError
from rollshape.geometry.cut import MinibatchSource
from rollshape.geometry.dialects.base import EXTRA, Dialect, Shuffle
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.divisors import surrounding_divisors
from rollshape.geometry.memory import on_policy_memory
from rollshape.geometry.minibatch import Split
from rollshape.geometry.plan import Plan
from rollshape.geometry.request import Request
from rollshape.geometry.rules import Finding, findings

_CUT = ("num_steps", "rollout_size", "minibatch_size", "num_minibatches", "trajectories")
_OWN_RULES = ("remainder", "lr-minibatch", "budget-rounding")  # they speak of Rollshape's own treatment


def predict(dialect: Dialect, recipe: Recipe, source: MinibatchSource = "user") -> Plan:
    """The plan that the library runs; a recipe that it refuses is a RequestError in its own words."""
    refusal = dialect.problem(recipe)
    if refusal:
        raise refused(dialect, recipe, refusal)
    cut, updates = dialect.epoch(recipe), recipe.num_updates
    if updates == 0:
        raise RequestError(
            "zero-updates",
            f"{dialect.name}: a budget of {recipe.total_timesteps or 0:,} makes no update of {recipe.rollout_size:,}.",
            f"The smallest budget that makes one is {dialect.least_budget(recipe):,}.",
        )
    steps = dialect.steps_per_update(recipe)
    drafted = Plan(
        algo="ppo",
        num_envs=recipe.num_envs,
        num_steps=recipe.num_steps,
        gae_window=recipe.gae_window,
        rollout_size=recipe.rollout_size,
        minibatch_size=cut.minibatch_size,
        minibatch_source=source,
        minibatch_reason=f"as {dialect.name} makes it",
        num_minibatches=cut.num_minibatches,
        last_minibatch_size=cut.last_minibatch_size,
        dropped=cut.dropped,
        larger_minibatches=cut.larger,
        num_epochs=recipe.num_epochs,
        total_timesteps=recipe.total_timesteps,
        actual_timesteps=None if updates is None else updates * recipe.rollout_size,
        num_updates=updates,
        gradient_steps=None if updates is None else updates * steps,
        gradient_steps_per_update=steps,
        sample_reuse=recipe.num_epochs * (1 - cut.dropped / recipe.rollout_size),
        memory=on_policy_memory(Request(), recipe.num_envs, recipe.rollout_size, cut.minibatch_size),
    )
    request = Request(
        gamma=recipe.hyper.get("gamma", 0.99),
        gae_lambda=recipe.hyper.get("gae_lambda", 0.95),
    )
    general = [finding for finding in findings(drafted, request) if finding.rule not in _OWN_RULES]
    return drafted.judged((*_remainder(dialect, recipe, cut), *general))


def refused(dialect: Dialect, recipe: Recipe, refusal: str) -> RequestError:
    """The library's refusal, with the nearest sizes that it takes, in its own words."""
    verb = "refuses" if "Error: " in refusal else "cannot use"
    legal = dialect.adapt(recipe)
    offer = {}
    if not dialect.problem(legal):
        said = dialect.say(legal)
        for entry in dialect.keys:
            mendable = entry.concept == EXTRA and entry.name.removeprefix(dialect.prefix) in dialect.mendable
            value = said.get(entry.name if mendable else entry.concept)
            if value is not None and (mendable or entry.concept in _CUT):
                offer[entry.leaf] = value
    near = ", ".join(f"{name} {value}" for name, value in offer.items())
    return RequestError(
        "divisibility",
        f"{dialect.name} {verb} {recipe.num_envs:,} × {recipe.num_steps:,} = {recipe.rollout_size:,} in minibatches of "
        f"{recipe.minibatch_size:,}: {refusal}.",
        f"It takes {near}; `rollshape patch` repairs a file." if near else "Collect a larger rollout.",
        [offer] if offer else (),
    )


def _remainder(dialect: Dialect, recipe: Recipe, cut: Split) -> tuple[Finding, ...]:
    """What the library does with the samples that fill no minibatch, exactly."""
    rest = recipe.rollout_size - recipe.num_minibatches * (recipe.rollout_size // recipe.num_minibatches)
    if not dialect.says_count:
        rest = recipe.rollout_size % recipe.minibatch_size
    if rest == 0:
        return ()
    message = (
        f"{rest:,} of {recipe.rollout_size:,} samples fill no minibatch: {dialect.name} {dialect.remainder_detail}."
    )
    if cut.dropped and dialect.shuffle is Shuffle.ONCE:
        message += f" {lost_samples(recipe, cut.dropped)}"
    legal = " or ".join(f"{size:,}" for size in surrounding_divisors(recipe.rollout_size, cut.minibatch_size))
    return (
        Finding(
            "remainder",
            "warn",
            message,
            f"Minibatches of {legal} divide the rollout.",
            f"{dialect.library} {dialect.version}, its source",
            {"remainder": rest, "dropped": cut.dropped, "last_minibatch_size": cut.last_minibatch_size},
        ),
    )


def lost_samples(recipe: Recipe, dropped: int) -> str:
    """Which (step, environment) pairs a time-major tail holds."""
    n, t = recipe.num_envs, recipe.num_steps
    whole, part = divmod(dropped, n)
    lost = []
    if part:
        lost.append(f"step {t - whole - 1} of environments {n - part}…{n - 1}")
    if whole:
        lost.append(f"steps {t - whole}…{t - 1} of all environments")
    return f"Never trained on: {', '.join(lost)}."
