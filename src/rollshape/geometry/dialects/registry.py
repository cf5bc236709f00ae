"""The dialects by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rollshape.errors import RequestError, did_you_mean
from rollshape.formatting import short_repr
from rollshape.geometry.dialects.acme import Acme
from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.baselines import BaselinesPPO1, BaselinesPPO2
from rollshape.geometry.dialects.brax import Brax
from rollshape.geometry.dialects.cleanrl import CleanRL, CleanRLMultiGPU, ManiSkill
from rollshape.geometry.dialects.config import find_level, levels, score
from rollshape.geometry.dialects.dopamine import Dopamine
from rollshape.geometry.dialects.families import find_algorithm
from rollshape.geometry.dialects.isaaclab import FLAVORS
from rollshape.geometry.dialects.language import LanguageDialect
from rollshape.geometry.dialects.mjlab import MjLab
from rollshape.geometry.dialects.openrlhf import OpenRLHF
from rollshape.geometry.dialects.pufferlib import PufferLib
from rollshape.geometry.dialects.pufferlib4 import PufferLib4, pufferlib_version
from rollshape.geometry.dialects.purejaxrl import PureJaxRL
from rollshape.geometry.dialects.rejax import Rejax
from rollshape.geometry.dialects.rl_games import RlGames
from rollshape.geometry.dialects.rlinf import RLinfEmbodied, RLinfReasoning
from rollshape.geometry.dialects.rllib import RLlib, RLlibOld
from rollshape.geometry.dialects.rollshape import Rollshape
from rollshape.geometry.dialects.rsl_rl import RslRl
from rollshape.geometry.dialects.sample_factory import SampleFactory
from rollshape.geometry.dialects.sb3 import SB3, SB3A2C, SBX, SB3RecurrentPPO
from rollshape.geometry.dialects.skrl import Skrl
from rollshape.geometry.dialects.stoix import Stoix
from rollshape.geometry.dialects.tianshou import Tianshou
from rollshape.geometry.dialects.torchrl import TorchRL, TorchRLA2C
from rollshape.geometry.dialects.trl import TRL
from rollshape.geometry.dialects.verl import Verl

ISAACLAB = "isaaclab"
DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        SB3(), SB3A2C(), SB3RecurrentPPO(), SBX(), CleanRL(), CleanRLMultiGPU(), ManiSkill(), RlGames(), *FLAVORS,
        RslRl(), Skrl(), RLlib(), RLlibOld(), Brax(), PureJaxRL(), Rejax(), Stoix(), TorchRL(), TorchRLA2C(),
        Tianshou(), SampleFactory(), PufferLib(), PufferLib4(), MjLab(), RLinfEmbodied(), BaselinesPPO1(),
        BaselinesPPO2(), Dopamine(), Acme(), Rollshape(),
    )
}  # fmt: skip
LANGUAGE_DIALECTS: dict[str, LanguageDialect] = {
    dialect.name: dialect for dialect in (*TRL, Verl(), OpenRLHF(), RLinfReasoning())
}
ALL_DIALECTS: dict[str, Dialect] = {**DIALECTS, **LANGUAGE_DIALECTS}
TRL_NAMES = tuple(dialect.name for dialect in TRL)
RLINF = "rlinf"
NAMES = (*ALL_DIALECTS, ISAACLAB, RLINF, "rrd")


def canonical(name: str) -> str:
    """Return the name as the registry spells it: case, spaces and hyphens do not matter."""
    return str(name).strip().lower().replace("-", "_").replace(" ", "_")


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
    `sb3:ppo` is PPO in any case, `pufferlib` selects the version, and `rlinf` the task type.
    """
    name = canonical(name)
    if name == PufferLib.name and isinstance(config, Mapping):
        return DIALECTS[PufferLib4.name if pufferlib_version(config) == 4 else name]
    if name in LANGUAGE_DIALECTS:
        return LANGUAGE_DIALECTS[name]
    if name in DIALECTS:
        return DIALECTS[name] if config is None else _of_algorithm(DIALECTS[name], config, key, file)
    if name.endswith(":ppo") and name.removesuffix(":ppo") in DIALECTS:
        return DIALECTS[name.removesuffix(":ppo")]
    if name == RLINF:
        return _resolve_rlinf(config, like)
    if name == "trl":
        raise RequestError(
            "choice",
            "trl has several trainers, whose defaults differ; the config does not say which one it is for.",
            f"Use one of {', '.join(TRL_NAMES)}.",
        )
    if name == "rrd":
        raise RequestError(
            "family", "rrd trains from a replay buffer and has no rollout.", "Use rollshape plan --algo rrd."
        )
    if name != ISAACLAB:
        hint = did_you_mean(name, NAMES)
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


def _resolve_rlinf(config: Mapping[str, Any] | None, like: Dialect | None) -> Dialect:
    """Return RLinf's dialect by `runner.task_type`; as a target, by the kind of the source."""
    reasoning, embodied = LANGUAGE_DIALECTS[RLinfReasoning.name], DIALECTS[RLinfEmbodied.name]
    if config is None:
        return reasoning if isinstance(like, LanguageDialect) else embodied
    runner = config.get("runner")
    kind = runner.get("task_type") if isinstance(runner, Mapping) else config.get("runner.task_type")
    if kind in ("reasoning", "embodied"):
        return reasoning if kind == "reasoning" else embodied
    raise RequestError(
        "other-dialect",
        f"runner.task_type of this RLinf config is {short_repr(kind)}; reasoning and embodied are known.",
        f"Use --from {reasoning.name} or --from {embodied.name}.",
    )
