"""Checks of the batch size: minibatches above the noise scale, environments that slow each other down."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rollshape.probes.result import Probe
from rollshape.studies.records import RunRecord
from rollshape.studies.remedies import Remedy
from rollshape.studies.suspects.base import Missing, Suspect, check, evidence

NOTABLE_NOISE_SCALES = 4  # minibatch size over noise scale
NOTABLE_SLOWDOWN = 1.5
MIN_MINIBATCH = 32  # that is recommended


@check(
    "over-smooth",
    "McCandlish et al. 2018, clustered by environment",
    follows={"value-dominates": 1.0, "reward-scale": 1.0},  # a policy that does not move keeps its first noise scale
)
def over_smooth(run: RunRecord, _: Sequence[RunRecord]) -> Suspect | Missing | None:
    """Compare the minibatch with the noise scale σ²/|G|² of single steps, from probes or from the log."""
    scale = step_noise_scale(run)
    if scale is None:
        return Missing(("noise_scale", "effective_sample_size"))
    size = run.plan.minibatch_size
    smaller = max(MIN_MINIBATCH, 1 << max(0, round(math.log2(max(1.0, scale)))))
    return Suspect(
        evidence(size / scale, NOTABLE_NOISE_SCALES, 32),
        f"The minibatch of {size:,} is {size / scale:.2g} times the noise scale of {scale:,.0f} (notable above "
        f"{NOTABLE_NOISE_SCALES}): more samples per gradient step hardly improve it.",
        Remedy({"minibatch_size": smaller} if smaller < size else {}, "More gradient steps from the same data."),
        {"minibatch_size": size, "noise_scale": scale, "threshold": NOTABLE_NOISE_SCALES},
    )


def step_noise_scale(run: RunRecord) -> float | None:
    """Return the noise scale of single steps: of probes, else of the columns, noise_scale · ESS/(N·T)."""
    scales = [scale for probe in run.measured_probes() if (scale := _step_noise_scale(probe)) is not None]
    if not scales:
        size = run.plan.rollout_size
        pairs = [(row.metric("noise_scale"), row.metric("effective_sample_size")) for row in run.rows]
        scales = [scale * samples / size for scale, samples in pairs if scale and samples]
    return float(np.median(scales)) if scales else None


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
        Remedy({}, "Use fewer environments, or longer rollouts."),
        {"sps": speed, "best_sps": best, "threshold": NOTABLE_SLOWDOWN},
    )
