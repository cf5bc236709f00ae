"""Probe of an RRD run: the gradient of its reward network, and how it redistributes the return of an episode."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from rollshape.geometry.calls import check_arguments
from rollshape.geometry.divisors import divisors
from rollshape.geometry.values import SEED, Range
from rollshape.probes.quantities import REWARD_QUANTITIES
from rollshape.probes.quantities.quantity import Quantity
from rollshape.probes.quantities.redistribution import Redistribution
from rollshape.probes.quantities.reward_gradient import DRAWS, RewardGradient
from rollshape.probes.result import ProbeResult, read_quantities
from rollshape.probes.subject import Checkpoint, ProbedRun, RunOrPath

SETTINGS = ("rrd_batch_size", "rrd_sample_size", "unbiased", "draws", "seed")


@dataclass(frozen=True)
class RewardProbe(ProbeResult):
    """The reward network of an RRD run at one checkpoint."""

    rrd_batch_size: int
    rrd_sample_size: int  # of the run
    unbiased: bool
    draws: int
    seed: int
    surface: list[RewardGradient]  # every K that divides the batch, ascending
    redistribution: Redistribution

    @property
    def quantities(self) -> Sequence[Quantity[Any, Any]]:
        return REWARD_QUANTITIES

    @property
    def main_figure(self) -> str:
        return "reward_gradient"

    @property
    def best(self) -> RewardGradient:
        """The split with the smallest error of one gradient step."""
        return min(self.surface, key=lambda point: point.mse)

    def header(self) -> dict[str, Any]:
        return {**super().header(), **{name: getattr(self, name) for name in SETTINGS}}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> RewardProbe:
        """Read what `to_dict` wrote; a stored document may lack the run directory."""
        return cls(
            run_dir=document.get("run_dir", ""),
            **{name: document[name] for name in ("update", "timesteps", "command", *SETTINGS)},
            **read_quantities(REWARD_QUANTITIES, document),
        )


@dataclass(frozen=True)
class RewardContext:
    """What the measurements of a reward network share."""

    checkpoint: Checkpoint
    rrd_batch_size: int
    sample_sizes: list[int]
    unbiased: bool
    draws: int
    seed: int


@check_arguments
def probe_rewards(
    run: RunOrPath,
    checkpoint: int | Literal["latest"] = "latest",
    *,
    seed: Annotated[int | None, SEED] = None,
    draws: Annotated[int, Range(2, 1_000_000)] = DRAWS,
    trust: bool = False,
    env: Any = None,
) -> RewardProbe:
    """Measure the reward network of an RRD run: few long or many short subsequences, and the rewards of an episode."""
    with ProbedRun(run, trust=trust, env=env) as probed:
        update = probed.find_update(None if checkpoint == "latest" else checkpoint)
        spec, replay = probed.spec, probed.plan.replay
        size = replay.rrd_batch_size if replay else 0
        run_size = replay.rrd_sample_size if replay else 0
        context = RewardContext(
            checkpoint=probed.checkpoint(update),
            rrd_batch_size=size,
            sample_sizes=sorted({k for k in (*divisors(max(size, 1)), run_size) if 2 <= k <= size and size % k == 0}),
            unbiased=spec.rrd_unbiased,
            draws=draws,
            seed=spec.seed if seed is None else seed,
        )
        return RewardProbe(
            run_dir=str(probed.path),
            update=update,
            timesteps=update * probed.plan.rollout_size,
            command=f"rollshape probe {shlex.quote(str(probed.path))} --checkpoint {update} --seed {context.seed}",
            rrd_batch_size=size,
            rrd_sample_size=run_size,
            unbiased=context.unbiased,
            draws=draws,
            seed=context.seed,
            **{quantity.name: quantity.measure(context) for quantity in REWARD_QUANTITIES},
        )
