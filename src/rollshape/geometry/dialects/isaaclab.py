"""Isaac Lab: the agent files of its four libraries; `--num_envs` is a flag of its scripts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.behaviors import TimeLimit
from rollshape.geometry.dialects.keys import EXTRA, Key
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.dialects.rl_games import RlGames
from rollshape.geometry.dialects.rsl_rl import RslRl
from rollshape.geometry.dialects.sb3 import SB3
from rollshape.geometry.dialects.skrl import Skrl

_BY_COUNT = "uses n_minibatches"
_NUM_ENVS = Key("num_envs", "num_envs", aliases=("scene.num_envs",))


def _isaaclab_keys(keys: tuple[Key, ...], prefix: str = "") -> tuple[Key, ...]:
    """Return a library's keys at their place in Isaac Lab's file, with num_envs as a flag of the script."""
    return (_NUM_ENVS, *(replace(key, name=prefix + key.name) for key in keys if key.concept != "num_envs"))


class IsaacLabRlGames(RlGames):
    """rl_games_ppo_cfg.yaml: the script sets `num_actors: -1`; the pinned version of rl_games asserts divisibility."""

    name = "isaaclab:rl_games"
    library = "Isaac Lab with rl_games"
    version = "2.3.2"
    layout = "nested"
    prefix = "params.config."
    keys = (
        *_isaaclab_keys(tuple(key for key in RlGames.keys if key.name != "value_bootstrap"), prefix),
        Key(prefix + "value_bootstrap", EXTRA, False),  # the pinned version of rl_games is 1.6.1
        Key(prefix + "num_actors", EXTRA, -1),
    )
    time_limit = TimeLimit.TERMINAL

    def parse(self, sizes: Mapping[str, Any]) -> Recipe:
        return super().parse({**sizes, "num_envs": sizes.get("num_envs") or sizes.get("params.config.num_actors")})


class IsaacLabRslRl(RslRl):
    """The YAML dump of rsl_rl_ppo_cfg.py."""

    name = "isaaclab:rsl_rl"
    library = "Isaac Lab with RSL-RL"
    version = "2.3.2"
    layout = "nested"
    keys = _isaaclab_keys(RslRl.keys)


class IsaacLabSkrl(Skrl):
    """skrl_ppo_cfg.yaml: timesteps = `max_iterations` × rollouts."""

    name = "isaaclab:skrl"
    library = "Isaac Lab with skrl"
    version = "2.3.2"
    layout = "nested"
    keys = _isaaclab_keys(Skrl.keys)


class IsaacLabSB3(SB3):
    """sb3_ppo_cfg.yaml: `n_minibatches`, if given, overrides `batch_size`."""

    name = "isaaclab:sb3"
    library = "Isaac Lab with Stable-Baselines3"
    version = "2.3.2"
    layout = "nested"
    keys = (*_isaaclab_keys(SB3.keys), Key("n_minibatches", "num_minibatches"))

    def parse(self, sizes: Mapping[str, Any]) -> Recipe:
        count = sizes.get("num_minibatches")
        recipe = super().parse({**sizes, "minibatch_size": None} if count else sizes)
        return replace(recipe, num_minibatches=count or recipe.num_minibatches, extra={_BY_COUNT: bool(count)})

    def adapt(self, recipe: Recipe) -> Recipe:
        nearest, by_count = super().adapt(recipe), recipe.extra.get(_BY_COUNT, False)
        size = nearest.rollout_size // nearest.num_minibatches if by_count else nearest.minibatch_size
        return replace(nearest, minibatch_size=size, extra={_BY_COUNT: by_count})

    def emit(self, recipe: Recipe) -> dict[str, Any]:
        omitted = "minibatch_size" if recipe.extra.get(_BY_COUNT) else "num_minibatches"
        return {**super().emit(recipe), omitted: None}


FLAVORS: tuple[Dialect, ...] = (IsaacLabRlGames(), IsaacLabRslRl(), IsaacLabSkrl(), IsaacLabSB3())
