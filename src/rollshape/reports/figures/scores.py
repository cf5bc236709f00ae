"""Figures of scores: final returns, learning curves, and final returns against predicted errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rollshape.probes.plotting import INK, error_bars, new_figure
from rollshape.reports.document import Figure
from rollshape.reports.figures.base import finish_figure, group_colors, limit_to_values
from rollshape.studies.curves import Alignment, Curve, common_grid, confidence_band
from rollshape.studies.groups import Task
from rollshape.studies.ranking import Prediction
from rollshape.studies.statistics import Floats, summarize

AXIS_LABELS: dict[Alignment, str] = {
    "timesteps": "timesteps",
    "seconds": "seconds of collecting and updating",
    "gradient_steps": "gradient steps",
}
BAND_POINTS = 60
Drawn = tuple[dict[str, str], list[Sequence[Any]]]  # tooltips by the gid of an artist; the data, header first


def final_returns(name: str, task: Task, scores: Mapping[str, Floats], caption: str) -> Figure:
    """Draw every run's final return as a point, with center and interval of each group beside them."""
    with new_figure(name, (max(7.5, 0.62 * len(scores)), 4.2)) as canvas:
        titles, rows = draw_final_returns(canvas.subplots(), name, task, scores)
        return finish_figure(name, caption, canvas, rows, titles=titles)


def draw_final_returns(axis: Any, name: str, task: Task, scores: Mapping[str, Floats]) -> Drawn:
    """Draw final returns; return the tooltips of the groups, by gid, and the data."""
    labels, colors = list(scores), group_colors(task)
    titles: dict[str, str] = {}
    rows: list[Sequence[Any]] = [("group", "final_return", "centre", "low", "high")]
    for i, label in enumerate(labels):
        values, color = scores[label], colors[label]
        summary = summarize(values)
        offsets = np.linspace(-0.18, 0.18, len(values)) if len(values) > 1 else np.zeros(1)
        key = f"{name}-s{list(colors).index(label)}-points"
        axis.plot(i + offsets, values, "o", ms=4.5, alpha=0.5, color=color, mew=0, gid=key)
        titles[key] = f"{label}: {len(values)} runs"
        bars = error_bars([summary])
        axis.errorbar([i + 0.3], [summary.value], yerr=bars, fmt="D", ms=5, capsize=3, color=color)
        rows += [(label, value, summary.value, summary.low, summary.high) for value in values]
    _label_groups(axis, labels)
    axis.set_ylabel("final return")
    limit_to_values(axis, [value for values in scores.values() for value in values])
    return titles, rows


def _label_groups(axis: Any, labels: Sequence[str]) -> None:
    """Label the groups below the axis: in one line, one line per part, or upright, as there is room."""
    parts = [label.replace(", ", "\n") for label in labels]
    longest = max(len(line) for part in parts for line in part.split("\n"))
    if sum(map(len, labels)) < 80:
        axis.set_xticks(range(len(labels)), labels)
    elif longest <= 10:
        axis.set_xticks(range(len(labels)), parts, fontsize=7, ma="center")
    else:
        axis.set_xticks(range(len(labels)), labels, rotation=90, fontsize=8)


def learning_curves(name: str, task: Task, by: Alignment, threshold: float | None, caption: str) -> Figure | None:
    """Draw every run as a thin line, and each group's center and interval where all of its runs reach."""
    if not any(task.curves(group, by) for group in task.groups):
        return None
    with new_figure(name, (8.5, 4.4)) as canvas:
        titles, rows = draw_learning_curves(canvas.subplots(), name, task, by, threshold)
        return finish_figure(name, caption, canvas, rows, list(group_colors(task).items()), titles)


def draw_learning_curves(axis: Any, name: str, task: Task, by: Alignment, threshold: float | None) -> Drawn:
    """Draw learning curves; return the tooltips of runs and groups, by gid, and the data."""
    colors = group_colors(task)
    titles: dict[str, str] = {}
    rows: list[Sequence[Any]] = [("group", "seed", by, task.metric)]
    for i, group in enumerate(task.groups):
        curves, color = task.curves(group, by), colors[group.label]
        seeds = [run.spec.seed for run in group.runs if run.values(task.metric)]
        for seed, line in zip(seeds, curves, strict=True):
            key = f"{name}-s{i}-seed{seed}"
            axis.plot(line.x, line.y, color=color, lw=0.8, alpha=0.35, gid=key)
            titles[key] = f"{group.label}, seed {seed}: {line.y[-1]:.4g} at the end"
            rows += [(group.label, seed, float(x), float(y)) for x, y in zip(line.x, line.y, strict=True)]
        if len(curves) > 1:
            _draw_band(axis, curves, color, f"{name}-s{i}")
            titles[f"{name}-s{i}-centre"] = group.label
    if threshold is not None:
        axis.axhline(threshold, color=INK, lw=0.8, ls=":")
    is_fresh = task.metric == "eval_return"
    axis.set(xlabel=AXIS_LABELS[by], ylabel="return on fresh episodes" if is_fresh else "training return")
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    limit_to_values(axis, [row[3] for row in rows[1:]])
    return titles, rows


def _draw_band(axis: Any, curves: Sequence[Curve], color: str, key: str) -> None:
    if max(line.x[0] for line in curves) >= min(line.x[-1] for line in curves):
        return
    grid = common_grid(curves, BAND_POINTS)
    band = confidence_band(curves, grid)
    axis.plot(grid, band.value, color=color, lw=2.2, gid=f"{key}-centre")
    axis.fill_between(grid, band.low, band.high, color=color, alpha=0.13, lw=0, gid=f"{key}-band")


def predicted_errors(
    name: str, predictions: Sequence[Prediction], task: Task, scores: Mapping[str, Floats], caption: str
) -> Figure:
    """Draw measured score against predicted error of every group: a good prediction falls from left to right."""
    colors = group_colors(task)
    titles: dict[str, str] = {}
    rows: list[Sequence[Any]] = [("prediction", "group", "error", "error_low", "error_high", "score", "low", "high")]
    with new_figure(name, (8.5, 3.9)) as canvas:
        axes = canvas.subplots(1, len(predictions), squeeze=False, sharey=True)[0]
        for panel, (axis, prediction) in enumerate(zip(axes, predictions, strict=True)):
            for label, error in prediction.errors.items():
                if label not in scores:
                    continue
                score, (low, high), color = summarize(scores[label]), prediction.ranges[label], colors[label]
                key = f"{name}-s{list(colors).index(label)}-{panel}"
                axis.plot([low, high], [score.value] * 2, color=color, lw=1, alpha=0.6)
                axis.errorbar([error], [score.value], yerr=error_bars([score]), fmt="none", ecolor=color, capsize=3)
                axis.plot([error], [score.value], "o", color=color, ms=7, gid=key)
                titles[key] = f"{label}: predicted {error:.3g}, measured {score.value:.4g}"
                rows.append((prediction.horizon, label, error, low, high, score.value, score.low, score.high))
            _set_log_ticks(axis)
            axis.set(xlabel="predicted error, relative to the median shape", title=prediction.horizon)
        axes[0].set_ylabel("final return")
        limit_to_values(axes[0], [row[5] for row in rows[1:]])
        return finish_figure(name, caption, canvas, rows, list(colors.items()), titles, "upper right")


def _set_log_ticks(axis: Any) -> None:
    from matplotlib.ticker import LogLocator

    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.xaxis.set_minor_formatter(lambda *_: "")
