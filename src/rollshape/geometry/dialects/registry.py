"""The dialects by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rollshape.errors import RequestError, did_you_mean
from rollshape.geometry.dialects.acme import Acme
from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.baselines import BaselinesPPO1, BaselinesPPO2
from rollshape.geometry.dialects.brax import Brax
from rollshape.geometry.dialects.cleanrl import CleanRL, CleanRLMultiGPU, ManiSkill
from rollshape.geometry.dialects.config import find_level, levels, score
from rollshape.geometry.dialects.dopamine import Dopamine
from rollshape.geometry.dialects.families import find_algorithm
from rollshape.geometry.dialects.isaaclab import FLAVORS
from rollshape.geometry.dialects.pufferlib import PufferLib
from rollshape.geometry.dialects.purejaxrl import PureJaxRL
from rollshape.geometry.dialects.rejax import Rejax
from rollshape.geometry.dialects.rl_games import RlGames
from rollshape.geometry.dialects.rllib import RLlib, RLlibOld
from rollshape.geometry.dialects.rollshape import Rollshape
from rollshape.geometry.dialects.rsl_rl import RslRl
from rollshape.geometry.dialects.sample_factory import SampleFactory
from rollshape.geometry.dialects.sb3 import SB3, SB3A2C, SBX, SB3RecurrentPPO
from rollshape.geometry.dialects.skrl import Skrl
from rollshape.geometry.dialects.stoix import Stoix
from rollshape.geometry.dialects.tianshou import Tianshou
from rollshape.geometry.dialects.torchrl import TorchRL, TorchRLA2C

ISAACLAB = "isaaclab"
DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        SB3(), SB3A2C(), SB3RecurrentPPO(), SBX(), CleanRL(), CleanRLMultiGPU(), ManiSkill(), RlGames(), *FLAVORS,
        RslRl(), Skrl(), RLlib(), RLlibOld(), Brax(), PureJaxRL(), Rejax(), Stoix(), TorchRL(), TorchRLA2C(),
        Tianshou(), SampleFactory(), PufferLib(), BaselinesPPO1(), BaselinesPPO2(), Dopamine(), Acme(), Rollshape(),
    )
}  # fmt: skip
NAMES = (*DIALECTS, ISAACLAB, "rrd")


def resolve(
    name: str,
    config: Mapping[str, Any] | None,
    like: Dialect | None = None,
    *,
    key: str | None = None,
    file: str | None = None,
) -> Dialect:
    """Return the dialect of a name; plain `isaaclab` selects the flavor of the config, or of the dialect `like`.

    A library with a dialect per algorithm, such as `sb3` and `sb3:a2c`, selects the one that the config is for;
    `sb3:ppo` is PPO in any case.
    """
    if name in DIALECTS:
        return DIALECTS[name] if config is None else _of_algorithm(DIALECTS[name], config, key, file)
    if name.endswith(":ppo") and name.removesuffix(":ppo") in DIALECTS:
        return DIALECTS[name.removesuffix(":ppo")]
    if name == "rrd":
        raise RequestError(
            "family", "rrd trains from a replay buffer and has no rollout.", "Use rollshape plan --algo rrd."
        )
    if name != ISAACLAB:
        hint = did_you_mean(str(name).lower().replace("-", "_"), NAMES)
        raise RequestError("choice", f"Unknown dialect {name!r}.", f"{hint}Dialects: {', '.join(NAMES)}.")
    if config is None:
        flavor = (like.name if like else "").rpartition(":")[2]
        return DIALECTS.get(f"{ISAACLAB}:{flavor}", FLAVORS[0])
    best = [(max(score(level, flavor) for _, level in levels(config)), -i) for i, flavor in enumerate(FLAVORS)]
    hits, index = max(best)
    if hits == 0:
        raise RequestError(
            "other-dialect",
            "The config is not an agent file of Isaac Lab (rl_games, rsl_rl, skrl, sb3).",
            "Give the YAML file of the agent, and --num-envs.",
        )
    return FLAVORS[-index]


def _of_algorithm(dialect: Dialect, config: Mapping[str, Any], key: str | None, file: str | None) -> Dialect:
    """Return the dialect of the same library that plans the algorithm of a config; if there is none, the same one."""
    others = [other for other in DIALECTS.values() if other.name.startswith(f"{dialect.name}:")]
    if not others or not isinstance(config, Mapping):
        return dialect
    try:
        algorithm = find_algorithm(config, find_level(config, dialect, key, {}, file), dialect, file)
    except RequestError:
        return dialect  # reading it reports the problem
    names = (other for other in others if algorithm is not None and algorithm.name in other.algorithm_names)
    return next(names, dialect)
