"""Dialects of language model trainers: prompts, generations, minibatches, micro-batches and GPUs.

A sample is one completion: N = prompts × generations, T = 1. See docs/language-models.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from rollshape.errors import RequestError
from rollshape.formatting import short_repr
from rollshape.geometry.completion_plan import new_plan
from rollshape.geometry.completions import BatchSplit, nearest_split
from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.behaviors import Normalization, TimeLimit
from rollshape.geometry.dialects.config import lookup
from rollshape.geometry.dialects.keys import OVERRIDE, SHAPE_CONCEPTS
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.dialects.sharing import Ranks
from rollshape.geometry.minibatch import Remainder
from rollshape.geometry.plan import Plan
from rollshape.geometry.rules import Finding

BY_ALGO = {
    "grpo": "a group baseline",
    "rloo": "a leave-one-out baseline",
    "reinforce": "no baseline of its own",
    "ppo": "a value function",
}
GROUP_ALGORITHMS = frozenset({"grpo", "rloo"})  # a prompt's completions are compared with each other
_BUDGET = frozenset({"num_updates", "optimizer_steps", "total_timesteps"})


@dataclass(frozen=True, kw_only=True)
class CompletionRecipe(Recipe):
    """A config of a language model trainer: `num_envs` counts completions, and `num_steps` is 1.

    `microbatch_size` counts completions per GPU and pass, `world_size` data-parallel GPUs. `optimizer_steps` is the
    budget of a library that counts them.
    """

    estimator: str = "grpo"  # of the advantages: one algorithm has several, under one name for all libraries
    num_generations: int = 1
    microbatch_size: int = 1
    world_size: int = 1
    optimizer_steps: int | None = None

    @property
    def split(self) -> BatchSplit:
        return BatchSplit(self.num_envs, self.minibatch_size, self.microbatch_size)

    @property
    def num_prompts(self) -> int:
        return self.num_envs // self.num_generations

    @property
    def accumulation(self) -> int:
        return max(1, self.minibatch_size // (self.world_size * self.microbatch_size))


def new_recipe(split: BatchSplit, sizes: Mapping[str, Any], **values: Any) -> CompletionRecipe:
    """Return the recipe of a split; `sizes` may contain a number of epochs and updates.

    Sizes that a library rejects may be zero after a division; they become the nearest whole numbers.
    """
    split = BatchSplit(*(max(1, size) for size in (split.rollout_size, split.minibatch_size, split.microbatch_size)))
    updates = values.pop("num_updates", sizes.get("num_updates"))
    return CompletionRecipe(
        num_envs=split.rollout_size,
        num_steps=1,
        gae_window=1,
        minibatch_size=split.minibatch_size,
        num_minibatches=max(1, split.rollout_size // split.minibatch_size),
        num_epochs=sizes.get("num_epochs") or 1,
        microbatch_size=split.microbatch_size,
        num_updates=updates,
        total_timesteps=None if updates is None else updates * split.rollout_size,
        **values,
    )


class LanguageDialect(Dialect):
    """How a language model trainer configures its batches; `read_sizes` and `emit` differ between libraries."""

    remainder = Remainder.REFUSE
    normalization = Normalization.GROUP
    time_limit = TimeLimit.COMPLETION
    rollout_name = "completions"
    ranks = Ranks.KEYS
    algorithm = "PPO or GRPO"
    algorithm_names = frozenset({"ppo", "grpo", "dapo", "rloo", "reinforce"})
    estimator_key: ClassVar[str] = ""  # the key that names the estimator, if the library has one
    whole_groups: ClassVar[bool] = False  # minibatches are counted in prompts
    estimators: ClassVar[Mapping[str, tuple[str, str]]]  # the library's name → our name, algorithm

    @property
    def algorithms(self) -> frozenset[str]:
        """The algorithms that the library trains with these keys."""
        return frozenset(algo for _, algo in self.estimators.values())

    def infer_algorithm(self, level: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return the algorithm of the estimator, which most configs name."""
        key = next((key for key in self.keys if key.name == self.estimator_key), None)
        if key is None:
            return None
        hit = lookup(level, key)
        name = key.default if hit is None else hit[1]
        known = isinstance(name, str) and name in self.estimators
        return (self.estimators[name][1], f"{key.leaf} {name}") if known else None

    def read_estimator(self, name: str) -> dict[str, Any]:
        """Return algorithm and estimator of the library's name, as fields of a recipe."""
        if name not in self.estimators:
            known = ", ".join(self.estimators)
            raise RequestError(
                "family",
                f"{self.name}: the advantage estimator {short_repr(name)} is not known.",
                f"Known: {known}. Batch sizes mean the same in all of them.",
            )
        estimator, algo = self.estimators[name]
        return {"algo": algo, "estimator": estimator}

    def write_estimator(self, recipe: CompletionRecipe) -> str:
        """Return the library's name of the recipe's estimator, of another of its algorithm, or of another group's."""
        same = [name for name, (estimator, _) in self.estimators.items() if estimator == recipe.estimator]
        similar = [name for name, (_, algo) in self.estimators.items() if algo == recipe.algo]
        groups = [name for name, (_, algo) in self.estimators.items() if algo in GROUP_ALGORITHMS]
        return (same or similar or groups)[0]

    @property
    def uses_count(self) -> bool:
        return False

    def parse(self, sizes: Mapping[str, Any]) -> Recipe:
        if OVERRIDE in sizes:
            raise RequestError(
                "family",
                f"{self.name} trains a language model and has no environments.",
                "Leave num_envs out; the number of prompts and generations are in the config.",
            )
        return self.read_sizes(sizes)

    def read_sizes(self, sizes: Mapping[str, Any]) -> CompletionRecipe:
        """Return the recipe of values by concept (extras by key name)."""
        raise NotImplementedError

    def adapt(self, recipe: Recipe) -> Recipe:
        """Return the nearest recipe that the library can express."""
        assert isinstance(recipe, CompletionRecipe)
        generations = self.generations(recipe)
        split = nearest_split(recipe.split, generations, recipe.world_size, whole_groups=self.whole_groups)
        return replace(
            recipe,
            num_envs=split.rollout_size,
            minibatch_size=split.minibatch_size,
            num_minibatches=split.rollout_size // split.minibatch_size,
            microbatch_size=split.microbatch_size,
            num_generations=generations,
            extra=recipe.extra,
            refusal="",
        )

    def generations(self, recipe: CompletionRecipe) -> int:
        """Return the number of generations that the library can use."""
        return max(2, recipe.num_generations) if recipe.algo in GROUP_ALGORITHMS else recipe.num_generations

    def findings(self, recipe: CompletionRecipe) -> tuple[Finding, ...]:
        """Return what the library does that its keys do not say."""
        del recipe
        return ()

    def parse_hyper(self, values: Mapping[str, Any]) -> dict[str, float]:
        """Return the hyperparameters; a budget in updates overrides the passes over the dataset."""
        hyper = super().parse_hyper(values)
        if any(values.get(key.name) not in (None, -1) for key in self.keys if key.concept in _BUDGET):
            hyper.pop("data_epochs", None)
        return hyper

    def emit_hyper(self, hyper: Mapping[str, float]) -> dict[str, Any]:
        values = super().emit_hyper(hyper)
        unused = {key.name for key in self.hyper_keys if key.concept == "data_epochs" and key.concept not in hyper}
        return {name: value for name, value in values.items() if name not in unused}


