"""The critic: its value targets at every T, and its gradient. At short T, values propagate only T steps per update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from rollshape.gradients.intervals import Bootstrap, Estimate
from rollshape.gradients.noise_scale import NoiseScales, noise_scales
from rollshape.gradients.surface import Point, surface
from rollshape.probes.collect import Stream, estimate_advantages
from rollshape.probes.documents import read_estimates, read_scales, write_estimates
from rollshape.probes.measure import critic_view, critic_weights, measure_step_norms, measure_windows
from rollshape.probes.quantities.quantity import Quantity
from rollshape.probes.subject import Estimator
from rollshape.probes.text import TextTable, format_cells

if TYPE_CHECKING:
    from rollshape.probes.context import ProbeContext
    from rollshape.probes.result import Probe


MOST_ENVS = 128  # of the long rollout, that are measured: windows of all T are the most expensive part of a probe


@dataclass(frozen=True, slots=True)
class GradientError:
    """Variance and squared bias of the gradient of (V − R)² at N×T."""

    num_envs: int
    num_steps: int
    variance: Estimate
    bias2: Estimate


@dataclass(frozen=True, slots=True)
class TargetPoint:
    """Value targets R of windows of T: E[R − R_reference], and Var(R − V), the noise around the critic's value."""

    num_steps: int
    bias: Estimate
    variance: Estimate
    gradient: GradientError


@dataclass(frozen=True, slots=True)
class Critic:
    targets: list[TargetPoint]
    noise_scale: NoiseScales


def measure(context: ProbeContext) -> Critic | None:
    """Return None where no critic is trained."""
    estimator, lengths, steps = context.checkpoint.estimator, context.lengths, context.num_steps
    if not estimator.has_critic:
        return None
    stream: Stream = jax.tree.map(lambda x: np.asarray(x)[:MOST_ENVS], context.stream)
    view = critic_view(context.source.policy)
    context.on_progress(f"critic: windows of {lengths[0]} to {lengths[-1]} steps")
    weights = critic_weights(estimator, stream, lengths)
    windows = measure_windows(view, stream, weights)
    run_windows = windows[lengths.index(steps)]
    norms = measure_step_norms(view, stream, weights[lengths.index(steps)])
    scales = noise_scales(
        norms, run_windows.row_gram, steps, context.rng, window_norms=run_windows.window_norms,
        num_envs=context.num_envs,
    )  # fmt: skip
    points = surface(context.rollout_size, windows, context.rng)
    return Critic(measure_targets(estimator, stream, points, context.rng), scales)


def measure_targets(
    estimator: Estimator, stream: Stream, points: Sequence[Point], rng: np.random.Generator
) -> list[TargetPoint]:
    """Return the targets at the T of every point of the critic's surface."""
    reference = estimate_advantages(estimator, stream, lam=1.0)[1]
    targets = []
    for point in points:
        target = estimate_advantages(estimator, stream, point.num_steps)[1]
        size = target.shape[1]
        residual = target - np.asarray(stream.value)[:, :size]
        means = {
            "bias": (target - reference[:, :size]).mean(1),
            "residual": residual.mean(1),
            "square": (residual**2).mean(1),
        }
        resampled = Bootstrap(means, {}, rng)
        targets.append(
            TargetPoint(
                point.num_steps,
                resampled.estimate(lambda q: q["bias"]),
                resampled.estimate(lambda q: q["square"] - q["residual"] ** 2, positive=True),
                GradientError(point.num_envs, point.num_steps, point.variance, point.bias2),
            )
        )
    return targets


def to_dict(probe: Probe) -> dict[str, Any]:
    """Write the targets; the noise scale is written with the policy's."""
    return {"critic": [_write(target) for target in (probe.critic.targets if probe.critic else ())]}


def _write(target: TargetPoint) -> dict[str, Any]:
    gradient = {"gradient_variance": target.gradient.variance, "gradient_bias2": target.gradient.bias2}
    return {
        "num_envs": target.gradient.num_envs,
        "num_steps": target.num_steps,
        **write_estimates({"bias": target.bias, "variance": target.variance, **gradient}),
    }


def from_dict(document: Mapping[str, Any]) -> Critic | None:
    scales = document["noise_scale"]["value"]
    return None if scales is None else Critic([_read(entry) for entry in document["critic"]], read_scales(scales))


def _read(document: Mapping[str, Any]) -> TargetPoint:
    estimates = read_estimates(document, ("bias", "variance", "gradient_variance", "gradient_bias2"))
    gradient = GradientError(
        document["num_envs"], document["num_steps"], estimates["gradient_variance"], estimates["gradient_bias2"]
    )
    return TargetPoint(document["num_steps"], estimates["bias"], estimates["variance"], gradient)


def tables(probe: Probe) -> list[TextTable]:
    if probe.critic is None:
        return []
    rows = [(f"{t.num_steps:,}", *format_cells(t.bias), *format_cells(t.variance)) for t in probe.critic.targets]
    columns = ("T", "bias", "95 %", "variance", "95 %")
    return [TextTable("Value targets by T: bias, and variance around the critic's value", columns, rows)]


CRITIC = Quantity["ProbeContext", "Probe"](
    name="critic", part="critic", measure=measure, to_dict=to_dict, from_dict=from_dict, tables=tables
)
