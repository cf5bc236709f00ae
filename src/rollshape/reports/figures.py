"""Figures of a report: drawn once by matplotlib, as SVG for the page (its colours follow the page's) and as PNG."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from rollshape.probes.quantities.cosine_maps import CosineMap, draw_cosine_maps
from rollshape.reports.document import Figure
from rollshape.studies.curves import Alignment, band, common_grid
from rollshape.studies.groups import Task
from rollshape.studies.ranking import Prediction
from rollshape.studies.statistics import Estimate, summarised

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

INK, LINE = "#1a2234", "#d5dbe7"  # become the page's own colours in an SVG
COLOURS = ("#3b78c4", "#e08a2e", "#3f9e63", "#cf5350", "#8d6fc0", "#a07850", "#d772b5", "#2fa3b5")
AXES: dict[Alignment, str] = {
    "timesteps": "timesteps",
    "seconds": "seconds of collecting and updating",
    "gradient_steps": "gradient steps",
}
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none", "text.parse_math": False, "font.size": 10, "axes.edgecolor": INK, "axes.labelcolor": INK,
    "text.color": INK, "xtick.color": INK, "ytick.color": INK, "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "grid.color": LINE, "grid.linewidth": 0.7, "axes.axisbelow": True,
}  # fmt: skip


def colours(count: int) -> list[str]:
    """One a group: distinct hues for a few, a scale for many."""
    if count <= len(COLOURS):
        return list(COLOURS[:count])
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colormaps["turbo"](0.08 + 0.84 * i / (count - 1))) for i in range(count)]


@contextmanager
def _drawing(name: str, size: tuple[float, float]) -> Iterator[Drawing]:
    import matplotlib
    from matplotlib.figure import Figure as Drawing

    with matplotlib.rc_context({**STYLE, "svg.hashsalt": name}):
        yield Drawing(figsize=size, layout="constrained")


def _finished(
    name: str, caption: str, drawing: Drawing, rows: Iterable[Sequence[Any]],
    series: Sequence[tuple[str, str]] = (), titles: Mapping[str, str] | None = None,
) -> Figure:  # fmt: skip
    vector, raster, table = io.StringIO(), io.BytesIO(), io.StringIO()
    none = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    drawing.savefig(vector, format="svg", transparent=True, metadata=none)
    drawing.set_layout_engine("none")  # as it was laid out: that takes as long as drawing it
    drawing.savefig(raster, format="png", dpi=130, facecolor="white")
    csv.writer(table, lineterminator="\n").writerows(rows)
    return Figure(
        name, caption, _inline(vector.getvalue(), name, titles or {}), raster.getvalue(), table.getvalue(), series
    )


def _inline(svg: str, name: str, titles: Mapping[str, str]) -> str:
    """An SVG to stand in a page: no XML head, the page's colours, series that can be found and have a title."""
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor").replace(LINE, "var(--line)")
    svg = re.sub(r"<svg ", '<svg role="img" ', svg, count=1)

    def series(found: re.Match[str]) -> str:
        key, number = found.group(1), found.group(2)
        title = f"<title>{escape(titles[key])}</title>" if key in titles else ""
        return f'<g id="{key}" class="series s{number}">{title}'

    return re.sub(rf'<g id="({re.escape(name)}-s(\d+)-[^"]*)">', series, svg)


def finals(name: str, task: Task, scores: Mapping[str, Any], caption: str) -> Figure:
    """Every run's final return as a point; centre and interval of each group beside them."""
    labels = list(scores)
    hues = dict(zip([group.label for group in task.groups], colours(len(task.groups)), strict=True))
    width = max(7.5, 0.62 * len(labels))
    titles: dict[str, str] = {}
    rows: list[Sequence[Any]] = [("group", "final_return", "centre", "low", "high")]
    with _drawing(name, (width, 4.2)) as drawing:
        axis = drawing.subplots()
        for i, label in enumerate(labels):
            values, number = scores[label], list(hues).index(label)
            found = summarised(values)
            spread = np.linspace(-0.18, 0.18, len(values)) if len(values) > 1 else np.zeros(1)
            key = f"{name}-s{number}-points"
            axis.plot(i + spread, values, "o", ms=4.5, alpha=0.5, color=hues[label], mew=0, gid=key)
            titles[key] = f"{label}: {len(values)} runs"
            axis.errorbar([i + 0.3], [found.value], yerr=_error([found]), fmt="D", ms=5, capsize=3, color=hues[label])
            rows += [(label, value, found.value, found.low, found.high) for value in values]
        axis.set_xticks(
            range(len(labels)), labels, rotation=0 if _short(labels) else 40, ha="center" if _short(labels) else "right"
        )
        axis.set_ylabel("final return")
        return _finished(name, caption, drawing, rows, titles=titles)


