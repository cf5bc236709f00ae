"""The figure of a race: the grid of N × T, colored by score, with what was dropped when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rollshape.probes.plotting import INK, new_figure
from rollshape.reports.document import Figure
from rollshape.reports.figures.base import finish_figure
from rollshape.studies.racing.advice import Advice, Ranked

COLORS = "viridis"
DARK = 0.6  # of the range, below which text on a cell is white


def race_grid(name: str, advice: Advice, caption: str) -> Figure:
    """Draw one cell per shape with its score and what became of it.

    The brighter half of the colors is for shapes that were trained to the end, the darker one for those that were
    compared only early. The best shape has a thick outline, shapes that are tied with it a thin one.
    """
    cells: dict[tuple[int, int], Ranked] = {}
    for item in advice.ranking:  # of several candidates with one shape, the first is the best
        cells.setdefault((item.candidate.plan.num_envs, item.candidate.plan.num_steps), item)
    rows = sorted({num_steps for _, num_steps in cells})
    columns = sorted({num_envs for num_envs, _ in cells})
    height = {key: _height(advice, item) for key, item in cells.items()}
    data: list[Sequence[Any]] = [("num_envs", "num_steps", "score", "relative", "status", "share", "seeds")]
    with new_figure(name, (max(6.0, 1.25 * len(columns) + 1.8), max(3.2, 0.72 * len(rows) + 1.2))) as canvas:
        axis = canvas.subplots()
        from matplotlib import colormaps
        from matplotlib.patches import Rectangle

        colors = colormaps[COLORS]
        for (num_envs, num_steps), item in cells.items():
            x, y, share = columns.index(num_envs), rows.index(num_steps), height[num_envs, num_steps]
            face = "#d9d9d9" if share is None else colors(share)
            axis.add_patch(Rectangle((x - 0.47, y - 0.46), 0.94, 0.92, facecolor=face, lw=0))
            lines = _cell_lines(advice, item)
            width = {"best": 3.2, "tied": 1.4}.get(lines[-1])
            if width is not None:
                axis.add_patch(Rectangle((x - 0.47, y - 0.46), 0.94, 0.92, fill=False, edgecolor=INK, lw=width))
            ink = "#ffffff" if share is not None and share < DARK else "#111111"
            for line, offset in zip(lines, (0.14, -0.16), strict=False):
                axis.text(x, y + offset, line, ha="center", va="center", color=ink, fontsize=8.5)
            data.append((num_envs, num_steps, item.score, share, item.status, item.share, item.num_seeds))
        axis.set(
            xlim=(-0.6, len(columns) - 0.4), ylim=(-0.6, len(rows) - 0.4), xlabel="num_envs", ylabel="num_steps"
        )  # fmt: skip
        axis.set_xticks(range(len(columns)), [f"{count:,}" for count in columns])
        axis.set_yticks(range(len(rows)), [f"{count:,}" for count in rows])
        axis.grid(visible=False)
        return finish_figure(name, caption, canvas, data)


def _height(advice: Advice, item: Ranked) -> float | None:
    """Return where a score lies between the lowest and the highest: 0 to 0.5 at the first rung, 0.6 to 1 later."""
    if item.score is None:
        return None
    early = list(advice.rungs[0].scores.values())
    if item.share == advice.rungs[0].share:
        return 0.5 * _position(item.score, min(early), max(early))
    return 0.6 + 0.4 * _position(item.score, min(early), advice.best.score or 0.0)


def _position(value: float, low: float, high: float) -> float:
    return float(np.clip((value - low) / (high - low), 0.0, 1.0)) if high > low else 1.0


def _cell_lines(advice: Advice, item: Ranked) -> tuple[str, ...]:
    if item.score is None:
        return ("failed",)
    label = advice.label(item)
    return f"{item.score:.4g}", label if label in ("best", "tied") else f"{label} at {item.share:.0%}"
