"""The gradient noise scale (McCandlish et al. 2018): the number of transitions at which signal equals noise.

* clustered: σ²·τ_T/|G|², for rollouts of windows of T steps; |G|² from pairs of environments;
* individual: σ²/|G|², for transitions as if they were independent; compare it with a small shuffled minibatch;
* naive: the standard estimator, which treats shuffled transitions as independent. Its |G|² is the mean over all pairs
  of transitions, so E = |G|² + σ²(τ_T − 1)/(NT − 1): the scale is too low and cannot exceed NT/(τ_T − 1). As usual, it
  is reported wherever it is positive.

The interval is the inverse of that of the signal-to-noise ratio, whose denominator is a variance and never near zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rollshape.gradients.intervals import Bootstrap, Statistic


@dataclass(frozen=True, slots=True)
class NoiseScale:
    """In transitions. `value` is None, with a reason, if there is no signal; an end is None if it is unbounded."""

    value: float | None
    low: float | None
    high: float | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class NoiseScales:
    """The three estimators."""

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
    """Estimate from the mean |g_t|² of every environment [M] and the Gram matrix of window means [M, M].

    If an environment has several windows, its row is their mean and `window_norms` [M] the mean of |window mean|². The
    naive scale depends on the size of its batch: N environments (default: all measured ones).
    """
    rows = np.diag(np.asarray(row_gram)) if window_norms is None else window_norms
    bootstrap = Bootstrap({"step": step_norms, "row": rows}, {"norm": row_gram}, rng)
    envs = num_envs or bootstrap.num_envs
    size = envs * num_steps
    return NoiseScales(
        clustered=_invert(bootstrap, lambda q: q["norm"] / ((q["row"] - q["norm"]) * num_steps)),
        individual=_invert(bootstrap, lambda q: q["norm"] / (q["step"] - q["norm"])),
        naive=_invert(
            bootstrap, lambda q: naive_snr(q["step"], q["row"], q["norm"], envs, size), require_significance=False
        ),
    )


def naive_snr(step: ArrayLike, row: ArrayLike, norm: ArrayLike, envs: int, size: int) -> np.ndarray:
    """Return |G|²/σ² from all pairs of transitions: u = (B|Ḡ|² − mean|g|²)/(B − 1), McCandlish's pair (1, B).

    |Ḡ|² = ((N − 1)·norm + row)/N from the mean squared row and the U-statistic over environments.
    """
    step, row, norm = np.asarray(step), np.asarray(row), np.asarray(norm)
    mean_squared = ((envs - 1) * norm + row) / envs
    pairs = (size * mean_squared - step) / (size - 1)
    return np.asarray(pairs / (step - pairs))


def _invert(bootstrap: Bootstrap, snr: Statistic, *, require_significance: bool = True) -> NoiseScale:
    """Return 1/SNR, or no value where the interval of the SNR (or only its value) reaches zero."""
    ratio = bootstrap.estimate(snr, wider=False)
    low, high = (1 / end if end > 0 else None for end in (ratio.high, ratio.low))
    if (ratio.low if require_significance else ratio.value) > 0:
        return NoiseScale(1 / ratio.value, low, high)
    bound = f"; the noise scale is at least {low:.3g}" if low is not None else ""
    reason = f"no signal: with {bootstrap.num_envs} environments |G|² is not significantly different from zero{bound}"
    return NoiseScale(None, low, None, reason)
