"""Checks of the batch size: minibatches above the noise scale, environments that slow each other down."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rollshape.probes.result import Probe
from rollshape.studies.records import RunRecord
from rollshape.studies.suspects.base import Suspect, check, evidence

NOTABLE_NOISE_SCALES = 4  # minibatch size over noise scale
NOTABLE_SLOWDOWN = 1.5


@check("over-smooth", "McCandlish et al. 2018, clustered by environment")
def over_smooth(run: RunRecord, _: Sequence[RunRecord]) -> Suspect | None:
    """Compare the minibatch with the noise scale σ²/|G|² of single steps, where a probe has measured it."""
    scales = [scale for probe in run.measured_probes() if (scale := _step_noise_scale(probe)) is not None]
    if not scales:
        return None
    scale, size = float(np.median(scales)), run.plan.minibatch_size
    return Suspect(
        evidence(size / scale, NOTABLE_NOISE_SCALES, 32),
        f"The minibatch of {size:,} is {size / scale:.2g} times the noise scale of {scale:,.0f} (notable above "
        f"{NOTABLE_NOISE_SCALES}): more samples per gradient step hardly improve it.",
        f"Use minibatches of about {max(1, round(scale)):,}: more gradient steps from the same data.",
        {"minibatch_size": size, "noise_scale": scale, "threshold": NOTABLE_NOISE_SCALES},
    )


def _step_noise_scale(probe: Probe) -> float | None:
    """Return the noise scale of single steps.

    The probe measures that of whole windows, σ²τ/|G|², and the variance with and without correlation along time, whose
    ratio is τ.
    """
    scale, variance = probe.noise_scale.clustered.value, probe.variance
    if not scale or not variance.total.value > 0 or not variance.individual.value > 0:
        return None
    return scale * variance.individual.value / variance.total.value


@check("contention", "openai/baselines issue 1050; steps/s are measured")
def contention(run: RunRecord, others: Sequence[RunRecord]) -> Suspect | None:
    """Compare steps/s with runs that have fewer environments: more environments should not be slower."""
    speed = run.median("sps")
    fewer = [other for other in others if other.plan.num_envs < run.plan.num_envs]
    speeds = [value for other in fewer if (value := other.median("sps"))]
    if not speed or not speeds:
        return None
    best = max(speeds)
    return Suspect(
        evidence(best / speed, NOTABLE_SLOWDOWN, 6),
        f"{speed:,.0f} steps/s with {run.plan.num_envs:,} environments, but {best:,.0f} with fewer, {best / speed:.2g} "
        f"times as fast (notable above {NOTABLE_SLOWDOWN}). This costs time, not samples: at equal timesteps look at "
        "the other suspects.",
        "Use fewer environments, or longer rollouts.",
        {"sps": speed, "best_sps": best, "threshold": NOTABLE_SLOWDOWN},
    )
