"""Figures of a probe. Each says what its bars or bands are, and the command that made it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rollshape.gradients.intervals import Estimate
from rollshape.gradients.surface import Point
from rollshape.probes.files import write_figure
from rollshape.probes.picture import draw_cosines
from rollshape.probes.result import Probe
from rollshape.probes.words import shape

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, GREY = "#3b6fb6", "#e08a2e", "#4c9a64", "#8a8a8a"
INTERVAL = "95 % intervals over environments"


def draw(probe: Probe, folder: Path) -> list[Path]:
    """All figures as PNG files."""
    figures: dict[str, Callable[[Probe], Figure]] = {
        "surface": _surface, "sizes": _sizes, "variance": _variance, "autocorrelation": _autocorrelation,
    }  # fmt: skip
    further: dict[str, tuple[Any, Callable[[Probe], Figure]]] = {
        "minibatch": (probe.minibatch, _minibatch),
        "cosines": (probe.pictures, _cosines),
        "noises": (probe.noises and probe.noises.noises, _noises),
        "reset_phase": (probe.reset_phase and probe.reset_phase.between, _reset_phase),
    }
    figures |= {name: make for name, (found, make) in further.items() if found}
    written = []
    for name, make in figures.items():
        write_figure(make(probe), folder / f"{name}.png")
        written.append(folder / f"{name}.png")
    return written


def _figure(probe: Probe, title: str, uncertainty: str, size: tuple[float, float] = (8.0, 5.0)) -> Figure:
    """An empty figure with its title, and below what its uncertainty is and the command."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=120, layout="constrained")
    figure.suptitle(f"{title}\n{Path(probe.run_dir).name}, update {probe.update:,}", fontsize=11)
    command = "\n".join(textwrap.wrap(probe.command, int(size[0] * 14)))
    figure.supxlabel(f"{uncertainty}\n{command}", fontsize=7, color=GREY)
    return figure


def _bars(estimates: list[Estimate]) -> dict[str, Any]:
    """Heights and error bars; an interval need not hold its value in the middle."""
    values = np.array([each.value for each in estimates])
    low, high = (np.array([getattr(each, end) for each in estimates]) for end in ("low", "high"))
    return {"height": values, "yerr": np.maximum([values - low, high - values], 0), "capsize": 2, "ecolor": GREY}


def _surface(probe: Probe) -> Figure:
    """bias² and variance/h of every split, stacked, for h = 1 and for the horizon; best and own are marked."""
    horizon = probe.horizon.value
    panels = [("one update", 1.0, probe.best)]
    if horizon is not None and horizon != 1:
        panels.append((f"over h = {horizon:.3g} updates", horizon, probe.best_over_horizon))
    figure = _figure(
        probe, f"Every split of {probe.geometry.rollout_size:,} steps: bias² + variance/h", f"{INTERVAL}, of the sum"
    )
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (title, updates, best) in zip(axes, panels, strict=True):
        places = np.arange(len(probe.surface))
        bias2 = np.array([max(point.bias2.value, 0.0) for point in probe.surface])
        noise = np.array([point.variance.value / updates for point in probe.surface])
        error = _bars([point.mse if updates == 1 else point.score for point in probe.surface])
        axis.bar(places, bias2, color=ORANGE, label="bias²")
        axis.bar(
            places, noise, bottom=bias2, color=BLUE, label="variance/h", yerr=error["yerr"], ecolor=GREY, capsize=2
        )
        marks = {id(probe.own): " (run's)", id(best): " (best, run's)" if best is probe.own else " (best)"}
        labels = [shape(point) + marks.get(id(point), "") for point in probe.surface]
        axis.set_xticks(places, labels, rotation=60, ha="right", fontsize=8)
        for point, label in zip(probe.surface, axis.get_xticklabels(), strict=True):
            label.set_fontweight("bold" if id(point) in marks else "normal")
        axis.set_title(title, fontsize=9)
    axes[0].legend(fontsize=8, frameon=False, loc="upper left")
    return figure


def _sizes(probe: Probe) -> Figure:
    """The score as a heat map over N and T, a diagonal for each rollout size."""
    points = [*probe.surface, *(point for each in probe.sizes.values() for point in each)]
    steps, envs = (sorted({getattr(p, name) for p in points}) for name in ("num_steps", "num_envs"))
    grid = np.full((len(envs), len(steps)), np.nan)
    for point in points:
        grid[envs.index(point.num_envs), steps.index(point.num_steps)] = np.log10(point.score.value)
    width = max((np.log10(p.score.high / p.score.low) / 2 for p in points if p.score.low > 0), default=0.0)
    horizon = probe.horizon.value or 1.0
    figure = _figure(
        probe, f"log10(bias² + variance/{horizon:.3g}) by shape", f"95 % intervals of at most ±{width:.2g}", (8.0, 6.5)
    )
    axis = figure.subplots()
    image = axis.imshow(grid, origin="lower", cmap="viridis_r", aspect="auto")
    figure.colorbar(image, ax=axis)
    axis.set_xticks(range(len(steps)), [str(t) for t in steps], rotation=60)
    axis.set_yticks(range(len(envs)), [str(n) for n in envs])
    axis.set(xlabel="num_steps T", ylabel="num_envs N")

    def mark(point: Point | None, sign: str, label: str) -> None:
        if point is not None:
            place = steps.index(point.num_steps), envs.index(point.num_envs)
            axis.scatter(*place, marker=sign, s=90, facecolors="none", edgecolors="red", label=label)

    mark(probe.best_over_horizon, "o", f"best of {probe.geometry.rollout_size:,}")
    mark(probe.own, "s", "the run's")
    axis.legend(fontsize=8, loc="upper right")
    return figure


