"""What the measurements of one checkpoint share: data and intermediate results, each computed when first needed."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import cast

import jax
import numpy as np
from jax import Array

from rollshape.envs.functional import Episode, FunctionalEnv
from rollshape.errors import RequestError, RunError
from rollshape.formatting import format_bytes
from rollshape.geometry.divisors import divisors
from rollshape.gradients.intervals import Floats
from rollshape.gradients.scores import num_parameters
from rollshape.gradients.surface import Point, surfaces
from rollshape.gradients.traces import supports
from rollshape.gradients.variance import Variance, variance
from rollshape.gradients.windows import Weights, Windows
from rollshape.probes.batches import Batches, collect_batches
from rollshape.probes.collect import Source, Stream
from rollshape.probes.measure import View, measure_lags, measure_windows, policy_view, policy_weights
from rollshape.probes.quantities.horizon import Horizon
from rollshape.probes.request import ProbeRequest
from rollshape.probes.stationary import stationary_states
from rollshape.probes.subject import Checkpoint
from rollshape.training.streams import stream_key

LONGEST = 1024  # steps of the longest window, unless the run has longer ones
OBSERVATION_BYTES, MAX_OBSERVATION_BYTES = 1 << 30, 1 << 32  # of the long rollout: aimed at, and at most
GRADIENT_BYTES = 1 << 30  # of one environment's step gradients, for networks that `gradients.traces` does not support
CRITIC_WEIGHT = 0.01  # γ^tail: the weight of the critic in the reference
SETTLED_ENVS = 512  # whose states serve the quantities that play on from them
SIZE_FACTORS = (0.25, 0.5, 2, 4)  # other rollout sizes whose splits are predicted, relative to the requested one
DRAWS = {"long": 0, "batches": 1, "pictures": 2, "direction": 3, "settled": 4}  # independent random streams

OnProgress = Callable[[str], None]


class ProbeContext:
    """One checkpoint under measurement. `rng` is shared, so results depend on the order of the measurements."""

    def __init__(
        self, checkpoint: Checkpoint, source: Source, request: ProbeRequest, horizon: Horizon, on_progress: OnProgress
    ) -> None:
        self.checkpoint, self.source, self.request = checkpoint, source, request
        self.horizon, self.on_progress = horizon, on_progress
        self.rollout_size, self.seed = cast(int, request.rollout_size), request.seed or 0
        self.rng = np.random.default_rng([self.seed, checkpoint.update])
        self.num_envs, self.num_steps = checkpoint.plan.num_envs, checkpoint.plan.num_steps
        self.lengths = window_lengths(checkpoint, self.rollout_size, source.num_envs)

    def key(self, draw: str) -> Array:
        return draw_key(self.seed, self.checkpoint.update, draw)

    @cached_property
    def view(self) -> View:
        return policy_view(self.source.policy)

    @cached_property
    def stream(self) -> Stream:
        """The long rollout, from which the windows of every T are cut."""
        self.on_progress(f"long rollout after update {self.checkpoint.update}")
        return self.source.draw(max(self.lengths), tail_steps(self.checkpoint), self.key("long"))

    @cached_property
    def settled(self) -> Episode | None:
        """States of the stationary distribution in functional environments of their own; None on the host."""
        env, policy, length = self.checkpoint.env, self.source.policy, self.source.episode_length
        if not isinstance(env, FunctionalEnv):
            return None
        return stationary_states(env, policy, SETTLED_ENVS, self.key("settled"), length or env.horizon)

    @cached_property
    def weights(self) -> list[Weights]:
        return policy_weights(self.checkpoint.estimator, self.stream, self.lengths)

    @cached_property
    def windows(self) -> list[Windows]:
        """Statistics of windows of every T."""
        weights = self.weights
        self.on_progress(f"policy: windows of {self.lengths[0]} to {self.lengths[-1]} steps")
        return measure_windows(self.view, self.stream, weights)

    @cached_property
    def run_windows(self) -> Windows:
        """Statistics of windows of the run's T."""
        windows = self.windows[self.lengths.index(self.num_steps)]
        nonzero = int((windows.window_norms > 0).sum())
        if nonzero < 2:
            raise RunError(
                "run",
                f"After update {self.checkpoint.update} the gradient is zero in all but {nonzero} of "
                f"{self.source.num_envs} environments.",
                "Probe a later checkpoint, or use more --num-envs.",
            )
        return windows

    @cached_property
    def lags(self) -> Floats:
        """Lag products [N, T] within windows of the run's T."""
        self.on_progress("correlation along time")
        return measure_lags(self.view, self.stream, self.weights[self.lengths.index(self.num_steps)])

    @cached_property
    def variance(self) -> Variance:
        windows = self.run_windows
        return variance(self.lags, windows.row_gram, self.rng, num_envs=self.num_envs)

    @cached_property
    def batches(self) -> Batches:
        """Independent batches of the run's shape."""
        return collect_batches(
            self.source, self.checkpoint.estimator, self.view, self.num_envs, self.num_steps, self.request.num_batches,
            self.key("batches"), lambda i, count: self.on_progress(f"batches {i}/{count}"),
        )  # fmt: skip

    @cached_property
    def surfaces(self) -> dict[int, list[Point]]:
        """All splits of the requested rollout size and, if requested, of other sizes."""
        self.on_progress("intervals")
        size = self.rollout_size
        others = [int(size * f) for f in SIZE_FACTORS if size * f == int(size * f) and size * f >= 4]
        sizes = [size, *(others if self.request.includes("sizes") else ())]
        return surfaces(sizes, self.windows, self.rng, self.horizon.value or 1.0, self.num_steps)


def window_lengths(checkpoint: Checkpoint, rollout_size: int, num_envs: int) -> list[int]:
    """Return all T that divide the rollout size and fit into memory, and the T of the run."""
    observation, network = checkpoint.env.observation, checkpoint.policy.network
    step_bytes = num_envs * math.prod(observation.shape) * np.dtype(observation.dtype).itemsize
    run_steps = checkpoint.plan.num_steps
    if run_steps * step_bytes > MAX_OBSERVATION_BYTES:
        raise RequestError(
            "memory",
            f"{num_envs} environments × {run_steps} steps of observations take {format_bytes(run_steps * step_bytes)}.",
            f"Use fewer --num-envs: at most {max(32, MAX_OBSERVATION_BYTES // (run_steps * step_bytes // num_envs))}.",
        )
    longest = min(LONGEST, OBSERVATION_BYTES // step_bytes)
    if not supports(network):
        longest = min(longest, GRADIENT_BYTES // (4 * num_parameters(network)))
    return sorted({run_steps, *(t for t in divisors(rollout_size) if t <= max(run_steps, longest))})


def tail_steps(checkpoint: Checkpoint) -> int:
    """Return the steps after the windows that the reference needs: until the critic's weight is small."""
    gamma, horizon = checkpoint.estimator.gamma, checkpoint.env.horizon
    return horizon if gamma == 1 else min(horizon, math.ceil(math.log(CRITIC_WEIGHT) / math.log(max(gamma, 1e-9))))


def draw_key(seed: int, update: int, draw: str) -> Array:
    return jax.random.fold_in(stream_key(seed, "probe", update), DRAWS[draw])
