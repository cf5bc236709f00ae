"""Training speed: steps/s, compile time, and the share of the machine's matrix-multiply rate that is used."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from rollshape.agents.networks import ActorCritic
from rollshape.algorithms.parallel import reserve_devices
from rollshape.envs.registry import kind, make
from rollshape.errors import RequestError
from rollshape.training.compiled_driver import CompiledDriver
from rollshape.training.peers import installed, speed_of
from rollshape.training.spec import Spec

SIDE = 2048


class Bench(NamedTuple):
    """Speed of one shape, the median of its intervals; utilisation counts matrix products only, forward and backward.

    Each interval is compared with the matrix rate measured just before it, because that rate drifts.
    """

    shape: str
    sps: int
    compile_s: float
    utilisation: float
    gemm_gflops: float
    peers: dict[str, float]  # steps/s of other libraries at the same shape, where they are installed


def gemm_rate() -> float:
    """Return the FLOP/s of NumPy's float32 2048 × 2048 product, all cores, the better of two."""
    a = np.full((SIDE, SIDE), 0.5, np.float32)
    return 2 * SIDE**3 / min(_seconds(lambda: a @ a) for _ in range(2))


def _seconds(action: Any) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def flops_per_step(model: ActorCritic, num_epochs: int) -> float:
    """Return the matrix-product FLOPs per environment step: one forward pass to act, and three per epoch to train."""
    towers = model.towers
    matrices = (*towers.weights, towers.actor_head.weight, towers.critic_head.weight)
    return float(2 * sum(matrix.size for matrix in matrices) * (1 + 3 * num_epochs))


def bench(env_id: str, shapes: Sequence[str], seconds: float, python: str = sys.executable) -> Iterator[Bench]:
    """Time each shape with 4 epochs, 4 minibatches and 64-64 networks; also SB3 and sbx where `python` has them."""
    if kind(env_id) == "host":
        raise RequestError("environment", "bench times functional environments.", "See benchmarks/host.py for others.")
    reserve_devices()
    gemm_rate()  # the first product starts the threads
    for shape in shapes:
        num_envs, num_steps = _parse_shape(shape)
        spec = Spec(env=env_id, num_envs=num_envs, num_steps=num_steps, num_minibatches=4, num_epochs=4,
                    total_timesteps=2**40, entropy_coef=0.01)  # fmt: skip
        driver = CompiledDriver(spec, spec.plan(), make(env_id), max(1, 100_000 // (num_envs * num_steps)))
        state = driver.start()
        started = time.perf_counter()
        driver.compile(state)
        compile_s = time.perf_counter() - started
        times: list[float] = []
        rates: list[float] = []
        flops = flops_per_step(state.learner.network, 4)
        while sum(times) < seconds:
            rates.append(gemm_rate())
            state, _, spent = driver.advance(state, driver.interval)
            times.append(sum(spent))
        steps = driver.interval * num_envs * num_steps
        used = statistics.median(steps * flops / (spent_s * rate) for spent_s, rate in zip(times, rates, strict=True))
        peers = {name: speed_of(name, env_id, num_envs, num_steps, python) for name in installed(python)}
        yield Bench(
            shape, round(steps / statistics.median(times)), compile_s, used, statistics.median(rates) / 1e9, peers
        )


def _parse_shape(shape: str) -> tuple[int, int]:
    try:
        num_envs, num_steps = (int(part) for part in shape.lower().replace("×", "x").split("x"))
    except ValueError:
        raise RequestError("flags", f"{shape!r} is not a shape.", "Write NxT, such as 64x128.") from None
    return num_envs, num_steps
