"""Figures of probes: error surfaces, gradient quality by shape, variance terms, cosines, RRD's reward batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from itertools import cycle
from typing import Any

import numpy as np

from rollshape.formatting import format_number
from rollshape.gradients.intervals import Estimate
from rollshape.gradients.surface import Point
from rollshape.probes.plotting import BLUE, COLORS, INK, ORANGE, new_figure
from rollshape.probes.quantities.cosine_maps import CosineMap, draw_cosine_maps
from rollshape.probes.result import Probe
from rollshape.probes.rewards import RewardProbe
from rollshape.reports.document import Figure
from rollshape.reports.figures.base import finish_figure
from rollshape.studies.groups import Group, Task
from rollshape.studies.statistics import Floats, summarize

HIGHER_IS_BETTER = {"final return", "effective sample size"}
MEASURES = ("final return", "variance", "bias²", "bias² + variance", "effective sample size")
PANEL_POINTS = 3.2 * 72  # width of a map
BRIGHT = 0.6  # share of viridis above which text is black
NOT_MEASURED = Estimate(np.nan, np.nan, np.nan)


def error_surface(name: str, probe: Probe, caption: str) -> Figure:
    """Draw variance, bias² and their sum as heat maps over N and T, for all sizes that one probe predicts."""
    points = [*probe.surface, *(point for surface in (probe.sizes or {}).values() for point in surface)]
    steps, envs = sorted({point.num_steps for point in points}), sorted({point.num_envs for point in points})
    panels: dict[str, Callable[[Point], Estimate]] = {
        "variance": lambda point: point.variance,
        "bias²": lambda point: point.bias2,
        "bias² + variance": lambda point: point.mse,
    }
    rows: list[Sequence[Any]] = [("num_envs", "num_steps", "variance", "bias2", "mse")]
    rows += [(point.num_envs, point.num_steps, *(read(point).value for read in panels.values())) for point in points]
    with new_figure(name, (10, 4.4)) as canvas:
        axes = canvas.subplots(1, 3, sharey=True)
        for axis, (title, read) in zip(axes, panels.items(), strict=True):
            grid = np.full((len(envs), len(steps)), np.nan)
            for point in points:
                if (value := read(point).value) > 0:
                    grid[envs.index(point.num_envs), steps.index(point.num_steps)] = np.log10(value)
            image = axis.imshow(grid, origin="lower", cmap="viridis_r", aspect="auto")
            canvas.colorbar(image, ax=axis, shrink=0.85).outline.set_visible(False)
            _set_map_axes(axis, f"log10 {title}", steps, envs)
        axes[0].set_ylabel("num_envs N")
        return finish_figure(name, caption, canvas, rows)


def _set_map_axes(axis: Any, title: str, steps: Sequence[int], envs: Sequence[int]) -> None:
    """Put T on the x-axis and N on the y-axis."""
    axis.grid(False)
    axis.set_title(title, fontsize=10)
    size = 9 if max(len(steps), len(envs)) <= 8 else 7
    axis.set_xticks(range(len(steps)), [str(t) for t in steps], rotation=0 if len(steps) <= 8 else 70, fontsize=size)
    axis.set_yticks(range(len(envs)), [str(n) for n in envs], fontsize=size)
    axis.set_xlabel("num_steps T")


def shape_map(name: str, task: Task, scores: Mapping[str, Floats], caption: str) -> Figure | None:
    """Draw what was measured at each shape over N and T: final return, and gradient quality by the shape's probes."""
    rows: list[Sequence[Any]] = [("num_envs", "num_steps", *MEASURES)]
    for group in task.groups:
        final = summarize(scores[group.label]).value if group.label in scores else None
        rows.append((group.plan.num_envs, group.plan.num_steps, final, *_gradient_quality(_group_probes(group))))
    envs, steps = (sorted({row[i] for row in rows[1:]}) for i in (0, 1))
    panels = [i for i in range(len(MEASURES)) if any(row[i + 2] is not None for row in rows[1:])]
    if len(rows) == 2 or not panels:  # one shape is no map
        return None
    width = min(3, len(panels))
    height = -(-len(panels) // width)
    with new_figure(name, (3.6 * width + 1, 3.1 * height + 0.5)) as canvas:
        axes = canvas.subplots(height, width, squeeze=False, sharex=True, sharey=True).flatten()
        for axis in axes[len(panels) :]:
            axis.set_visible(False)
        for axis, panel in zip(axes, panels, strict=False):
            grid = np.full((len(envs), len(steps)), np.nan)
            for row in rows[1:]:
                if row[panel + 2] is not None:
                    grid[envs.index(row[0]), steps.index(row[1])] = row[panel + 2]
            color_map = "viridis" if MEASURES[panel] in HIGHER_IS_BETTER else "viridis_r"
            ranks = _ranks(grid)
            axis.imshow(ranks, origin="lower", cmap=color_map, aspect="auto", vmin=0, vmax=1)
            _write_cells(axis, grid, ranks if color_map == "viridis" else 1 - ranks)
            _set_map_axes(axis, MEASURES[panel], steps, envs)
            axis.tick_params(labelbottom=True)
        for axis in axes[::width]:
            axis.set_ylabel("num_envs N")
        return finish_figure(name, caption, canvas, rows)


def _group_probes(group: Group) -> list[Probe]:
    return [probe for run in group.runs for probe in run.measured_probes()]


def _gradient_quality(probes: Sequence[Probe]) -> tuple[float | None, ...]:
    """Return variance, bias², their sum and ESS of a shape's batch: means over its probes."""
    variance = _mean([probe.variance.total for probe in probes])
    bias2 = _mean([probe.bias["total"].squared for probe in probes])
    mse = None if variance is None or bias2 is None else variance + bias2
    return variance, bias2, mse, _mean([probe.variance.effective_sample_size for probe in probes])


def _mean(estimates: Sequence[Estimate]) -> float | None:
    values = [estimate.value for estimate in estimates if np.isfinite(estimate.value)]
    return float(np.mean(values)) if values else None


def _ranks(grid: Floats) -> Floats:
    """Return ranks in [0, 1]: colors show the order, the numbers the distances."""
    values = np.unique(grid[np.isfinite(grid)])
    return np.where(np.isfinite(grid), np.searchsorted(values, grid) / max(1, len(values) - 1), np.nan)


def _write_cells(axis: Any, grid: Floats, brightness: Floats) -> None:
    """Write each value as large as its cell allows, white on dark cells and black on bright ones."""
    texts = {place: format_number(value) for place, value in np.ndenumerate(grid) if np.isfinite(value)}
    longest = max(map(len, texts.values()), default=1)
    size = min(9.5, PANEL_POINTS / grid.shape[1] / (0.62 * longest))
    for (y, x), text in texts.items():
        color = "black" if brightness[y, x] > BRIGHT else "white"
        axis.text(x, y, text, ha="center", va="center", fontsize=size, color=color)


def variance_terms(name: str, task: Task, caption: str) -> Figure | None:
    """Draw Terms 1 and 2 of each shape's variance by the middle probe of its run, and that of collected batches."""
    probes = {group.label: probes[len(probes) // 2] for group in task.groups if (probes := _group_probes(group))}
    if not probes:
        return None
    rows: list[Sequence[Any]] = [
        (
            "group",
            "update",
            "term_1",
            "term_2",
            "variance",
            "low",
            "high",
            "collected",
            "collected_low",
            "collected_high",
        )
    ]
    for label, probe in probes.items():
        variance, collected = probe.variance, probe.collected or NOT_MEASURED
        rows.append((label, probe.update, variance.individual.value, variance.covariance.value,
                     *astuple(variance.total), *astuple(collected)))  # fmt: skip
    with new_figure(name, (8.5, 3.9)) as canvas:
        axis, places = canvas.subplots(), np.arange(len(probes), dtype=np.float64)
        variances = [probe.variance for probe in probes.values()]
        individual = [variance.individual.value for variance in variances]
        covariance = [variance.covariance.value for variance in variances]
        axis.bar(places - 0.2, individual, 0.38, color=BLUE, label="Term 1: single steps")
        axis.bar(places + 0.2, covariance, 0.38, color=ORANGE, label="Term 2: correlation along time")
        _draw_totals(axis, places - 0.04, [variance.total for variance in variances], "predicted sum", "o", INK)
        collected_totals = [probe.collected or NOT_MEASURED for probe in probes.values()]
        _draw_totals(axis, places + 0.08, collected_totals, "collected batches", "s", "none")
        axis.axhline(0, color=INK, lw=0.6)
        axis.set_xticks(places, list(probes))
        axis.set_ylabel("tr Var of the batch's gradient")
        axis.legend(frameon=False, fontsize=8)
        return finish_figure(name, caption, canvas, rows)


def _draw_totals(axis: Any, places: Floats, estimates: Sequence[Estimate], label: str, marker: str, fill: str) -> None:
    total, low, high = np.array([astuple(estimate) for estimate in estimates]).T
    if np.isfinite(total).any():
        bars = np.maximum([total - low, high - total], 0)
        axis.errorbar(places, total, yerr=bars, fmt=marker, ms=4, color=INK, mfc=fill, capsize=3,
                      label=f"{label}, 95 % interval")  # fmt: skip


def reward_batches(name: str, probes: Mapping[str, RewardProbe], caption: str) -> Figure:
    """Draw the error of the reward network's gradient by subsequence length, and the rewards of one episode."""
    rows: list[Sequence[Any]] = [("group", "rrd_batch_size", "rrd_sample_size", "variance", "low", "high", "bias2")]
    with new_figure(name, (10, 3.6)) as canvas:
        errors, episode = canvas.subplots(1, 2)
        for (label, probe), color in zip(probes.items(), cycle(COLORS), strict=False):
            for point in probe.surface:
                variance = point.variance
                rows.append((label, probe.rrd_batch_size, point.rrd_sample_size, variance.value, variance.low,
                             variance.high, point.bias2.value))  # fmt: skip
            lengths = [point.rrd_sample_size for point in probe.surface]
            errors.plot(lengths, [point.mse for point in probe.surface], marker="o", ms=3, color=color, label=label)
        errors.set(xscale="log", yscale="log", xlabel="rrd_sample_size", ylabel="bias² + variance of the gradient")
        errors.legend(frameon=False, fontsize=6)
        label, probe = next(iter(probes.items()))
        episode.plot(probe.redistribution.true, color=INK, lw=1, label="true")
        episode.plot(probe.redistribution.predicted, color=ORANGE, lw=1, label="redistributed")
        episode.set(xlabel="step of the episode", ylabel="reward")
        episode.set_title(label, fontsize=8)
        episode.legend(frameon=False, fontsize=8)
        return finish_figure(name, caption, canvas, rows)


def step_cosines(name: str, maps: Sequence[CosineMap], caption: str) -> Figure:
    """Draw the cosines of single steps of batch 0 with those of batches 0, 1 … for each shape."""
    rows: list[Sequence[Any]] = [("num_envs", "num_steps", "within_env", "across_batches")]
    rows += [
        (cosine_map.num_envs, cosine_map.num_steps, cosine_map.within_env, cosine_map.across_batches)
        for cosine_map in maps
    ]
    with new_figure(name, (2.1 * maps[0].num_batches, 2.3 * len(maps))) as canvas:
        draw_cosine_maps(canvas, maps)
        return finish_figure(name, caption, canvas, rows)
