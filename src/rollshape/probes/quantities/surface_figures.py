"""Figures of the surface: errors of all splits with their differences to the run's own shape, and a map over sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rollshape.gradients.intervals import Estimate
from rollshape.gradients.surface import Criterion, Point
from rollshape.probes.plotting import BLUE, GRAY, GREEN, INK, INTERVAL, ORANGE, RED, error_bars, probe_figure
from rollshape.probes.text import format_shape

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from rollshape.probes.result import Probe


def draw_splits(probe: Probe) -> Figure:
    """Draw bias² and variance/h of every split, stacked, and below them the differences to the run's own shape.

    There is a column for one update and, if it is known, one over the horizon.
    """
    horizon = probe.horizon.value
    panels: list[tuple[str, float, Criterion]] = [("single update", 1.0, "mse")]
    if horizon is not None and horizon != 1:
        panels.append((f"over h = {horizon:.3g} updates", horizon, "score"))
    title = f"Squared gradient error of every split of {probe.geometry.rollout_size:,} steps"
    base = probe.compared_point
    rows = 1 if base is None else 2
    note = f"{INTERVAL}: above of the sum, below of the paired difference" if base else f"{INTERVAL}, of the sum"
    figure = probe_figure(probe, title, note, (8.0, 3.0 + 2.4 * rows))
    axes = figure.subplots(rows, len(panels), squeeze=False, sharex="col")
    for column, (name, updates, criterion) in zip(axes.T, panels, strict=True):
        _draw_bars(column[0], probe, updates, criterion)
        column[0].set_title(name, fontsize=9)
        if base is not None:
            _draw_differences(column[1], probe, criterion)
        best = probe.separated_best(criterion)
        marks = {id(probe.run_point): " (run)", id(best): " (best)"}
        labels = [format_shape(point) + marks.get(id(point), "") for point in probe.surface]
        column[-1].set_xticks(np.arange(len(labels)), labels, rotation=60, ha="right", fontsize=8)
        for point, label in zip(probe.surface, column[-1].get_xticklabels(), strict=True):
            label.set_fontweight("bold" if id(point) in marks else "normal")
    axes[0, 0].set_ylabel("squared error of the gradient")
    if base is not None:
        axes[1, 0].set_ylabel(f"difference to {format_shape(base)}")
    for axis in axes[:, 0]:
        axis.legend(fontsize=7, frameon=False, loc="best")
    return figure


def _draw_bars(axis: Axes, probe: Probe, updates: float, criterion: Criterion) -> None:
    places = np.arange(len(probe.surface))
    bias2 = np.array([max(point.bias2.value, 0.0) for point in probe.surface])
    noise = np.array([point.variance.value / updates for point in probe.surface])
    ends = error_bars([point.error(criterion) for point in probe.surface])
    axis.bar(places, bias2, color=ORANGE, label="bias²")
    axis.bar(places, noise, bottom=bias2, color=BLUE, label="variance/h", yerr=ends, ecolor=GRAY, capsize=2)


def _draw_differences(axis: Axes, probe: Probe, criterion: Criterion) -> None:
    """Draw the paired differences in three colors: better than the run's own shape, worse, and not separated."""
    colors = {"better than the run": GREEN, "worse": RED, "not separated": GRAY}
    differences = {i: d for i, point in enumerate(probe.surface) if (d := point.difference(criterion)) is not None}
    axis.axhline(0, color=INK, linewidth=0.8)
    for label, color in colors.items():
        drawn = {i: d for i, d in differences.items() if _compare(d) == label}
        values = [d.value for d in drawn.values()]
        axis.errorbar(list(drawn), values, yerr=error_bars(list(drawn.values())) if drawn else None, fmt="o",
                      markersize=4, color=color, capsize=2, label=label)  # fmt: skip


def _compare(difference: Estimate) -> str:
    if difference.high < 0:
        return "better than the run"
    return "worse" if difference.low > 0 else "not separated"


def draw_sizes(probe: Probe) -> Figure:
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

    mark(probe.separated_best("score"), "o", f"best split of {probe.geometry.rollout_size:,} steps")
    mark(probe.run_point, "s", "the run's shape")
    axis.legend(fontsize=8, loc="upper right")
    return figure
