"""The palette, style and small helpers that all figures of probes and reports share."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, GRID = "#1a2234", "#d5dbe7"  # text and grid lines; a report replaces both by the page's colors
BLUE, ORANGE, GREEN, RED, VIOLET, BROWN, PINK, CYAN = COLORS = (
    "#3b78c4", "#e08a2e", "#3f9e63", "#cf5350", "#8d6fc0", "#a07850", "#d772b5", "#2fa3b5",
)  # fmt: skip
GRAY = "#8a8a8a"
INTERVAL = "95 % intervals over environments"
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none", "text.parse_math": False, "font.size": 10, "axes.edgecolor": INK, "axes.labelcolor": INK,
    "text.color": INK, "xtick.color": INK, "ytick.color": INK, "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "grid.color": GRID, "grid.linewidth": 0.7, "axes.axisbelow": True,
}  # fmt: skip


class WithInterval(Protocol):
    """Anything with a value and an interval; an open end is None."""

    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


class Header(Protocol):
    """What every probe says about itself."""

    @property
    def run_dir(self) -> str: ...
    @property
    def update(self) -> int: ...
    @property
    def command(self) -> str: ...


def color_cycle(count: int) -> list[str]:
    """Return one color per series: distinct hues for up to eight, a color scale for more."""
    if count <= len(COLORS):
        return list(COLORS[:count])
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colormaps["turbo"](0.08 + 0.84 * i / (count - 1))) for i in range(count)]


@cache
def figure_class() -> type[Figure]:
    """Return the class of all figures: notebooks display them, also if pyplot is not imported."""
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        def _repr_png_(self) -> bytes:
            return png_bytes(self)

    return NotebookFigure


@contextmanager
def new_figure(name: str, size: tuple[float, float]) -> Iterator[Figure]:
    """Open an empty figure in the shared style; its SVG ids are derived from the name, so that they repeat."""
    import matplotlib

    with matplotlib.rc_context({**STYLE, "svg.hashsalt": name}):
        yield figure_class()(figsize=size, layout="constrained")


def error_bars(estimates: Sequence[WithInterval]) -> NDArray[np.float64]:
    """Return matplotlib's `yerr` [2, n] of estimates; an interval need not be symmetric, an open end has no bar."""
    low = [estimate.value - (estimate.value if estimate.low is None else estimate.low) for estimate in estimates]
    high = [(estimate.value if estimate.high is None else estimate.high) - estimate.value for estimate in estimates]
    return np.maximum([low, high], 0)


def bar_heights(estimates: Sequence[WithInterval]) -> dict[str, Any]:
    """Return the heights and error bars of a bar chart, as arguments of `Axes.bar`."""
    heights = np.array([estimate.value for estimate in estimates])
    return {"height": heights, "yerr": error_bars(estimates), "capsize": 2, "ecolor": GRAY}


def probe_figure(probe: Header, title: str, uncertainty: str, size: tuple[float, float] = (8.0, 5.0)) -> Figure:
    """Return an empty figure of a probe with its title; below it the kind of uncertainty and the command."""
    figure = figure_class()(figsize=size, dpi=120, layout="constrained")
    figure.suptitle(f"{title}\n{Path(probe.run_dir).name}, update {probe.update:,}", fontsize=11)
    command = "\n".join(textwrap.wrap(probe.command, int(size[0] * 14)))
    figure.supxlabel(f"{uncertainty}\n{command}", fontsize=7, color=GRAY)
    return figure


def png_bytes(figure: Figure, dpi: int = 120) -> bytes:
    """Return a figure as a PNG file. `Figure.savefig` would draw it twice, the first time for its layout alone."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    file, own_dpi = io.BytesIO(), figure.dpi
    figure.set_facecolor("white")
    try:
        figure.dpi = dpi
        FigureCanvasAgg(figure).print_png(file)  # type: ignore[no-untyped-call]
    finally:
        figure.dpi = own_dpi
    return file.getvalue()
