"""mjlab: RSL-RL on MuJoCo Warp, with defaults of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from rollshape.geometry.dialects.keys import Key
from rollshape.geometry.dialects.rsl_rl import RslRl

_DEFAULTS: dict[str, Any] = {"num_steps_per_env": 24, "max_iterations": 300, "algorithm.entropy_coef": 0.005}


class MjLab(RslRl):
    """`params/agent.yaml` of a run, or the `--agent.` flags; `--env.scene.num-envs` is per GPU.

    The keys are those of RSL-RL; some defaults are not.
    """

    name = "mjlab"
    library = "mjlab with RSL-RL"
    version = "1.6.0"
    layout = "nested"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("num_envs", "num_envs", aliases=("scene.num_envs", "env.scene.num_envs")),
        *(
            replace(key, default=_DEFAULTS.get(key.name, key.default))
            for key in RslRl.keys
            if key.concept != "num_envs"
        ),
    )
