"""Settings that all algorithms share. Each algorithm's file adds its own; `registry.AlgorithmSettings` joins them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal


@dataclass(frozen=True, kw_only=True)
class CommonSettings:
    """What every algorithm reads."""

    learning_rate: Annotated[float, "Adam step size"] = 3e-4
    gamma: Annotated[float, "discount γ"] = 0.99
    gae_lambda: Annotated[float, "GAE λ"] = 0.95
    hidden_sizes: Annotated[tuple[int, ...], "widths of the hidden layers"] = (64, 64)
    num_shards: Annotated[int | Literal["auto"], "shards of the environments, one core each"] = "auto"
    microbatch_size: Annotated[int | Literal["auto"], "samples per gradient kernel"] = "auto"
