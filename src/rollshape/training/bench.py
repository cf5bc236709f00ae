"""Training speed: steps/s, compile time, and the share of the machine's matrix-multiply rate that is used."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np

from rollshape.agents.networks import ActorCritic
from rollshape.envs.access import EnvAccess
from rollshape.envs.registry import kind
from rollshape.training.peers import installed, speed_of
from rollshape.training.speed import NUM_EPOCHS, TrainingTimer, env_facts, new_spec, quartiles

SIDE = 2048


class Bench(NamedTuple):
    """Speed of one shape, the median of its intervals; utilisation counts matrix products only, forward and backward.

    Each interval is compared with the matrix rate measured just before it, because that rate drifts. `low` and `high`
    are the quartiles of the intervals.
    """

    shape: str
    sps: int
    sps_low: int
    sps_high: int
    compile_s: float
    utilisation: float
    utilisation_low: float
    utilisation_high: float
    gemm_gflops: float
    intervals: int
    peers: dict[str, float]  # steps/s of other libraries at the same shape, where they are installed


def gemm_rate(side: int = SIDE, count: int = 2) -> float:
    """Return the FLOP/s of NumPy's float32 product of square matrices, all cores, the best of a few."""
    a = np.full((side, side), 0.5, np.float32)
    return 2 * side**3 / min(_seconds(lambda: a @ a) for _ in range(count))


def _seconds(action: Any) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def flops_per_step(model: ActorCritic, num_epochs: int) -> float:
    """Return the matrix-product FLOPs per environment step: one forward pass to act, and three per epoch to train."""
    towers = model.towers
    matrices = (*towers.weights, towers.actor_head.weight, towers.critic_head.weight)
    return float(2 * sum(matrix.size for matrix in matrices) * (1 + 3 * num_epochs))


def bench(
    env_id: str, shapes: Sequence[str], seconds: float, python: str = sys.executable, access: EnvAccess | None = None
) -> Iterator[Bench]:
    """Time each shape with 4 epochs, 4 minibatches and 64-64 networks.

    SB3 and sbx are timed, too, where `python` has them and the environment is both functional and Gymnasium's.
    """
    access = access or EnvAccess()
    specs = [new_spec(env_id, shape) for shape in shapes]
    facts = env_facts(env_id, access)
    plans = [spec.plan(**facts) for spec in specs]  # all of them, so that an error comes before the first measurement
    libraries = installed(python) if _is_in_gymnasium(env_id) else []
    gemm_rate()  # the first product starts the threads
    for shape, spec, plan in zip(shapes, specs, plans, strict=True):
        rates: list[float] = []
        with closing(TrainingTimer(spec, plan, seconds, access)) as timer:
            speeds = timer.time_intervals(seconds, lambda: rates.append(gemm_rate()))  # noqa: B023
        flops = flops_per_step(timer.network, NUM_EPOCHS)
        speed = quartiles(speeds)
        used = quartiles([sps * flops / rate for sps, rate in zip(speeds, rates, strict=True)])
        yield Bench(
            shape=shape,
            sps=round(speed.median),
            sps_low=round(speed.low),
            sps_high=round(speed.high),
            compile_s=timer.compile_s,
            utilisation=used.median,
            utilisation_low=used.low,
            utilisation_high=used.high,
            gemm_gflops=statistics.median(rates) / 1e9,
            intervals=len(rates),
            peers={name: speed_of(name, env_id, plan.num_envs, plan.num_steps, python) for name in libraries},
        )


def _is_in_gymnasium(env_id: str) -> bool:
    """Return whether other libraries can create a functional environment by the same id."""
    import gymnasium

    return kind(env_id) == "functional" and env_id in gymnasium.registry
