"""A dozen random small rollouts for each library, half of them with a minibatch that does not divide."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rollshape.geometry.dialects import DIALECTS, Translation, translate
from rollshape.geometry.dialects.reading import read
from rollshape.geometry.dialects.recipe import Recipe

UPDATES = 2
NEVER_REACHED = 1e6  # a KL: with it no update stops early


@dataclass(frozen=True)
class Shape:
    """A rollout as the user of one library writes it down."""

    name: str
    source: str
    config: Mapping[str, Any]

    def __str__(self) -> str:
        return self.name

    def translated(self, target: str) -> Translation:
        return translate(self.config, self.source, target)


def dozen(seed: str) -> list[Shape]:
    """Six shapes in SB3's words, which say M, and six in CleanRL's, which say K; every other one divides."""
    chance = random.Random(seed)
    return [(_sb3 if i < 6 else _cleanrl)(chance, divides=i % 2 == 0) for i in range(12)]


def sparse() -> list[Shape]:
    """Configs that say less: neither clips the gradient, and what is missing is the library's default."""
    ppo1 = {"mpi_ranks": 3, "timesteps_per_actorbatch": 4, "optim_batchsize": 2, "optim_epochs": 2, "max_iters": 2}
    rllib = {
        "num_env_runners": 1,
        "num_envs_per_env_runner": 3,
        "train_batch_size_per_learner": 12,
        "minibatch_size": 4,
    }
    return [
        Shape("from baselines_ppo1", "baselines_ppo1", ppo1),
        Shape("from rllib", "rllib", rllib | {"num_epochs": 2, "training_iteration": 2}),
    ]


def recipe_of(dialect: str, config: Mapping[str, Any]) -> Recipe:
    """What Rollshape reads in a library's config."""
    return read(config, DIALECTS[dialect]).recipe


def _sb3(chance: random.Random, divides: bool) -> Shape:
    n, t, epochs = _sizes(chance)
    rollout = n * t
    size = _choose(chance, range(2, rollout + 2), rollout, divides)
    config = {
        "n_envs": n,
        "n_steps": t,
        "batch_size": size,
        "n_epochs": epochs,
        "n_timesteps": rollout + 1,  # SB3 rounds up: two updates
        "learning_rate": 0.0013,
        "gamma": 0.97,
        "gae_lambda": 0.91,
        "clip_range": 0.17,
        "ent_coef": 0.003,
        "vf_coef": 0.35,
        "max_grad_norm": 0.65,
        "target_kl": NEVER_REACHED,
    }
    return Shape(f"{n}x{t},M{size},E{epochs}", "sb3", config)


def _cleanrl(chance: random.Random, divides: bool) -> Shape:
    n, t, epochs = _sizes(chance)
    rollout = n * t
    count = _choose(chance, range(1, min(rollout, 9) + 1), rollout, divides)
    config = {
        "num_envs": n,
        "num_steps": t,
        "num_minibatches": count,
        "update_epochs": epochs,
        "total_timesteps": 3 * rollout - 1,  # CleanRL rounds down: two updates
        "learning_rate": 0.0021,
        "gamma": 0.96,
        "gae_lambda": 0.88,
        "clip_coef": 0.23,
        "ent_coef": 0.004,
        "vf_coef": 0.7,
        "max_grad_norm": 0.75,
        "target_kl": NEVER_REACHED,
    }
    return Shape(f"{n}x{t},K{count},E{epochs}", "cleanrl", config)


def _sizes(chance: random.Random) -> tuple[int, int, int]:
    """N, T and the epochs; from a rollout of 5 up there are minibatches that divide it and some that do not."""
    while True:
        n, t, epochs = chance.randint(1, 8), chance.randint(2, 24), chance.randint(1, 4)
        if n * t > 4:
            return n, t, epochs


def _choose(chance: random.Random, sizes: range, rollout: int, divides: bool) -> int:
    return chance.choice([size for size in sizes if (rollout % size == 0) == divides])
