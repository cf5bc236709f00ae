"""Every shape of a rollout_size from one long rollout: variance, bias² and what learning sees of both.

A window of T steps cut from a stationary rollout is a draw of what a run at that T would see, so
tr Var(G_B) at N×T is tr Var(window mean at T)/N. All windows of N₀ environments are used; those of one environment are
not independent, so intervals are taken over environments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rollshape.errors import RequestError
from rollshape.gradients.gram import Traces, reshaped, row_gram, scaled, window_norms
from rollshape.gradients.intervals import Estimate, Floats, Resampled, norm_estimate


@dataclass(frozen=True, slots=True)
class Windows:
    """What a long rollout of N₀ environments says of windows of T steps."""

    num_steps: int
    window_norms: Floats  # [N₀] mean |window mean|² over the environment's windows
    row_gram: Floats  # [N₀, N₀] of each environment's mean over all its windows
    bias_gram: Floats  # [N₀, N₀] of row minus reference row: total bias
    window_bias_gram: Floats  # [N₀, N₀] of row minus long-T row at the same λ: window bias


@dataclass(frozen=True, slots=True)
class Point:
    """One shape. mse = bias2 + variance is one update's; score = bias2 + variance/h is that of h updates in a row."""

    num_envs: int
    num_steps: int
    variance: Estimate
    bias2: Estimate
    bias2_window: Estimate
    mse: Estimate
    score: Estimate


def windows(scores: Traces, num_steps: int, advantages: Array, reference: Array, long_window: Array) -> Windows:
    """Cut score traces [N₀, T₀, …] into windows of T.

    `advantages` [N₀, T₀] are those of windows of T, `reference` those of λ = 1 without truncation, `long_window` those
    of the same λ at the longest T. The passes through the network are shared by all T.
    """
    found = _measured(tuple(scores), num_steps, *(jnp.asarray(x) for x in (advantages, reference, long_window)))
    return Windows(num_steps, *(np.asarray(x, np.float64) for x in found))


@partial(jax.jit, static_argnums=1)
def _measured(
    scores: Traces, num_steps: int, advantages: Array, reference: Array, long_window: Array
) -> tuple[Array, Array, Array, Array]:
    """The fields of `Windows`; one program, so that scaled traces are not stored but where they are used twice."""
    envs, steps = advantages.shape
    here = scaled(scores, advantages)
    norms = window_norms(reshaped(here, 2, (envs * steps // num_steps, num_steps)))
    off, window_off = (row_gram(scaled(scores, advantages - other)) for other in (reference, long_window))
    return norms.reshape(envs, -1).mean(1), row_gram(here), off, window_off


def surface(
    rollout_size: int, measured: Sequence[Windows], rng: np.random.Generator, horizon: float = 1.0
) -> list[Point]:
    """All shapes N×T of a rollout_size whose T was measured, by rising T; horizon is h of the score."""
    fitting = sorted((w for w in measured if rollout_size % w.num_steps == 0), key=lambda w: w.num_steps)
    if not fitting:
        lengths = ", ".join(str(w.num_steps) for w in measured)
        raise RequestError(
            "rollout-split",
            f"No measured window ({lengths} steps) divides a rollout of {rollout_size}.",
            "Use a rollout_size that is a multiple of one of them.",
        )
    return [_point(rollout_size // w.num_steps, w, rng, horizon) for w in fitting]


def _point(num_envs: int, cut: Windows, rng: np.random.Generator, horizon: float) -> Point:
    resampled = Resampled({"window": cut.window_norms}, {"norm": cut.row_gram, "bias": cut.bias_gram}, rng)

    def error(updates: float) -> Estimate:
        """A squared bias estimated as negative counts as none."""
        return resampled.estimate(
            lambda q: np.maximum(q["bias"], 0.0) + (q["window"] - q["norm"]) / (num_envs * updates), positive=True
        )

    return Point(
        num_envs=num_envs,
        num_steps=cut.num_steps,
        variance=resampled.estimate(lambda q: (q["window"] - q["norm"]) / num_envs, positive=True),
        bias2=norm_estimate(cut.bias_gram),
        bias2_window=norm_estimate(cut.window_bias_gram),
        mse=error(1.0),
        score=error(horizon),
    )