def _variance(probe: Probe) -> Figure:
    own, found = probe.geometry, probe.variance
    figure = _figure(probe, f"Noise of a batch of {own.num_envs:,}×{own.num_steps:,}", INTERVAL, (6.0, 4.5))
    axis = figure.subplots()
    bars = {
        "total": found.total, "single steps\n(Term 1)": found.individual,
        "correlation along time\n(Term 2)": found.covariance,
    }  # fmt: skip
    if probe.collected is not None:
        bars[f"of {probe.geometry.num_batches} batches\n(brute force)"] = probe.collected
    axis.bar(list(bars), **_bars(list(bars.values())), color=[GREY, BLUE, ORANGE, GREEN][: len(bars)])
    axis.axhline(0, color="black", linewidth=0.6)
    axis.set_ylabel("tr Var")
    return figure


def _noises(probe: Probe) -> Figure:
    assert probe.noises is not None
    found = probe.noises.noises
    assert found is not None
    figure = _figure(probe, "A single step's squared error", "95 % intervals over branched states", (6.0, 4.5))
    axis = figure.subplots()
    names = ("all three", "sampling", "trajectory", "credit\nassignment")
    axis.bar(
        names,
        **_bars([found.total, found.sampling, found.trajectory, found.credit]),
        color=[GREY, BLUE, ORANGE, GREEN],
    )
    axis.axhline(0, color="black", linewidth=0.6)
    axis.set_ylabel("E‖g − G*‖²")
    return figure


def _reset_phase(probe: Probe) -> Figure:
    """What each phase is off, beside a staggered batch's whole error; and which phases the batches hold."""
    found = probe.reset_phase
    assert found is not None
    figure = _figure(probe, "Environments that reset together, and staggered ones", INTERVAL, (9.0, 4.5))
    off, share = figure.subplots(1, 2)
    first = [phase.first_step for phase in found.phases]
    off.bar(
        np.arange(len(first)), **_bars([phase.squared for phase in found.phases]), color=ORANGE, label="a phase's bias²"
    )
    off.set_xticks(np.arange(len(first)), [f"{step:,}" for step in first], rotation=90, fontsize=7)
    if (spread := found.staggered_variance) is not None:
        off.axhline(spread.value, color=BLUE, label="a staggered batch's variance")
        off.axhspan(spread.low, spread.high, color=BLUE, alpha=0.2)
    off.axhline(0, color="black", linewidth=0.6)
    off.set(xlabel="steps since the common reset", ylabel="squared error")
    off.legend(fontsize=8, frameon=False)
    for name, histogram, colour in (
        ("the run's next rollout", found.run_histogram, ORANGE),
        ("staggered", found.staggered_histogram, BLUE),
    ):
        if histogram is not None:
            edges = np.linspace(0, found.horizon, len(histogram) + 1)
            share.stairs(histogram, edges, label=name, color=colour)
    share.set(xlabel="step of the episode", ylabel="share of the samples", ylim=(0, None))
    share.legend(fontsize=8, frameon=False)
    return figure


def _autocorrelation(probe: Probe) -> Figure:
    figure = _figure(probe, "Correlation of step gradients, k steps apart", INTERVAL, (7.0, 4.5))
    axis, lags = figure.subplots(), probe.variance.autocorrelation
    places = np.arange(len(lags))
    axis.fill_between(places, [each.low for each in lags], [each.high for each in lags], color=BLUE, alpha=0.25)
    axis.plot(places, [each.value for each in lags], color=BLUE, marker="." if len(lags) <= 64 else "")
    axis.axhline(0, color="black", linewidth=0.6)
    axis.set(xlabel="lag k", ylabel="ρ_k")
    return figure


def _minibatch(probe: Probe) -> Figure:
    figure = _figure(probe, "Shuffled minibatches against their batch", "95 % intervals over batches", (9.0, 4.5))
    sizes = [point.size for point in probe.minibatch]
    for axis, name in zip(figure.subplots(1, 2), ("variance", "cosine"), strict=True):
        measured = _bars([getattr(point, name) for point in probe.minibatch])
        axis.errorbar(
            sizes, measured["height"], yerr=measured["yerr"], fmt="o", color=BLUE, label="measured", capsize=2
        )
        predicted = [getattr(point, f"predicted_{name}") for point in probe.minibatch]
        axis.plot(sizes, predicted, color=ORANGE, label="predicted")
        axis.axvline(probe.geometry.minibatch_size, color=GREY, linestyle=":", label="the run's")
        axis.set(
            xscale="log", xlabel="minibatch_size M", ylabel="tr Var(G_M)" if name == "variance" else "cosine to G_B"
        )
    figure.axes[0].set_yscale("log")
    figure.axes[0].legend(fontsize=8, frameon=False, loc="upper right")
    return figure


def _cosines(probe: Probe) -> Figure:
    """Per-step cosines of batch 0 with batches 0…4 at two shapes; lines part the environments."""
    rows, columns = len(probe.pictures), len(probe.pictures[0].cosine)
    figure = _figure(
        probe, "Cosines of step gradients, batch 0 against batches 0…4",
        "single steps of one draw: exact cosines, no interval; lines part environments",
        (2.4 * columns, 2.7 * rows + 1),
    )  # fmt: skip
    draw_cosines(figure, probe.pictures)
    return figure
