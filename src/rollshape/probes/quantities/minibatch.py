"""What shuffled minibatches of a batch keep of its gradient: measured, and predicted from the batch's variance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rollshape.formatting import format_number
from rollshape.gradients.intervals import Estimate, Z
from rollshape.gradients.minibatch import MinibatchPoint, minibatch_point, shuffled_minibatches
from rollshape.gradients.variance import Components, Variance
from rollshape.probes.batches import Batches
from rollshape.probes.collect import Stream
from rollshape.probes.documents import read_estimates, write_estimates
from rollshape.probes.measure import View, measure_rows
from rollshape.probes.plotting import BLUE, GRAY, ORANGE, bar_heights, probe_figure
from rollshape.probes.quantities.quantity import Quantity
from rollshape.probes.text import TextTable, format_cells

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from rollshape.probes.context import ProbeContext
    from rollshape.probes.result import Probe

MINIBATCHES = 16  # measured per batch and size


def measure(context: ProbeContext) -> list[MinibatchPoint]:
    batches = context.batches
    context.on_progress("minibatches")
    size = context.checkpoint.plan.minibatch_size
    return minibatch_table(context.view, batches, context.variance, size, context.rng)


def minibatch_table(
    view: View, batches: Batches, variance: Variance, minibatch_size: int, rng: np.random.Generator
) -> list[MinibatchPoint]:
    """Measure sizes 4, 16, 64, … and the run's own on shuffles of some batches, with intervals over batches."""
    count, envs, steps = batches.advantage.shape
    rollout_size = envs * steps
    sizes = sorted({minibatch_size, *(4**i for i in range(1, 12) if 4**i <= rollout_size)})
    components = _point_values(variance)
    columns = (batches.observation, batches.action, batches.advantage)
    flat = [x.reshape(count, rollout_size, *x.shape[3:]) for x in columns]
    table = []
    for size in sizes:
        points = []
        for k in range(count):
            indices = shuffled_minibatches(rng, rollout_size, size, MINIBATCHES)
            observation, action, advantage = (x[k][indices] for x in flat)
            unused: Any = None
            rows = measure_rows(view, Stream(observation, action, *[unused] * 6), advantage)
            points.append(minibatch_point(size, rollout_size, rows, batches.gradients[k], components))
        table.append(_mean_point(points))
    return table


def _point_values(variance: Variance) -> Components:
    """Return the estimates without their intervals."""
    names = (name for name in Components._fields if name != "autocorrelation")
    values: dict[str, Any] = {name: getattr(variance, name).value for name in names}
    values["autocorrelation"] = np.array([lag.value for lag in variance.autocorrelation])
    return Components(**values)


def _mean_point(points: list[MinibatchPoint]) -> MinibatchPoint:
    """Return the mean over batches, with its interval."""

    def mean(values: list[float]) -> Estimate:
        half = Z * float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0
        return Estimate(float(np.mean(values)), float(np.mean(values)) - half, float(np.mean(values)) + half)

    first = points[0]
    return MinibatchPoint(
        first.size,
        first.predicted_variance,
        mean([point.variance.value for point in points]),
        first.predicted_cosine,
        mean([point.cosine.value for point in points]),
    )


def to_dict(probe: Probe) -> dict[str, Any]:
    return {
        "minibatch": [
            {
                "size": point.size,
                **write_estimates({"variance": point.variance, "cosine": point.cosine}),
                "predicted": {"variance": point.predicted_variance, "cosine": point.predicted_cosine},
            }
            for point in probe.minibatch or ()
        ]
    }


def from_dict(document: Mapping[str, Any]) -> list[MinibatchPoint] | None:
    points = [
        MinibatchPoint(
            size=entry["size"],
            predicted_variance=entry["predicted"]["variance"],
            predicted_cosine=entry["predicted"]["cosine"],
            **read_estimates(entry, ("variance", "cosine")),
        )
        for entry in document["minibatch"]
    ]
    return points or None


def tables(probe: Probe) -> list[TextTable]:
    if probe.minibatch is None:
        return []
    rows = [
        (f"{point.size:,}", *format_cells(point.variance), format_number(point.predicted_variance),
         *format_cells(point.cosine), f"{point.predicted_cosine:.2f}",
         "run" if point.size == probe.geometry.minibatch_size else "")
        for point in probe.minibatch
    ]  # fmt: skip
    columns = ("size", "variance", "95 %", "predicted", "cosine", "95 %", "predicted", "")
    return [TextTable("Shuffled minibatches: gradient variance, cosine to the batch gradient", columns, rows)]


def figures(probe: Probe) -> dict[str, Figure]:
    if probe.minibatch is None:
        return {}
    figure = probe_figure(probe, "Gradients of shuffled minibatches", "95 % intervals over batches", (9.0, 4.5))
    sizes = [point.size for point in probe.minibatch]
    labels = {"variance": "gradient variance", "cosine": "cosine to the batch gradient"}
    for axis, (name, label) in zip(figure.subplots(1, 2), labels.items(), strict=True):
        bars = bar_heights([getattr(point, name) for point in probe.minibatch])
        axis.errorbar(sizes, bars["height"], yerr=bars["yerr"], fmt="o", color=BLUE, label="measured", capsize=2)
        predicted = [getattr(point, f"predicted_{name}") for point in probe.minibatch]
        axis.plot(sizes, predicted, color=ORANGE, label="predicted")
        axis.axvline(probe.geometry.minibatch_size, color=GRAY, linestyle=":", label="the run's size")
        axis.set(xscale="log", xlabel="minibatch_size M", ylabel=label)
    figure.axes[0].set_yscale("log")
    figure.axes[0].legend(fontsize=8, frameon=False, loc="upper right")
    return {"minibatch": figure}


MINIBATCH = Quantity["ProbeContext", "Probe"](
    name="minibatch", part="batches", measure=measure, to_dict=to_dict, from_dict=from_dict, tables=tables,
    figures=figures,
)  # fmt: skip
