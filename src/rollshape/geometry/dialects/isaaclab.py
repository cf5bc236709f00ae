"""Isaac Lab: the agent files of its four libraries, with `--num_envs` beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rollshape.geometry.dialects.base import EXTRA, Dialect, Key
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.dialects.rl_games import RlGames
from rollshape.geometry.dialects.rsl_rl import RslRl
from rollshape.geometry.dialects.sb3 import SB3
from rollshape.geometry.dialects.skrl import Skrl

_BY_COUNT = "said as n_minibatches"
_NUM_ENVS = Key("num_envs", "num_envs", aliases=("scene.num_envs",))


def _placed(keys: tuple[Key, ...], prefix: str = "") -> tuple[Key, ...]:
    """A library's keys where Isaac Lab's file has them; the number of environments is a flag of the script."""
    return (_NUM_ENVS, *(replace(key, name=prefix + key.name) for key in keys if key.concept != "num_envs"))


class IsaacLabRlGames(RlGames):
    """rl_games_ppo_cfg.yaml: `num_actors: -1` is filled in by the script; the pinned rl_games asserts divisibility."""

    name = "isaaclab:rl_games"
    library = "Isaac Lab with rl_games"
    version = "2.3.2"
    layout = "nested"
    prefix = "params.config."
    keys = (*_placed(RlGames.keys, prefix), Key(prefix + "num_actors", EXTRA, -1))

    def hear(self, said: Mapping[str, Any]) -> Recipe:
        return super().hear({**said, "num_envs": said.get("num_envs") or said.get("params.config.num_actors")})


class IsaacLabRslRl(RslRl):
    """rsl_rl_ppo_cfg.py, as its YAML dump has it."""

    name = "isaaclab:rsl_rl"
    library = "Isaac Lab with RSL-RL"
    version = "2.3.2"
    layout = "nested"
    keys = _placed(RslRl.keys)


class IsaacLabSkrl(Skrl):
    """skrl_ppo_cfg.yaml: `max_iterations` becomes timesteps = iterations × rollouts."""

    name = "isaaclab:skrl"
    library = "Isaac Lab with skrl"
    version = "2.3.2"
    layout = "nested"
    keys = _placed(Skrl.keys)


class IsaacLabSB3(SB3):
    """sb3_ppo_cfg.yaml: `n_minibatches`, where it is given, overrides `batch_size`."""

    name = "isaaclab:sb3"
    library = "Isaac Lab with Stable-Baselines3"
    version = "2.3.2"
    layout = "nested"
    keys = (*_placed(SB3.keys), Key("n_minibatches", "num_minibatches"))

    def hear(self, said: Mapping[str, Any]) -> Recipe:
        count = said.get("num_minibatches")
        recipe = super().hear({**said, "minibatch_size": None} if count else said)
        return replace(recipe, extra={_BY_COUNT: bool(count)})

    def adapt(self, recipe: Recipe) -> Recipe:
        return replace(super().adapt(recipe), extra={_BY_COUNT: recipe.extra.get(_BY_COUNT, False)})

    def say(self, recipe: Recipe) -> dict[str, Any]:
        silent = "minibatch_size" if recipe.extra.get(_BY_COUNT) else "num_minibatches"
        return {**super().say(recipe), silent: None}


FLAVOURS: tuple[Dialect, ...] = (IsaacLabRlGames(), IsaacLabRslRl(), IsaacLabSkrl(), IsaacLabSB3())
