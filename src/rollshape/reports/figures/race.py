"""The figure of a race: the grid of N × T, colored by estimated score, with what is tied and what was trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rollshape.probes.plotting import INK, new_figure
from rollshape.reports.document import Figure
from rollshape.reports.figures.base import finish_figure
from rollshape.studies.racing.advice import Advice, Ranked

COLORS = "viridis"
OUTLINES = {"best": (3.2, "solid"), "tied": (1.4, "solid"), "not ruled out": (1.2, (0, (3, 2)))}  # width, dashes
DARK = 0.6  # of the range, below which text on a cell is white


def race_grid(name: str, advice: Advice, caption: str) -> Figure:
    """Draw one cell per shape with its score and what became of it.

    The best shape has a thick outline, shapes that are tied with it a thin one: dashed if they were not trained.
    """
    cells: dict[tuple[int, int], Ranked] = {}
    for item in advice.ranking:  # of several candidates with one shape, the first is the best
        cells.setdefault((item.candidate.plan.num_envs, item.candidate.plan.num_steps), item)
    rows = sorted({num_steps for _, num_steps in cells})
    columns = sorted({num_envs for num_envs, _ in cells})
    known = [item.score for item in cells.values() if item.score is not None]
    data: list[Sequence[Any]] = [("num_envs", "num_steps", "score", "relative", "status", "measured", "seeds")]
    with new_figure(name, (max(6.0, 1.25 * len(columns) + 1.8), max(3.2, 0.72 * len(rows) + 1.2))) as canvas:
        axis = canvas.subplots()
        from matplotlib import colormaps
        from matplotlib.patches import Rectangle

        colors = colormaps[COLORS]
        for (num_envs, num_steps), item in cells.items():
            x, y = columns.index(num_envs), rows.index(num_steps)
            share = None if item.score is None else _position(item.score, min(known), max(known))
            face = "#d9d9d9" if share is None else colors(share)
            axis.add_patch(Rectangle((x - 0.47, y - 0.46), 0.94, 0.92, facecolor=face, lw=0))
            label = item.label
            if label in OUTLINES:
                width, dashes = OUTLINES[label]
                axis.add_patch(
                    Rectangle((x - 0.47, y - 0.46), 0.94, 0.92, fill=False, edgecolor=INK, lw=width, ls=dashes)
                )
            lines = _cell_lines(item, label)
            ink = "#ffffff" if share is not None and share < DARK else "#111111"
            for line, offset in zip(lines, (0.14, -0.16), strict=False):
                axis.text(x, y + offset, line, ha="center", va="center", color=ink, fontsize=8.5)
            data.append((num_envs, num_steps, item.score, share, item.status, item.measured, item.num_seeds))
        axis.set(
            xlim=(-0.6, len(columns) - 0.4), ylim=(-0.6, len(rows) - 0.4), xlabel="num_envs", ylabel="num_steps"
        )  # fmt: skip
        axis.set_xticks(range(len(columns)), [f"{count:,}" for count in columns])
        axis.set_yticks(range(len(rows)), [f"{count:,}" for count in rows])
        axis.grid(visible=False)
        return finish_figure(name, caption, canvas, data)


def _position(value: float, low: float, high: float) -> float:
    return float(np.clip((value - low) / (high - low), 0.0, 1.0)) if high > low else 1.0


def _cell_lines(item: Ranked, label: str) -> tuple[str, ...]:
    if item.score is None:
        return ("failed" if item.status == "dropped" else "not trained",)
    if item.ruled_out_after is not None:
        return f"{item.score:.4g}", f"out after {item.ruled_out_after} runs"
    if not item.num_seeds:
        return f"{item.score:.4g}", "not trained"
    runs = "1 run" if item.num_seeds == 1 else f"{item.num_seeds} runs"
    return f"{item.score:.4g}", runs if label == "dropped" else f"{label}, {runs}"