def _short(labels: Sequence[str]) -> bool:
    return sum(map(len, labels)) < 80


def _error(estimates: Sequence[Estimate]) -> Any:
    low = [each.value - (each.value if each.low is None else each.low) for each in estimates]
    high = [(each.value if each.high is None else each.high) - each.value for each in estimates]
    return np.maximum([low, high], 0)


def curves(name: str, task: Task, by: Alignment, threshold: float | None, caption: str) -> Figure | None:
    """Every run as a thin line; each group's centre and interval where all of its runs reach."""
    lines = {group.label: task.curves(group, by) for group in task.groups}
    if not any(lines.values()):
        return None
    hues = colours(len(task.groups))
    titles: dict[str, str] = {}
    rows: list[Sequence[Any]] = [("group", "seed", by, task.metric)]
    with _drawing(name, (8.5, 4.4)) as drawing:
        axis = drawing.subplots()
        for i, group in enumerate(task.groups):
            found = lines[group.label]
            seeds = [run.spec["seed"] for run in group.runs if run.values(task.metric)]
            for seed, line in zip(seeds, found, strict=True):
                key = f"{name}-s{i}-seed{seed}"
                axis.plot(line.x, line.y, color=hues[i], lw=0.8, alpha=0.35, gid=key)
                titles[key] = f"{group.label}, seed {seed}: {line.y[-1]:.4g} at the end"
                rows += [(group.label, seed, float(x), float(y)) for x, y in zip(line.x, line.y, strict=True)]
            if len(found) > 1:
                _band(axis, found, hues[i], f"{name}-s{i}")
                titles[f"{name}-s{i}-centre"] = group.label
        if threshold is not None:
            axis.axhline(threshold, color=INK, lw=0.8, ls=":")
        axis.set(
            xlabel=AXES[by], ylabel="return on fresh episodes" if task.metric == "eval_return" else "training return"
        )
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
        series = [(group.label, hue) for group, hue in zip(task.groups, hues, strict=True)]
        return _finished(name, caption, drawing, rows, series, titles)


def _band(axis: Any, lines: Sequence[Any], hue: str, key: str) -> None:
    if max(line.x[0] for line in lines) >= min(line.x[-1] for line in lines):
        return
    grid = common_grid(lines, 60)
    found = band(lines, grid)
    value, low, high = (np.array([np.nan if x is None else x for x in found[name]], float) for name in found)
    axis.plot(grid, value, color=hue, lw=2.2, gid=f"{key}-centre")
    axis.fill_between(grid, low, high, color=hue, alpha=0.13, lw=0, gid=f"{key}-band")


def predicted(name: str, found: Sequence[Prediction], task: Task, scores: Mapping[str, Any], caption: str) -> Figure:
    """Measured score against predicted error, group by group: a prediction that holds falls from left to right."""
    from matplotlib.ticker import LogLocator

    hues = dict(zip([group.label for group in task.groups], colours(len(task.groups)), strict=True))
    titles: dict[str, str] = {}
    rows: list[Sequence[Any]] = [("prediction", "group", "error", "error_low", "error_high", "score", "low", "high")]
    with _drawing(name, (8.5, 3.9)) as drawing:
        axes = drawing.subplots(1, len(found), squeeze=False, sharey=True)[0]
        for panel, (axis, prediction) in enumerate(zip(axes, found, strict=True)):
            for label, error in prediction.errors.items():
                if label not in scores:
                    continue
                score, (low, high), number = (
                    summarised(scores[label]),
                    prediction.spread[label],
                    list(hues).index(label),
                )
                key = f"{name}-s{number}-{panel}"
                axis.plot([low, high], [score.value] * 2, color=hues[label], lw=1, alpha=0.6)
                axis.errorbar([error], [score.value], yerr=_error([score]), fmt="none", ecolor=hues[label], capsize=3)
                axis.plot([error], [score.value], "o", color=hues[label], ms=7, gid=key)
                axis.annotate(label, (error, score.value), xytext=(6, 5), textcoords="offset points", fontsize=8)
                titles[key] = f"{label}: predicted {error:.3g}, measured {score.value:.4g}"
                rows.append((prediction.horizon, label, error, low, high, score.value, score.low, score.high))
            axis.set_xscale("log")
            axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axis.xaxis.set_minor_formatter(lambda *_: "")
            axis.set(xlabel="predicted error, relative to the median shape", title=prediction.horizon)
        axes[0].set_ylabel("final return")
        return _finished(name, caption, drawing, rows, titles=titles)


