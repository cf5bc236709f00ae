"""Turn a matplotlib figure into a report's figure: an SVG in the page's colors, a PNG, and its data as CSV."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from rollshape.probes.plotting import GRID, INK, color_cycle, png_bytes
from rollshape.reports.document import Figure
from rollshape.studies.groups import Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

PNG_DPI = 130
Corner = Literal["upper left", "upper right"]
_NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))  # the same figure is the same file


def finish_figure(
    name: str,
    caption: str,
    canvas: Canvas,
    rows: Iterable[Sequence[Any]],
    series: Sequence[tuple[str, str]] = (),
    titles: Mapping[str, str] | None = None,
    legend: Corner = "upper left",
) -> Figure:
    """Render a canvas. `rows` are its data, header first; `titles` are tooltips by the gid of an artist.

    `legend` is where the PNG has the names of the series.
    """
    svg, table = io.StringIO(), io.StringIO()
    canvas.savefig(svg, format="svg", transparent=True, metadata=_NO_METADATA)
    canvas.set_layout_engine("none")  # reuse the layout: computing it takes as long as drawing
    if series:
        _add_legend(canvas, series, legend)
    png = png_bytes(canvas, PNG_DPI)
    csv.writer(table, lineterminator="\n").writerows(rows)
    return Figure(name, caption, _inline_svg(svg.getvalue(), name, titles or {}), png, table.getvalue(), series)


def _add_legend(canvas: Canvas, series: Sequence[tuple[str, str]], place: Corner) -> None:
    """Add what the page has as checkboxes beside its SVG, and a PNG would lack."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=color, lw=2.5, label=label) for label, color in series]
    columns = -(-len(series) // 10)
    canvas.axes[0].legend(handles=handles, loc=place, fontsize=8, ncols=columns, framealpha=0.85)


def _inline_svg(svg: str, name: str, titles: Mapping[str, str]) -> str:
    """Prepare an SVG for a page: no XML header, the page's colors, series with a class and a title."""
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor").replace(GRID, "var(--line)")
    svg = re.sub(r"<svg ", '<svg role="img" ', svg, count=1)

    def mark_series(match: re.Match[str]) -> str:
        key, number = match.group(1), match.group(2)
        title = f"<title>{escape(titles[key])}</title>" if key in titles else ""
        return f'<g id="{key}" class="series s{number}">{title}'

    return re.sub(rf'<g id="({re.escape(name)}-s(\d+)-[^"]*)">', mark_series, svg)


def limit_to_values(axis: Any, values: Sequence[float]) -> None:
    """Limit the y-axis to the values and half of their range around them: a wide interval must not flatten them."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite or min(finite) == max(finite):
        return
    low, high = min(finite), max(finite)
    bottom, top = axis.get_ylim()
    room = 0.5 * (high - low)
    axis.set_ylim(max(bottom, low - room), min(top, high + room))


def group_colors(task: Task) -> dict[str, str]:
    """Return group → color, the same in every figure of a task."""
    return dict(zip([group.label for group in task.groups], color_cycle(len(task.groups)), strict=True))