def check_family(source: Dialect, target: Dialect) -> None:
    """Refuse to translate between environments and prompts, whose sizes mean different things."""
    source_is, target_is = isinstance(source, LanguageDialect), isinstance(target, LanguageDialect)
    if source_is != target_is:
        steps, completions = (target, source) if source_is else (source, target)
        raise RequestError(
            "family",
            f"{steps.name} collects steps of environments, {completions.name} completions of prompts: there is no "
            "translation between them.",
            "The analogy: a completion is an environment with one step, so num_envs = prompts × generations and "
            "num_steps = 1. Use rollshape plan --algo grpo.",
        )


def check_algorithm(recipe: Recipe, source: Dialect, target: Dialect) -> None:
    """Refuse to turn a trainer with a value function into one without, or the reverse."""
    if not isinstance(recipe, CompletionRecipe) or not isinstance(target, LanguageDialect):
        return
    if recipe.algo in target.algorithms or (recipe.algo in GROUP_ALGORITHMS and target.algorithms & GROUP_ALGORITHMS):
        return
    possible = " or ".join(sorted(target.algorithms))
    kind = f"{recipe.algo} ({BY_ALGO[recipe.algo]})"
    raise RequestError(
        "family",
        f"The {source.name} config trains {kind}; {target.name} trains {possible} only.",
        "Translate to verl or openrlhf, which train both, or plan the other algorithm with rollshape plan --algo grpo.",
    )


