"""The dialects by name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from rollshape.errors import RequestError
from rollshape.geometry.dialects.acme import Acme
from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.baselines import BaselinesPPO1, BaselinesPPO2
from rollshape.geometry.dialects.brax import Brax
from rollshape.geometry.dialects.cleanrl import CleanRL, ManiSkill
from rollshape.geometry.dialects.config import levels, score
from rollshape.geometry.dialects.dopamine import Dopamine
from rollshape.geometry.dialects.isaaclab import FLAVOURS
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
        SB3(), SBX(), CleanRL(), ManiSkill(), RlGames(), *FLAVOURS, RslRl(), Skrl(), RLlib(), RLlibOld(), Brax(),
        PureJaxRL(), Rejax(), Stoix(), TorchRL(), Tianshou(), SampleFactory(), PufferLib(), BaselinesPPO1(),
        BaselinesPPO2(), Dopamine(), Acme(), Rollshape(),
    )
}  # fmt: skip
NAMES = (*DIALECTS, ISAACLAB, "rrd")


def resolve(name: str, config: Mapping[str, Any] | None, like: Dialect | None = None) -> Dialect:
    """The dialect of a name. Plain `isaaclab` is the flavour that the config is in, or that of the library `like`."""
    if name in DIALECTS:
        return DIALECTS[name]
    if name == "rrd":
        raise RequestError("family", "rrd trains from a replay: it has no rollout.", "Use rollshape plan --algo rrd.")
    if name != ISAACLAB:
        near = difflib.get_close_matches(str(name).lower().replace("-", "_"), NAMES, n=1)
        hint = f"Did you mean {near[0]}? " if near else ""
        raise RequestError("choice", f"There is no dialect {name!r}.", f"{hint}Dialects: {', '.join(NAMES)}.")
    if config is None:
        flavour = (like.name if like else "").rpartition(":")[2]
        return DIALECTS.get(f"{ISAACLAB}:{flavour}", FLAVOURS[0])
    best = [(max(score(level, flavour) for _, level in levels(config)), -i) for i, flavour in enumerate(FLAVOURS)]
    hits, place = max(best)
    if hits == 0:
        raise RequestError(
            "other-dialect",
            "The config is none of Isaac Lab's agent files (rl_games, rsl_rl, skrl, sb3).",
            "Give the agent's YAML, and --num-envs.",
        )
    return FLAVOURS[-place]
