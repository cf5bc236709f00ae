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
    """Draw one cell per shape: color and first line are the score relative to the best at the same time.

    The best shape has a thick outline, tied ones a thin one; the others say when they were dropped.
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
            width = {"best": 3.2, "tied": 1.4}.get(item.status)
            if width is not None:
                axis.add_patch(Rectangle((x - 0.47, y - 0.46), 0.94, 0.92, fill=False, edgecolor=INK, lw=width))
            ink = "#ffffff" if share is not None and share < DARK else "#111111"
            for line, offset in zip(_cell_lines(item), (0.14, -0.16), strict=False):
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
    """Return a score relative to those that were compared with it: 0 for the lowest, 1 for the highest."""
    if item.score is None:
        return None
    rung = next(rung for rung in advice.rungs if rung.share == item.share and rung.num_seeds == item.num_seeds)
    first = advice.rungs[0]  # a finalist is compared with the whole field
    scores = np.array(list(rung.scores.values()))
    if rung is not first:
        return 1.0 if item.status == "best" else 0.9
    lowest, highest = float(scores.min()), float(scores.max())
    return 0.85 * (item.score - lowest) / (highest - lowest) if highest > lowest else 0.85


def _cell_lines(item: Ranked) -> tuple[str, ...]:
    if item.score is None:
        return ("failed",)
    if item.status == "best":
        return f"{item.score:.4g}", "best"
    return f"{item.score:.4g}", f"{'tied, ' if item.status == 'tied' else ''}{item.share:.0%} of run"