def surface(name: str, document: Mapping[str, Any], caption: str) -> Figure:
    """Variance, bias² and their sum over N and T, all sizes that one probe gives, as heat maps."""
    points = [*document["surface"], *(point for each in document.get("sizes", {}).values() for point in each)]
    steps, envs = (sorted({point[key] for point in points}) for key in ("num_steps", "num_envs"))
    rows = [("num_envs", "num_steps", "variance", "bias2", "mse")]
    rows += [tuple(point[key] for key in rows[0]) for point in points]
    with _drawing(name, (10, 4.4)) as drawing:
        axes = drawing.subplots(1, 3, sharey=True)
        for axis, key, title in zip(
            axes, ("variance", "bias2", "mse"), ("variance", "bias²", "bias² + variance"), strict=True
        ):
            grid = np.full((len(envs), len(steps)), np.nan)
            for point in points:
                if point[key] is not None and point[key] > 0:
                    grid[envs.index(point["num_envs"]), steps.index(point["num_steps"])] = np.log10(point[key])
            image = axis.imshow(grid, origin="lower", cmap="viridis_r", aspect="auto")
            drawing.colorbar(image, ax=axis, shrink=0.85).outline.set_visible(False)
            _map_axes(axis, f"log10 {title}", steps, envs)
        axes[0].set_ylabel("num_envs N")
        return _finished(name, caption, drawing, rows)


def _map_axes(axis: Any, title: str, steps: Sequence[int], envs: Sequence[int]) -> None:
    """T from left to right, N upwards."""
    axis.grid(False)
    axis.set_title(title, fontsize=10)
    axis.set_xticks(range(len(steps)), [str(t) for t in steps], rotation=70, fontsize=7)
    axis.set_yticks(range(len(envs)), [str(n) for n in envs], fontsize=7)
    axis.set_xlabel("num_steps T")


def shapes(name: str, task: Task, scores: Mapping[str, Any], caption: str) -> Figure | None:
    """What was measured at each shape, over N and T: its final return, and by its own probes the gradient's quality."""
    rows: list[Sequence[Any]] = [("num_envs", "num_steps", *_MEASURED)]
    for group in task.groups:
        plan = group.runs[0].plan
        probed = [each for run in group.runs for each in run.probes.values() if each.get("surface")]
        final = summarised(scores[group.label]).value if group.label in scores else None
        rows.append((plan["num_envs"], plan["num_steps"], final, *_means(probed)))
    steps, envs = (sorted({row[i] for row in rows[1:]}) for i in (1, 0))
    panels = [i for i in range(len(_MEASURED)) if any(row[i + 2] is not None for row in rows[1:])]
    if len(rows) == 2 or not panels:  # one shape is no map
        return None
    with _drawing(name, (2.6 * len(panels) + 1, 4.0)) as drawing:
        axes = drawing.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        for axis, panel in zip(axes, panels, strict=True):
            grid = np.full((len(envs), len(steps)), np.nan)
            for row in rows[1:]:
                if row[panel + 2] is not None:
                    grid[envs.index(row[0]), steps.index(row[1])] = row[panel + 2]
            better = "viridis" if _MEASURED[panel] in _HIGHER else "viridis_r"
            axis.imshow(_spread(grid), origin="lower", cmap=better, aspect="auto", vmin=0, vmax=1)
            for (y, x), value in np.ndenumerate(grid):
                if np.isfinite(value):
                    shown = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
                    axis.text(x, y, shown, ha="center", va="center", fontsize=7,
                              bbox={"facecolor": "white", "alpha": 0.7, "lw": 0, "pad": 1}, color="black")  # fmt: skip
            _map_axes(axis, _MEASURED[panel], steps, envs)
        axes[0].set_ylabel("num_envs N")
        return _finished(name, caption, drawing, rows)


_MEASURED = ("final return", "variance", "bias²", "bias² + variance", "effective sample size")
_HIGHER = {"final return", "effective sample size"}  # the more, the better


def _means(documents: Sequence[Mapping[str, Any]]) -> tuple[float | None, ...]:
    """Variance, bias², their sum and ESS of a shape's own batch: means over its probes."""
    found = [
        (each["variance"]["total"], each["bias"]["total"]["squared"], each["effective_sample_size"])
        for each in documents
    ]
    variance, bias, worth = (
        [value for value in column if value is not None] for column in (zip(*found, strict=True) if found else [[]] * 3)
    )
    mean = [float(np.mean(values)) if values else None for values in (variance, bias, worth)]
    both = None if mean[0] is None or mean[1] is None else mean[0] + mean[1]
    return mean[0], mean[1], both, mean[2]


