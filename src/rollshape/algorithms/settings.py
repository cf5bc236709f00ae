"""Settings that all algorithms share. Each algorithm's file adds its own; `registry.AlgorithmSettings` joins them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from rollshape.geometry.request import RolloutSizes
from rollshape.geometry.values import COUNT, POSITIVE, Range


@dataclass(frozen=True, kw_only=True)
class CommonSettings(RolloutSizes):
    """What every algorithm reads: the sizes of a run, and these."""

    learning_rate: Annotated[float, "Adam step size", POSITIVE] = 3e-4
    num_shards: Annotated[int | Literal["auto"], "shards of the environments, one core each", Range(1, 1024)] = "auto"
    microbatch_size: Annotated[int | Literal["auto"], "samples per gradient kernel", COUNT] = "auto"
