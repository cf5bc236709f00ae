"""A probe's answer in words, each sentence with its uncertainty."""

from __future__ import annotations

from rollshape.gradients.intervals import Estimate
from rollshape.gradients.surface import Point
from rollshape.probes.result import Probe


def answer(probe: Probe) -> list[str]:
    """What a practitioner wants to know, the most important first."""
    return [
        _worth(probe), *_caution(probe), _noise(probe), _signal(probe), _bias(probe), *_three(probe), *_phase(probe),
        *_best(probe),
    ]  # fmt: skip


def shape(point: Point) -> str:
    return f"{point.num_envs:,}×{point.num_steps:,}"


def number(value: float) -> str:
    """Three digits, or all of a large number."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def between(estimate: Estimate) -> str:
    return f"{number(estimate.low)} … {number(estimate.high)}"


def _worth(probe: Probe) -> str:
    own, worth = probe.geometry, probe.variance.effective_sample_size
    size = own.num_envs * own.num_steps
    return (
        f"A batch of {own.num_envs:,}×{own.num_steps:,} is worth {number(worth.value)} independent steps of its "
        f"{size:,} ({between(worth)})."
    )


def _caution(probe: Probe) -> list[str]:
    """Where intervals are known to be too narrow."""
    if not probe.variance.rests_on_few:
        return []
    return [
        f"Caution: the noise rests on {probe.variance.carriers:.2g} of {probe.geometry.probe_envs} environments, as if "
        f"a rare event made it; the intervals are then too narrow. Probe with more: --num-envs "
        f"{4 * probe.geometry.probe_envs}."
    ]


def _noise(probe: Probe) -> str:
    total, covariance = probe.variance.total, probe.variance.covariance
    share = covariance.value / total.value if total.value else 0.0
    if 0.0 in covariance:
        return "Its noise is that of single steps: no correlation along time can be told from none."
    if share > 0:
        return f"{share:.0%} of its noise is correlation along time, the rest is that of single steps."
    return f"Steps of an environment cancel: without that the noise would be {1 - share:.2g} times as large."


def _signal(probe: Probe) -> str:
    scale = probe.noise_scale
    if scale.clustered.value is None:
        least = "" if scale.clustered.low is None else f", at least {scale.clustered.low:,.0f} steps"
        return f"No signal is seen: how many steps it takes until it equals the noise cannot be told{least}."
    low, high = scale.clustered.low, scale.clustered.high
    ends = f"{low:,.0f} … {high:,.0f}" if low is not None and high is not None else f"at least {low or 0:,.0f}"
    naive = "no number" if scale.naive.value is None else f"{scale.naive.value:,.0f}"
    return f"Signal equals noise at {scale.clustered.value:,.0f} steps ({ends}); the usual estimator says {naive}."


def _bias(probe: Probe) -> str:
    total, window = probe.bias["total"], probe.bias["window"]
    if total.relative is None or window.relative is None:
        return f"How far its mean is off the true gradient cannot be given as a share of it ({total.reason})."
    off, edge = _root(total.relative), _root(window.relative)
    return (
        f"Its mean is off the true gradient by {off.value:.0%} of its length ({off.low:.0%} … {off.high:.0%}); by the "
        f"window's edge alone by {edge.value:.0%} ({edge.low:.0%} … {edge.high:.0%})."
    )


def _three(probe: Probe) -> list[str]:
    if probe.noises is None:
        return []
    split = probe.noises.noises
    if split is None:
        return [f"The three noises: {probe.noises.reason}."]
    parts = {"sampling": split.sampling, "trajectory": split.trajectory, "credit assignment": split.credit}
    told = ", ".join(f"{name} {number(each.value)} ({between(each)})" for name, each in parts.items())
    return [f"A single step's squared error is {told}."]


def _phase(probe: Probe) -> list[str]:
    found, own = probe.reset_phase, probe.geometry
    if found is None:
        return []
    if found.between is None:
        return [f"Reset phase: {found.reason}."]
    if found.envs_of_balance is None:
        return ["Environments that reset together would see no other gradient than staggered ones, as far as is seen."]
    return [
        f"Environments that reset together would be off by {number(found.between.value)} ({between(found.between)}) "
        f"however many they are: as much as the noise of {number(found.envs_of_balance)} × {own.num_steps} steps."
    ]


def _root(estimate: Estimate) -> Estimate:
    value, low, high = (max(x, 0.0) ** 0.5 for x in (estimate.value, estimate.low, estimate.high))
    return Estimate(value, low, high)


def _best(probe: Probe) -> list[str]:
    size, horizon = probe.geometry.rollout_size, probe.horizon
    found = [f"Of {size:,} steps, the split with the least error of one update is {_choice(probe, 'mse')}."]
    if horizon.value is None:
        return [*found, f"Over how many updates noise averages out is not known: {horizon.reason}."]
    ends = "" if horizon.low is None or horizon.high is None else f", {horizon.low:.3g} … {horizon.high:.3g}"
    told = (
        f"Over h = {horizon.value:.3g} updates ({horizon.source}{ends}), in which noise averages out and bias does not"
    )
    return [*found, f"{told}, it is {_choice(probe, 'score')}."]


def _choice(probe: Probe, by: str) -> str:
    """The best split, and whether others are as good as far as this probe can tell."""
    best = probe.best if by == "mse" else probe.best_over_horizon
    limit = getattr(best, by).high
    tied = [point for point in probe.surface if getattr(point, by).value <= limit and point is not best]
    if not tied:
        return shape(best)
    others = shape(tied[0]) if len(tied) == 1 else f"{len(tied)} others from {shape(tied[0])} to {shape(tied[-1])}"
    return f"{shape(best)}, and {others} cannot be told from it"
