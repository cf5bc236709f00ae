"""Parts that all figures of probes share. A figure states what its intervals are and the command that reproduces it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from rollshape.gradients.intervals import Estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, GRAY = "#3b6fb6", "#e08a2e", "#4c9a64", "#8a8a8a"
INTERVAL = "95 % intervals over environments"


class Header(Protocol):
    """What every probe says about itself."""

    @property
    def run_dir(self) -> str: ...
    @property
    def update(self) -> int: ...
    @property
    def command(self) -> str: ...


def new_figure(probe: Header, title: str, uncertainty: str, size: tuple[float, float] = (8.0, 5.0)) -> Figure:
    """Return an empty figure with its title; below it the kind of uncertainty and the command."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=120, layout="constrained")
    figure.suptitle(f"{title}\n{Path(probe.run_dir).name}, update {probe.update:,}", fontsize=11)
    command = "\n".join(textwrap.wrap(probe.command, int(size[0] * 14)))
    figure.supxlabel(f"{uncertainty}\n{command}", fontsize=7, color=GRAY)
    return figure


def error_bars(estimates: Sequence[Estimate]) -> dict[str, Any]:
    """Return heights and error bars for matplotlib; an interval need not be symmetric."""
    values, low, high = (np.array([getattr(e, name) for e in estimates]) for name in ("value", "low", "high"))
    return {"height": values, "yerr": np.maximum([values - low, high - values], 0), "capsize": 2, "ecolor": GRAY}
