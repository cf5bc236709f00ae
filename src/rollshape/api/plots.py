"""Figures of runs and studies for notebooks, in the style of the reports; each states its uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rollshape.errors import RequestError, did_you_mean
from rollshape.formatting import short_repr
from rollshape.probes.plotting import BLUE, GRAY, GREEN, ORANGE, new_figure
from rollshape.reports.figures.base import group_colors
from rollshape.reports.figures.scores import draw_final_returns, draw_learning_curves
from rollshape.studies.curves import Curve, learning_curve
from rollshape.studies.groups import Task
from rollshape.studies.records import RunRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RETURN = "return"
PANELS = (RETURN, "entropy", "approx_kl", "explained_variance")  # of a run, by default: those that it has
NOT_A_METRIC = ("update", "timesteps")
MOST_LABELS = 12  # groups in a legend


def plot_run(run: RunRecord, metrics: Sequence[str], interval: tuple[float, int] | None) -> Figure:
    """Draw metrics of one run against timesteps; the return includes the final one with its 95 % interval.

    `interval` is the half-width of that interval and its number of episodes, if the run has a final score.
    """
    names = list(metrics) or [name for name in PANELS if name == RETURN or run.values(name)]
    _check_metrics(run, names)
    columns = min(2, len(names))
    lines = -(-len(names) // columns)
    with new_figure("run", (4.6 * columns, 2.7 * lines + 0.9)) as figure:
        figure.suptitle(f"{run.spec.env}, {run.spec.algo}, {run.shape}, seed {_seed(run)}: {run.status}", fontsize=11)
        axes = figure.subplots(lines, columns, squeeze=False).ravel()
        for axis in axes[len(names) :]:
            axis.set_visible(False)
        for axis, name in zip(axes, names, strict=False):
            if name == RETURN:
                _draw_return(axis, run, interval)
            else:
                _draw_line(axis, _curve(run, name), BLUE, None)
            axis.set_title(name, fontsize=10)
            axis.set_xlabel("timesteps")
            axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
            axis.xaxis.set_major_locator(_few_ticks())
        note = "One run: nothing here says how another seed would do."
        if interval is not None and RETURN in names:
            note += f" Bar: 95 % interval of the final return over its {interval[1]} episodes."
        figure.supxlabel(note, fontsize=8, color=GRAY)
        return figure


def _check_metrics(run: RunRecord, names: Sequence[str]) -> None:
    known = [RETURN, *dict.fromkeys(name for row in run.rows for name in row.values if name not in NOT_A_METRIC)]
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known)
            raise RequestError(
                "argument", f"This run has no metric {short_repr(name)}.", f"{hint}Metrics: {', '.join(known)}."
            )
        if name != RETURN and not run.values(name):
            raise RequestError("argument", f"{name} has no value in any row of {run.path}.", "Plot another metric.")


def _draw_return(axis: Any, run: RunRecord, interval: tuple[float, int] | None) -> None:
    """Draw the training return, scores on fresh episodes, and the final return with its interval."""
    _draw_line(axis, _curve(run, "episodic_return"), BLUE, "training")
    evaluated = _curve(run, "eval_return")
    if len(evaluated.x):
        axis.plot(evaluated.x, evaluated.y, "o-", ms=3.5, lw=1, color=ORANGE, label="fresh episodes")
    if run.final_return is not None and run.rows:
        bar = None if interval is None else interval[0]
        last = run.rows[-1].timesteps
        axis.errorbar([last], [run.final_return], yerr=bar, fmt="D", ms=5, capsize=4, color=GREEN, label="final")
    if axis.get_legend_handles_labels()[0]:
        axis.legend(frameon=False, fontsize=8)


def _curve(run: RunRecord, name: str) -> Curve:
    return learning_curve(run.rows, "timesteps", run.plan.gradient_steps_per_update, name)


def _draw_line(axis: Any, curve: Curve, color: str, label: str | None) -> None:
    if len(curve.x):
        marker = "o" if len(curve.x) == 1 else ""
        axis.plot(curve.x, curve.y, color=color, lw=1.2, marker=marker, ms=3.5, label=label)


def _seed(run: RunRecord) -> str:
    return str(run.spec.seed) if run.knows("seed") else "unknown"


def _few_ticks() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(nbins=5)


def plot_tasks(title: str, tasks: Sequence[Task]) -> Figure:
    """Draw learning curves and final returns of groups of runs, one row of panels per environment."""
    with new_figure("runs", (11, 3.7 * len(tasks) + 0.8)) as figure:
        figure.suptitle(title, fontsize=11)
        panels = figure.subplots(len(tasks), 2, squeeze=False, width_ratios=(3, 2))
        for number, (task, (curves, finals)) in enumerate(zip(tasks, panels, strict=True)):
            draw_learning_curves(curves, f"curves-{number}", task, "timesteps", None)
            curves.set_title(task.label, fontsize=10)
            curves.xaxis.set_major_locator(_few_ticks())
            scores = task.final_returns()
            if scores:
                draw_final_returns(finals, f"finals-{number}", task, scores)
                finals.tick_params(axis="x", labelrotation=60 if len(scores) > 3 else 0)
            else:
                finals.set_visible(False)
            _add_legend(curves, task)
        figure.supxlabel(_uncertainty(tasks), fontsize=8, color=GRAY)
        return figure


def _add_legend(axis: Any, task: Task) -> None:
    from matplotlib.lines import Line2D

    colors = group_colors(task)
    if len(colors) <= MOST_LABELS:
        handles = [Line2D([], [], color=color, lw=2, label=label) for label, color in colors.items()]
        axis.legend(handles=handles, frameon=False, fontsize=8)


def _uncertainty(tasks: Sequence[Task]) -> str:
    counts = sorted({len(group.runs) for task in tasks for group in task.groups})
    seeds = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    if counts[-1] == 1:
        return "Thin lines and points: single runs. One seed per group: there is no interval over seeds."
    return f"Thin lines and points: single runs. Bands and bars: 95 % intervals over seeds ({seeds} per group)."
