"""Policies for another number of environments: which sizes of a recipe are kept, and which follow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.divisors import nearest_quotient

PolicyName = Literal[
    "envs-only", "keep-minibatch", "keep-num-minibatches", "keep-rollout", "keep-updates", "sqrt-lr", "linear-lr"
]  # fmt: skip
ENVS_ONLY: Final = "envs-only"


@dataclass(frozen=True, slots=True)
class RescalePolicy:
    """What is kept when N changes; a policy keeps num_epochs, and everything that it does not mention."""

    name: PolicyName
    statement: str
    keeps_count: bool = False  # the number of minibatches instead of their size
    keeps_rollout: bool = False  # N·T, by T
    keeps_updates: bool = False  # the number of updates, by the budget
    lr_power: float = 0.0  # of minibatch_size in the learning rate


POLICIES: dict[str, RescalePolicy] = {
    policy.name: policy
    for policy in (
        RescalePolicy(ENVS_ONLY, "changes num_envs and nothing else; what follows depends on the keys of the library"),
        RescalePolicy("keep-minibatch", "keeps minibatch_size and learning_rate; the gradient steps per update follow"),
        RescalePolicy(
            "keep-num-minibatches",
            "keeps num_minibatches and learning_rate; minibatch_size follows num_envs",
            keeps_count=True,
        ),
        RescalePolicy(
            "keep-rollout", "keeps rollout_size by num_steps, and with it all gradient steps", keeps_rollout=True
        ),
        RescalePolicy(
            "keep-updates",
            "keeps num_updates and num_minibatches; total_timesteps follows num_envs",
            keeps_count=True,
            keeps_updates=True,
        ),
        RescalePolicy(
            "sqrt-lr",
            "keeps num_minibatches; the learning rate follows the square root of minibatch_size",
            keeps_count=True,
            lr_power=0.5,
        ),
        RescalePolicy(
            "linear-lr",
            "keeps num_minibatches; the learning rate is proportional to minibatch_size",
            keeps_count=True,
            lr_power=1.0,
        ),
    )
}


def scale_sizes(recipe: Recipe, num_envs: int, world_size: int, policy: RescalePolicy) -> Recipe:
    """Return the recipe with `num_envs` environments on `world_size` processes; a library may have to adapt it.

    The budget is kept in timesteps, or in updates if the policy says so; `num_updates` is left to the library.
    """
    steps, window, streams = recipe.num_steps, recipe.gae_window, num_envs * recipe.num_agents
    if policy.keeps_rollout and window < steps:  # whole windows, as in Brax
        steps = window * nearest_quotient(recipe.rollout_size, streams * window)
    elif policy.keeps_rollout:
        steps = nearest_quotient(recipe.rollout_size, streams)
        window = window if steps % window == 0 else steps
    rollout = streams * steps
    if policy.keeps_count:
        count = min(recipe.num_minibatches, rollout)
        size = rollout // count
    else:
        size = min(recipe.minibatch_size, rollout)
        count = max(1, rollout // size)
    total, updates = recipe.total_timesteps, None
    if policy.keeps_updates and total is not None:
        total, updates = total * rollout // recipe.rollout_size, recipe.num_updates
    return replace(
        recipe,
        num_envs=num_envs,
        world_size=world_size,
        num_steps=steps,
        minibatch_size=size,
        num_minibatches=count,
        gae_window=window,
        total_timesteps=total,
        num_updates=updates,
    )


def scale_learning_rate(rate: float, old_size: int, new_size: int, policy: RescalePolicy) -> float:
    """Return rate · (new_size / old_size)^p, to three digits; p is that of the policy."""
    if policy.lr_power == 0 or old_size == new_size:
        return rate
    return float(f"{rate * (new_size / old_size) ** policy.lr_power:.3g}")
