"""OpenAI Baselines: PPO2, and PPO1 on MPI ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.behaviors import Normalization, TimeLimit
from rollshape.geometry.dialects.keys import Key
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.dialects.sharing import Recurrence, find_outward
from rollshape.geometry.divisors import nearest_divisor
from rollshape.geometry.minibatch import Remainder, Split


class BaselinesPPO2(Dialect):
    """`nminibatches` must divide the rollout, and num_env if the network is recurrent (`network: cnn_lstm`)."""

    name = "baselines_ppo2"
    library = "OpenAI Baselines PPO2"
    version = "2020-01"
    keys = (
        Key("num_env", "num_envs", 1),
        Key("nsteps", "num_steps", 2048),
        Key("nminibatches", "num_minibatches", 4),
        Key("noptepochs", "num_epochs", 4),
        Key("total_timesteps", "total_timesteps", aliases=("num_timesteps",)),
        Key("lr", "learning_rate", 3e-4),
        Key("gamma", "gamma", 0.99),
        Key("lam", "gae_lambda", 0.95),
        Key("cliprange", "clip_range", 0.2),
        Key("ent_coef", "entropy_coef", 0.0),
        Key("vf_coef", "value_coef", 0.5, scale=0.5),
        Key("max_grad_norm", "max_grad_norm", 0.5, off=None),
    )
    remainder = Remainder.REFUSE
    remainder_detail = "AssertionError: nbatch % nminibatches == 0"
    time_limit = TimeLimit.TERMINAL
    value_clip = "always clipped"
    algorithm_names = Dialect.algorithm_names | {"ppo2"}
    recurrence = Recurrence.ENVIRONMENTS

    def facts(self, config: Mapping[str, Any], level: tuple[str, ...]) -> dict[str, Any]:
        return {"recurrent": "lstm" in str(find_outward(config, level, "network") or "")}

    def sequence_problem(self, recipe: Recipe) -> str:
        n, count = recipe.num_envs, recipe.num_minibatches
        return f"AssertionError: nenvs % nminibatches == 0 ({n} % {count})" if recipe.recurrent and n % count else ""


class BaselinesPPO1(Dialect):
    """One environment per MPI rank; `optim_batchsize` is the minibatch size per rank."""

    name = "baselines_ppo1"
    library = "OpenAI Baselines PPO1"
    version = "2020-01"
    keys = (
        Key("mpi_ranks", "num_envs", 1),
        Key("timesteps_per_actorbatch", "num_steps", 2048),
        Key("optim_batchsize", "minibatch_size", 64),
        Key("optim_epochs", "num_epochs", 10),
        Key("max_iters", "num_updates"),
        Key("max_timesteps", "total_timesteps"),
        Key("optim_stepsize", "learning_rate", 3e-4),
        Key("gamma", "gamma", 0.99),
        Key("lam", "gae_lambda", 0.95),
        Key("clip_param", "clip_range", 0.2),
        Key("entcoeff", "entropy_coef", 0.0),
    )
    fixed = {"value_coef": 1.0}  # noqa: RUF012
    remainder = Remainder.DROP
    remainder_detail = "omits the samples of a rank that fill no minibatch, different ones in each epoch"
    rounds_up = True
    normalization = Normalization.ROLLOUT
    time_limit = TimeLimit.TERMINAL
    algorithm_names = Dialect.algorithm_names | {"ppo1"}
    notes = ("max_timesteps only counts finished episodes and is exceeded; max_iters is used instead",)

    def parse(self, sizes: Mapping[str, Any]) -> Recipe:
        n, t, share = self.required(sizes, "num_envs"), sizes["num_steps"], sizes["minibatch_size"]
        refusal = (
            f"optim_batchsize {share:,} exceeds the {t:,} steps per rank: no update would be made" if share > t else ""
        )
        recipe = self.recipe({**sizes, "minibatch_size": share * n}, n, t, refusal)
        return replace(recipe, num_minibatches=max(1, t // share))

    def emit(self, recipe: Recipe) -> dict[str, Any]:
        share = recipe.minibatch_size // recipe.num_envs
        return {**super().emit(recipe), "minibatch_size": share, "total_timesteps": None}

    def adapt(self, recipe: Recipe) -> Recipe:
        share = nearest_divisor(recipe.num_steps, max(Fraction(1), Fraction(recipe.minibatch_size, recipe.num_envs)))
        return self.with_split(recipe, share * recipe.num_envs, recipe.num_steps // share, recipe.num_steps)

    def epoch(self, recipe: Recipe) -> Split:
        size, count = recipe.minibatch_size, recipe.num_minibatches
        return Split(recipe.rollout_size, size, count, size, dropped=recipe.rollout_size - count * size)