def estimator_changes(before: Recipe, after: Recipe, source: Dialect, target: Dialect) -> Iterator[str]:
    """Yield the difference between the advantage estimators, if there is one."""
    old, new = getattr(before, "estimator", None), getattr(after, "estimator", None)
    if old != new:
        yield f"advantage estimator: {old} in {source.name}, {new} in {target.name}"


def predict_completions(dialect: LanguageDialect, recipe: CompletionRecipe) -> Plan:
    """Return the plan that the library runs; raise a RequestError with its message if it rejects the recipe."""
    problem = dialect.problem(recipe)
    if problem:
        raise _refusal_error(dialect, recipe, problem)
    plan = new_plan(
        recipe.algo,
        recipe.split,
        recipe.num_generations,
        recipe.world_size,
        num_epochs=recipe.num_epochs,
        num_updates=recipe.num_updates,
        reason=f"set by {dialect.name}",
    )
    if recipe.optimizer_steps is not None:  # the last update may be cut short
        plan = replace(plan, gradient_steps=recipe.optimizer_steps)
    return plan.attach_findings((*dialect.findings(recipe), *plan.findings))


def _refusal_error(dialect: LanguageDialect, recipe: CompletionRecipe, problem: str) -> RequestError:
    """Return the error for a rejected recipe, with the nearest sizes that the library accepts."""
    verb = "rejects" if "Error: " in problem else "cannot use"
    alternative = _sizes(dialect, dialect.adapt(recipe))
    near = ", ".join(f"{name} {value}" for name, value in alternative.items())
    return RequestError(
        "completion-split",
        f"{dialect.name} {verb} this batch: {problem}.",
        f"Use {near}; `rollshape patch` changes the file.",
        [alternative],
    )


def _sizes(dialect: LanguageDialect, recipe: Recipe) -> dict[str, Any]:
    """Return the sizes of a recipe in the keys of the library."""
    values = dialect.emit(recipe)
    return {
        key.name: values[key.concept]
        for key in dialect.keys
        if key.concept in SHAPE_CONCEPTS and values.get(key.concept) is not None
    }


def size_config(dialect: LanguageDialect, plan: Plan) -> dict[str, Any]:
    """Return the sizes of a plan in the keys of the library; empty if it cannot train this algorithm or split."""
    sizes = plan.completions
    assert sizes is not None
    if plan.algo not in dialect.algorithms:
        return {}
    recipe = new_recipe(
        BatchSplit(plan.rollout_size, plan.minibatch_size, sizes.microbatch_size),
        {"num_epochs": plan.num_epochs, "num_updates": plan.num_updates},
        algo=plan.algo,
        estimator=plan.algo,  # GRPO and RLOO are the main estimators of their algorithms
        num_generations=sizes.num_generations,
        world_size=plan.world_size,
    )
    return _sizes(dialect, recipe) if dialect.adapt(recipe) == recipe else {}
