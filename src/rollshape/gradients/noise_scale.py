"""The gradient noise scale (McCandlish et al. 2018): how many transitions until the signal equals the noise.

* clustered: σ²·τ_T/|G|², for whole rollouts of windows of T steps; |G|² by pairs of environments;
* individual: σ²/|G|², for transitions as if they were independent, what a small shuffled minibatch is compared with;
* naive: what the usual estimator gives, which takes shuffled transitions for independent. Its |G|² is the mean over all
  pairs of transitions, so E = |G|² + σ²(τ_T − 1)/(NT − 1): the scale comes out too low and cannot pass NT/(τ_T − 1).
  It is given wherever it is positive, as elsewhere.

The interval is that of the signal-to-noise ratio, turned over: its denominator is a variance and never near zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rollshape.gradients.intervals import Resampled, Statistic


@dataclass(frozen=True, slots=True)
class NoiseScale:
    """Transitions. `value` is None, with a reason, where no signal is seen, and an end is where nothing bounds it."""

    value: float | None
    low: float | None
    high: float | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class NoiseScales:
    """The three of them, beside each other."""

    clustered: NoiseScale
    individual: NoiseScale
    naive: NoiseScale


def noise_scales(
    step_norms: ArrayLike,
    row_gram: ArrayLike,
    num_steps: int,
    rng: np.random.Generator,
    *,
    window_norms: ArrayLike | None = None,
    num_envs: int | None = None,
) -> NoiseScales:
    """From mean |g_t|² of each environment [M] and the Gram matrix of window means [M, M], windows of T steps.

    Where an environment gave several windows, its row is their mean and `window_norms` [M] its mean |window mean|². The
    naive scale depends on the batch that it is taken from: N environments (default: all that were measured).
    """
    rows = np.diag(np.asarray(row_gram)) if window_norms is None else window_norms
    resampled = Resampled({"step": step_norms, "row": rows}, {"norm": row_gram}, rng)
    envs = num_envs or resampled.num_envs
    size = envs * num_steps
    return NoiseScales(
        clustered=_inverted(resampled, lambda q: q["norm"] / ((q["row"] - q["norm"]) * num_steps)),
        individual=_inverted(resampled, lambda q: q["norm"] / (q["step"] - q["norm"])),
        naive=_inverted(resampled, lambda q: naive_snr(q["step"], q["row"], q["norm"], envs, size), credulous=True),
    )


def naive_snr(step: ArrayLike, row: ArrayLike, norm: ArrayLike, envs: int, size: int) -> np.ndarray:
    """|G|²/σ² from all pairs of transitions: u = (B|Ḡ|² − mean|g|²)/(B − 1), which is McCandlish's pair (1, B).

    |Ḡ|² = ((N − 1)·norm + row)/N from the mean squared row and the U-statistic over environments.
    """
    step, row, norm = np.asarray(step), np.asarray(row), np.asarray(norm)
    mean_squared = ((envs - 1) * norm + row) / envs
    pairs = (size * mean_squared - step) / (size - 1)
    return np.asarray(pairs / (step - pairs))


def _inverted(resampled: Resampled, snr: Statistic, *, credulous: bool = False) -> NoiseScale:
    """1/SNR; no signal where its interval reaches zero, or, to the credulous, where its value does."""
    ratio = resampled.estimate(snr, wider=False)
    low, high = (1 / end if end > 0 else None for end in (ratio.high, ratio.low))
    if (ratio.value if credulous else ratio.low) > 0:
        return NoiseScale(1 / ratio.value, low, high)
    bound = f", so it is at least {low:.3g}" if low is not None else ""
    reason = f"no signal: with {resampled.num_envs} environments |G|² cannot be told from zero{bound}"
    return NoiseScale(None, low, None, reason)
