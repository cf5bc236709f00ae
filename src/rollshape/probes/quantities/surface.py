"""Gradient error of every split of a rollout size into environments and steps, and which split has the smallest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rollshape.formatting import format_number
from rollshape.gradients.surface import Point
from rollshape.probes.documents import read_estimates, write_estimates
from rollshape.probes.plotting import BLUE, GRAY, INTERVAL, ORANGE, bar_heights, probe_figure
from rollshape.probes.quantities.quantity import Quantity
from rollshape.probes.text import TextTable, format_cells, format_shape

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from rollshape.probes.context import ProbeContext
    from rollshape.probes.result import Probe

FIELDS = ("variance", "bias2", "bias2_window", "mse", "score")


def measure(context: ProbeContext) -> list[Point]:
    return context.surfaces[context.rollout_size]


def measure_sizes(context: ProbeContext) -> dict[int, list[Point]]:
    """Return the splits of other rollout sizes."""
    return {size: points for size, points in context.surfaces.items() if size != context.rollout_size}


def to_dict(probe: Probe) -> dict[str, Any]:
    return {
        "surface": [write_point(point) for point in probe.surface],
        "best": {"mse": write_shape(probe.best), "score": write_shape(probe.best_over_horizon)},
    }


def from_dict(document: Mapping[str, Any]) -> list[Point]:
    return [read_point(entry) for entry in document["surface"]]


def sizes_to_dict(probe: Probe) -> dict[str, Any]:
    sizes = probe.sizes or {}
    return {"sizes": {str(size): [write_point(point) for point in points] for size, points in sizes.items()}}


def sizes_from_dict(document: Mapping[str, Any]) -> dict[int, list[Point]] | None:
    sizes = {int(size): [read_point(entry) for entry in points] for size, points in document["sizes"].items()}
    return sizes or None


def write_shape(point: Point) -> dict[str, int]:
    return {"num_envs": point.num_envs, "num_steps": point.num_steps}


def write_point(point: Point) -> dict[str, Any]:
    return {**write_shape(point), **write_estimates({name: getattr(point, name) for name in FIELDS})}


def read_point(document: Mapping[str, Any]) -> Point:
    return Point(document["num_envs"], document["num_steps"], **read_estimates(document, FIELDS))


def sentences(probe: Probe) -> list[str]:
    size, horizon = probe.geometry.rollout_size, probe.horizon
    lines = [
        f"Best split of {size:,} steps for a single update (smallest squared gradient error): "
        f"{_choice(probe, probe.best, 'mse')}."
    ]
    if horizon.value is None:
        return [*lines, f"The number of updates over which noise averages out is unknown: {horizon.reason}."]
    ends = "" if horizon.low is None or horizon.high is None else f", {horizon.low:.3g} … {horizon.high:.3g}"
    return [
        *lines,
        f"Best split over h = {horizon.value:.3g} updates ({horizon.source}{ends}), in which noise averages out but "
        f"bias does not: {_choice(probe, probe.best_over_horizon, 'score')}.",
    ]


def _choice(probe: Probe, best: Point, criterion: str) -> str:
    """Name the best split and how many others are within its interval."""
    limit = getattr(best, criterion).high
    tied = [p for p in probe.surface if p is not best and getattr(p, criterion).value <= limit]
    if not tied:
        return format_shape(best)
    if len(tied) == 1:
        return f"{format_shape(best)}, statistically tied with {format_shape(tied[0])}"
    ends = f"{format_shape(tied[0])} to {format_shape(tied[-1])}"
    return f"{format_shape(best)}, statistically tied with {len(tied)} other shapes ({ends})"


def tables(probe: Probe) -> list[TextTable]:
    """Return the errors that decide, and what they consist of."""
    horizon, size = probe.horizon.value or 1.0, probe.geometry.rollout_size
    errors, parts = [], []
    for point in probe.surface:
        marks = {
            "run": point is probe.run_point,
            "best": point is probe.best,
            "best over h": horizon != 1 and point is probe.best_over_horizon,
        }
        label = ", ".join(mark for mark, applies in marks.items() if applies)
        over_horizon = () if horizon == 1 else format_cells(point.score)
        errors.append((format_shape(point), *format_cells(point.mse), *over_horizon, label))
        parts.append(
            (format_shape(point), *format_cells(point.variance), *format_cells(point.bias2),
             format_number(point.bias2_window.value))
        )  # fmt: skip
    columns = ("N×T", "one update", "95 %", *(() if horizon == 1 else (f"h = {horizon:.3g}", "95 %")), "")
    omitted = probe.geometry.left_out
    note = f"Not measured (T is longer than the probe): {', '.join(map(str, omitted))}." if omitted else ""
    return [
        TextTable(
            f"Squared gradient error of every split of {size:,} steps: bias² + variance/h", columns, errors, note
        ),
        TextTable(
            "Variance and bias² of every split", ("N×T", "variance", "95 %", "bias²", "95 %", "from truncation"), parts
        ),
    ]


def figures(probe: Probe) -> dict[str, Figure]:
    return {"surface": _bar_figure(probe), "sizes": _heat_map(probe)}


def _bar_figure(probe: Probe) -> Figure:
    """Draw bias² and variance/h of every split, stacked, for one update and over the horizon."""
    horizon = probe.horizon.value
    panels = [("single update", 1.0, probe.best)]
    if horizon is not None and horizon != 1:
        panels.append((f"over h = {horizon:.3g} updates", horizon, probe.best_over_horizon))
    title = f"Squared gradient error of every split of {probe.geometry.rollout_size:,} steps"
    figure = probe_figure(probe, title, f"{INTERVAL}, of the sum")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (title, updates, best) in zip(axes, panels, strict=True):
        places = np.arange(len(probe.surface))
        bias2 = np.array([max(point.bias2.value, 0.0) for point in probe.surface])
        noise = np.array([point.variance.value / updates for point in probe.surface])
        error = bar_heights([point.mse if updates == 1 else point.score for point in probe.surface])
        axis.bar(places, bias2, color=ORANGE, label="bias²")
        axis.bar(
            places, noise, bottom=bias2, color=BLUE, label="variance/h", yerr=error["yerr"], ecolor=GRAY, capsize=2
        )
        marks = {id(probe.run_point): " (run)", id(best): " (best, run)" if best is probe.run_point else " (best)"}
        labels = [format_shape(point) + marks.get(id(point), "") for point in probe.surface]
        axis.set_xticks(places, labels, rotation=60, ha="right", fontsize=8)
        for point, label in zip(probe.surface, axis.get_xticklabels(), strict=True):
            label.set_fontweight("bold" if id(point) in marks else "normal")
        axis.set_title(title, fontsize=9)
    axes[0].set_ylabel("squared error of the gradient")
    figure.legend(*axes[0].get_legend_handles_labels(), fontsize=8, frameon=False, loc="outside right upper")
    return figure


def _heat_map(probe: Probe) -> Figure:
    """Draw the error over N and T; every rollout size is a diagonal."""
    points = [*probe.surface, *(point for size in (probe.sizes or {}).values() for point in size)]
    steps, envs = (sorted({getattr(p, name) for p in points}) for name in ("num_steps", "num_envs"))
    grid = np.full((len(envs), len(steps)), np.nan)
    for point in points:
        grid[envs.index(point.num_envs), steps.index(point.num_steps)] = np.log10(point.score.value)
    width = max((np.log10(p.score.high / p.score.low) / 2 for p in points if p.score.low > 0), default=0.0)
    horizon = probe.horizon.value or 1.0
    title = f"Squared gradient error by shape, log10(bias² + variance/{horizon:.3g})"
    figure = probe_figure(probe, title, f"95 % intervals of at most ±{width:.2g}", (8.0, 6.5))
    axis = figure.subplots()
    image = axis.imshow(grid, origin="lower", cmap="viridis_r", aspect="auto")
    figure.colorbar(image, ax=axis, label="log10 of the squared error")
    axis.set_xticks(range(len(steps)), [str(t) for t in steps], rotation=60)
    axis.set_yticks(range(len(envs)), [str(n) for n in envs])
    axis.set(xlabel="num_steps T", ylabel="num_envs N")

    def mark(point: Point | None, marker: str, label: str) -> None:
        if point is not None:
            place = steps.index(point.num_steps), envs.index(point.num_envs)
            axis.scatter(*place, marker=marker, s=90, facecolors="none", edgecolors="red", label=label)

    mark(probe.best_over_horizon, "o", f"best split of {probe.geometry.rollout_size:,} steps")
    mark(probe.run_point, "s", "the run's shape")
    axis.legend(fontsize=8, loc="upper right")
    return figure


SURFACE = Quantity["ProbeContext", "Probe"](
    name="surface", measure=measure, to_dict=to_dict, from_dict=from_dict, sentences=sentences, tables=tables,
    figures=figures,
)  # fmt: skip
SIZES = Quantity["ProbeContext", "Probe"](
    name="sizes", part="sizes", measure=measure_sizes, to_dict=sizes_to_dict, from_dict=sizes_from_dict
)