def _spread(grid: Any) -> Any:
    """Ranks in [0, 1]: colours tell the order, the numbers how far apart."""
    values = np.unique(grid[np.isfinite(grid)])
    return np.where(np.isfinite(grid), np.searchsorted(values, grid) / max(1, len(values) - 1), np.nan)


def terms(name: str, task: Task, caption: str) -> Figure | None:
    """Terms 1 and 2 of the variance of each shape's batch, by the probe in the middle of its own run, and that of
    batches which were collected there."""
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
    for group in task.groups:
        probed = [each for run in group.runs for each in run.probes.values() if each.get("surface")]
        if probed:
            middle = probed[len(probed) // 2]
            found = middle["variance"]
            brute = middle.get("collected") or {"variance": np.nan, "ci": {"variance": (np.nan, np.nan)}}
            rows.append((group.label, middle["update"], found["individual"], found["covariance"], found["total"],
                         *found["ci"]["total"], brute["variance"], *brute["ci"]["variance"]))  # fmt: skip
    if len(rows) == 1:
        return None
    labels, _, first, second, *measured = (list(column) for column in zip(*rows[1:], strict=True))
    with _drawing(name, (8.5, 3.9)) as drawing:
        axis, places = drawing.subplots(), np.arange(len(labels))
        axis.bar(places - 0.2, first, 0.38, color=COLOURS[0], label="Term 1: single steps")
        axis.bar(places + 0.2, second, 0.38, color=COLOURS[1], label="Term 2: correlation along time")
        for at, marker, label in ((0, "o", "their sum, predicted"), (3, "s", "collected batches")):
            total, low, high = (np.array(column, float) for column in measured[at : at + 3])
            if np.isfinite(total).any():
                axis.errorbar(
                    places + 0.04 * (at - 1), total, yerr=np.maximum([total - low, high - total], 0), fmt=marker, ms=4,
                    color=INK, mfc=INK if at == 0 else "none", capsize=3, label=f"{label}, 95 % interval",
                )  # fmt: skip
        axis.axhline(0, color=INK, lw=0.6)
        axis.set_xticks(places, labels)
        axis.set_ylabel("tr Var of the batch's gradient")
        axis.legend(frameon=False, fontsize=8)
        return _finished(name, caption, drawing, rows)


def rewards(name: str, probed: Mapping[str, Mapping[str, Any]], caption: str) -> Figure:
    """Of each group's probe: error of the reward network's gradient by subsequence length, and an episode's rewards."""
    rows: list[Sequence[Any]] = [("group", "rrd_batch_size", "rrd_sample_size", "variance", "low", "high", "bias2")]
    with _drawing(name, (10, 3.6)) as drawing:
        spread, along = drawing.subplots(1, 2)
        for (label, document), colour in zip(probed.items(), cycle(COLOURS), strict=False):
            points = document["reward_surface"]
            rows += [(label, document["rrd_batch_size"], p["rrd_sample_size"], p["variance"], *p["ci"]["variance"],
                      p["bias2"]) for p in points]  # fmt: skip
            lengths = [p["rrd_sample_size"] for p in points]
            spread.plot(lengths, [p["mse"] for p in points], marker="o", ms=3, color=colour, label=label)
        spread.set(xscale="log", yscale="log", xlabel="rrd_sample_size", ylabel="bias² + variance of the gradient")
        spread.legend(frameon=False, fontsize=6)
        label, document = next(iter(probed.items()))
        found = document["redistribution"]
        along.plot(found["true"], color=INK, lw=1, label="true")
        along.plot(found["predicted"], color=COLOURS[1], lw=1, label="redistributed")
        along.set(xlabel="step of the episode", ylabel="reward")
        along.set_title(label, fontsize=8)
        along.legend(frameon=False, fontsize=8)
        return _finished(name, caption, drawing, rows)


def cosines(name: str, maps: Sequence[CosineMap], caption: str) -> Figure:
    """Per-step cosines of batch 0 with batches 0, 1 … of each shape."""
    rows: list[Sequence[Any]] = [("num_envs", "num_steps", "within_env", "across_batches")]
    rows += [(m.num_envs, m.num_steps, m.within_env, m.across_batches) for m in maps]
    with _drawing(name, (2.1 * 5, 2.3 * len(maps))) as drawing:
        draw_cosine_maps(drawing, maps)
        return _finished(name, caption, drawing, rows)
