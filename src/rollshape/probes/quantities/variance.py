"""Variance of the gradient of a batch: its parts, the effective sample size, and the correlation along time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rollshape.formatting import format_number
from rollshape.gradients.intervals import Estimate
from rollshape.gradients.variance import Variance, empirical_variance
from rollshape.probes.documents import interval, read_estimate, read_estimates, write_estimates
from rollshape.probes.plotting import BLUE, GRAY, GREEN, INTERVAL, ORANGE, bar_heights, probe_figure
from rollshape.probes.quantities.quantity import Quantity
from rollshape.probes.text import CI, TextTable, format_cells, format_interval, format_shape

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from rollshape.probes.context import ProbeContext
    from rollshape.probes.result import Probe

FIELDS = ("total", "individual", "covariance", "squared_norm", "step_variance", "correlation_time")


def measure(context: ProbeContext) -> Variance:
    return context.variance


def measure_collected(context: ProbeContext) -> Estimate:
    """Return the variance over independently collected batches, to compare with the estimate."""
    return empirical_variance(context.batches.gradients)


def to_dict(probe: Probe) -> dict[str, Any]:
    variance = probe.variance
    return {
        "variance": write_estimates({name: getattr(variance, name) for name in FIELDS}),
        "effective_sample_size": variance.effective_sample_size.value,
        "effective_sample_size_ci": interval(variance.effective_sample_size),
        "carriers": variance.effective_envs,
        "autocorrelation": [estimate.value for estimate in variance.autocorrelation],
        "autocorrelation_ci": [interval(estimate) for estimate in variance.autocorrelation],
    }


def from_dict(document: Mapping[str, Any]) -> Variance:
    lags = zip(document["autocorrelation"], document["autocorrelation_ci"], strict=True)
    return Variance(
        num_envs=document["geometry"]["num_envs"],
        num_steps=document["geometry"]["num_steps"],
        **read_estimates(document["variance"], FIELDS),
        effective_sample_size=read_estimate(document["effective_sample_size"], document["effective_sample_size_ci"]),
        autocorrelation=tuple(read_estimate(value, ends) for value, ends in lags),
        effective_envs=document["carriers"],
    )


def collected_to_dict(probe: Probe) -> dict[str, Any]:
    return {"collected": None if probe.collected is None else write_estimates({"variance": probe.collected})}


def collected_from_dict(document: Mapping[str, Any]) -> Estimate | None:
    collected = document["collected"]
    return None if collected is None else read_estimates(collected, ["variance"])["variance"]


def sentences(probe: Probe) -> list[str]:
    shape, variance = probe.geometry, probe.variance
    size = variance.effective_sample_size
    lines = [
        f"Effective sample size: {format_number(size.value)} of {shape.num_envs * shape.num_steps:,} steps "
        f"({format_interval(size)})."
    ]
    if variance.has_few_effective_envs:
        lines.append(
            f"Warning: about {variance.effective_envs:.2g} of {shape.probe_envs} environments account for the "
            "variance, as when the gradient depends on a rare event. The intervals are then too narrow: use more "
            f"environments (--num-envs {4 * shape.probe_envs})."
        )
    return [*lines, _correlation(variance)]


def _correlation(variance: Variance) -> str:
    if 0.0 in variance.covariance:
        return "No correlation along time detected: the gradient variance is that of independent steps."
    share = variance.covariance.value / variance.total.value if variance.total.value else 0.0
    if share > 0:
        return f"{share:.0%} of the gradient variance comes from correlation along time."
    return (
        "Negative correlation along time reduces the gradient variance: independent steps would have "
        f"{1 - share:.2g} times as much."
    )


def tables(probe: Probe) -> list[TextTable]:
    variance, shape = probe.variance, probe.geometry
    collected = []
    if probe.collected is not None:
        collected = [(f"  of {shape.num_batches} collected batches, to compare", *format_cells(probe.collected))]
    rows = [
        ("variance of the gradient (trace)", *format_cells(variance.total)),
        *collected,
        ("  from individual steps", *format_cells(variance.individual)),
        ("  from correlation along time", *format_cells(variance.covariance)),
        ("squared norm of the mean gradient", *format_cells(variance.squared_norm)),
        ("effective sample size (steps)", *format_cells(variance.effective_sample_size)),
        ("correlation time (steps)", *format_cells(variance.correlation_time)),
        ("environments that account for it", f"{variance.effective_envs:.1f}", f"of {shape.probe_envs}"),
    ]
    return [TextTable(f"Gradient variance of a {format_shape(shape)} batch (the run's shape)", ("", "value", CI), rows)]


def figures(probe: Probe) -> dict[str, Figure]:
    return {"variance": _variance_figure(probe), "autocorrelation": _autocorrelation_figure(probe)}


def _variance_figure(probe: Probe) -> Figure:
    shape, variance = probe.geometry, probe.variance
    uncertainty = INTERVAL if probe.collected is None else f"{INTERVAL} (collected batches: over batches)"
    figure = probe_figure(probe, f"Gradient variance of a {format_shape(shape)} batch", uncertainty, (6.0, 4.5))
    axis = figure.subplots()
    bars = {
        "total": variance.total, "individual\nsteps": variance.individual,
        "correlation\nalong time": variance.covariance,
    }  # fmt: skip
    if probe.collected is not None:
        bars[f"total, from {shape.num_batches}\ncollected batches"] = probe.collected
    axis.bar(list(bars), **bar_heights(list(bars.values())), color=[GRAY, BLUE, ORANGE, GREEN][: len(bars)])
    axis.axhline(0, color="black", linewidth=0.6)
    axis.set_ylabel("trace of the gradient covariance")
    return figure


def _autocorrelation_figure(probe: Probe) -> Figure:
    figure = probe_figure(probe, "Autocorrelation of step gradients", INTERVAL, (7.0, 4.5))
    axis, lags = figure.subplots(), probe.variance.autocorrelation
    places = np.arange(len(lags))
    axis.fill_between(places, [lag.low for lag in lags], [lag.high for lag in lags], color=BLUE, alpha=0.25)
    axis.plot(places, [lag.value for lag in lags], color=BLUE, marker="." if len(lags) <= 64 else "")
    axis.axhline(0, color="black", linewidth=0.6)
    axis.set(xlabel="lag k (steps)", ylabel="autocorrelation ρ_k")
    return figure


VARIANCE = Quantity["ProbeContext", "Probe"](
    name="variance", measure=measure, to_dict=to_dict, from_dict=from_dict, sentences=sentences, tables=tables,
    figures=figures,
)  # fmt: skip
COLLECTED = Quantity["ProbeContext", "Probe"](
    name="collected", part="batches", measure=measure_collected, to_dict=collected_to_dict,
    from_dict=collected_from_dict,
)  # fmt: skip
