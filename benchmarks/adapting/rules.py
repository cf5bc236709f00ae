"""Rules that choose the shape of the next phase: deterministic functions of what the phases so far have measured.

All sizes are powers of two, and a rule changes the shape by at most one doubling per phase. Where the rollout size
changes, the number of environments changes and T stays that of the start; T is shorter only where N would fall below 8,
the fewest environments that the monitor can measure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from rollshape.geometry.rules.window import edge_weight

FEWEST_ENVS, MOST_ENVS = 8, 512
SHORTEST, LONGEST = 8, 512  # windows
SMALLEST, LARGEST = 64, 4_096  # rollouts; with the largest the budget of a task allows 40 updates
QUARTERS = 4  # parts of a schedule, each with another size


class Shape(NamedTuple):
    num_envs: int
    num_steps: int

    @property
    def rollout_size(self) -> int:
        return self.num_envs * self.num_steps

    def __str__(self) -> str:
        return f"{self.num_envs}×{self.num_steps}"


class Signals(NamedTuple):
    """What a phase has measured; a value that does not exist is None."""

    noise_scale: float | None  # median over rollouts, in transitions; None if most of them show no signal
    effective_sample_size: float | None  # median over rollouts
    divergence: float | None  # √(KL/2) of an update, which bounds the share of actions that it changes
    explained_variance: float | None  # of the critic


class Phase(NamedTuple):
    shape: Shape
    signals: Signals


class Run(NamedTuple):
    """What a rule may use."""

    start: Shape
    phases: Sequence[Phase]  # at least one
    num_phases: int
    gamma: float
    gae_lambda: float


Rule = Callable[[Run], Shape]


def constant(run: Run) -> Shape:
    """The shape of the start: the control."""
    return run.start


def split(run: Run) -> Shape:
    """The same rollout size; T one doubling towards where (1 − e·(1 − EV))² · ESS is largest.

    e is the weight of V at the edge of a window and EV the explained variance of the critic: what a short window loses
    by a poor critic. The effective sample size of another T follows from that of this T, if correlations of a step's
    gradient decay exponentially.
    """
    shape, signals = run.phases[-1]
    if signals.effective_sample_size is None:
        return shape
    decay = fit_decay(shape.rollout_size / signals.effective_sample_size, shape.num_steps)
    error = 1.0 - min(1.0, max(0.0, signals.explained_variance or 0.0))

    def worth(candidate: Shape) -> float:
        bias = error * edge_weight(candidate.num_steps, run.gamma, run.gae_lambda)
        return (1.0 - bias) ** 2 / correlation_time(decay, candidate.num_steps)

    return max(_splits(shape), key=worth)


def noise(run: Run) -> Shape:
    """The rollout size one doubling towards the noise scale; larger where most rollouts show no signal."""
    shape, signals = run.phases[-1]
    target = math.inf if signals.noise_scale is None else signals.noise_scale
    return resize(run.start, _towards(shape.rollout_size, target))


def divergence(run: Run) -> Shape:
    """Adaptive batch scaling: the rollout size inversely proportional to the divergence of consecutive policies.

    The first phase sets the proportion. The paper scales the batch of Q-learning (PQN) by the actions that change; here
    it is the rollout of PPO, and √(KL/2) of an update bounds the share of actions that change.
    """
    first, last = run.phases[0], run.phases[-1]
    if not first.signals.divergence or not last.signals.divergence:
        return last.shape
    target = first.shape.rollout_size * first.signals.divergence / last.signals.divergence
    return resize(run.start, _towards(last.shape.rollout_size, target))


def grow(run: Run) -> Shape:
    """A schedule: a quarter of the start's rollout size first, and twice as much after every quarter of the run."""
    return _scheduled(run, len(run.phases) * QUARTERS // run.num_phases)


def shrink(run: Run) -> Shape:
    """The same sizes as `grow` in the reverse order."""
    return _scheduled(run, QUARTERS - 1 - len(run.phases) * QUARTERS // run.num_phases)


RULES: dict[str, Rule] = {
    "constant": constant, "split": split, "noise": noise, "divergence": divergence, "grow": grow, "shrink": shrink,
}  # fmt: skip
SCHEDULES = ("grow", "shrink")  # which choose the first shape, too


def resize(start: Shape, rollout_size: int) -> Shape:
    """Return the shape of this rollout size with the start's T, or a shorter one to have 8 environments."""
    num_steps = min(start.num_steps, max(1, rollout_size // FEWEST_ENVS))
    return Shape(rollout_size // num_steps, num_steps)


def fit_decay(time: float, num_steps: int) -> float:
    """Return the ρ of correlations ρᵏ whose correlation time in a window of T steps is `time`; between 0 and .999."""
    low, high = 0.0, 0.999
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if correlation_time(middle, num_steps) < time else (low, middle)
    return low


def correlation_time(decay: float, num_steps: int) -> float:
    """Return τ_T = 1 + 2·Σ_{k<T} (1 − k/T)·ρᵏ: how many steps of a window are worth one independent sample."""
    lags = np.arange(1, num_steps)
    return float(1.0 + 2.0 * ((1.0 - lags / num_steps) * decay**lags).sum())


def _splits(shape: Shape) -> list[Shape]:
    """Return the shape itself and its neighbors of the same rollout size."""
    envs, steps = shape
    candidates = [shape, Shape(envs * 2, steps // 2), Shape(envs // 2, steps * 2)]
    return [
        candidate
        for candidate in candidates
        if FEWEST_ENVS <= candidate.num_envs <= MOST_ENVS and SHORTEST <= candidate.num_steps <= LONGEST
    ]


def _towards(size: int, target: float) -> int:
    """Return the size, halved or doubled if that is closer to the target on a log scale; within the limits."""
    distance = math.log2(max(target, 1.0)) - math.log2(size) if math.isfinite(target) else math.inf
    following = size * 2 if distance > 0.5 else size // 2 if distance < -0.5 else size
    return min(LARGEST, max(SMALLEST, following))


def _scheduled(run: Run, quarter: int) -> Shape:
    first = min(LARGEST >> (QUARTERS - 1), max(SMALLEST, run.start.rollout_size // QUARTERS))
    return resize(run.start, first << quarter)
