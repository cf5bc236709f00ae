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
from rollshape.geometry.dialects.config import levels, score
from rollshape.geometry.dialects.dopamine import Dopamine
from rollshape.geometry.dialects.isaaclab import FLAVORS
from rollshape.geometry.dialects.pufferlib import PufferLib
from rollshape.geometry.dialects.purejaxrl import PureJaxRL
from rollshape.geometry.dialects.rejax import Rejax
from rollshape.geometry.dialects.rl_games import RlGames
from rollshape.geometry.dialects.rllib import RLlib, RLlibOld
from rollshape.geometry.dialects.rollshape import Rollshape
from rollshape.geometry.dialects.rsl_rl import RslRl
from rollshape.geometry.dialects.sample_factory import SampleFactory
from rollshape.geometry.dialects.sb3 import SB3, SBX
from rollshape.geometry.dialects.skrl import Skrl
from rollshape.geometry.dialects.stoix import Stoix
from rollshape.geometry.dialects.tianshou import Tianshou
from rollshape.geometry.dialects.torchrl import TorchRL

ISAACLAB = "isaaclab"
DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        SB3(), SBX(), CleanRL(), CleanRLMultiGPU(), ManiSkill(), RlGames(), *FLAVORS, RslRl(), Skrl(), RLlib(),
        RLlibOld(), Brax(), PureJaxRL(), Rejax(), Stoix(), TorchRL(), Tianshou(), SampleFactory(), PufferLib(),
        BaselinesPPO1(), BaselinesPPO2(), Dopamine(), Acme(), Rollshape(),
    )
}  # fmt: skip
NAMES = (*DIALECTS, ISAACLAB, "rrd")


def resolve(name: str, config: Mapping[str, Any] | None, like: Dialect | None = None) -> Dialect:
    """Return the dialect of a name; plain `isaaclab` selects the flavor of the config, or of the dialect `like`."""
    if name in DIALECTS:
        return DIALECTS[name]
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
