"""Tables of a report: every number with its interval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rollshape.formatting import format_number
from rollshape.gradients.intervals import Estimate
from rollshape.gradients.noise_scale import NoiseScale
from rollshape.probes.quantities.horizon import Horizon
from rollshape.probes.result import Probe
from rollshape.reports.document import Table
from rollshape.studies.curves import ALIGNMENTS, Alignment, time_to_threshold
from rollshape.studies.diagnosis import Diagnosis, common_suspect, group_diagnoses
from rollshape.studies.groups import Group, Task
from rollshape.studies.ranking import Prediction, PredictionCheck
from rollshape.studies.statistics import Floats, probability_of_improvement, summarize

NONE = "–"
PLAN_FIELDS = ("num_envs", "num_steps", "rollout_size", "minibatch_size", "num_minibatches", "num_epochs",
               "actual_timesteps", "num_updates", "gradient_steps")  # fmt: skip


def scores(task: Task, threshold: float | None, caption: str) -> Table:
    """One row per group: final return, area under the curve, times to the threshold, steps/s."""
    finals, areas = task.final_returns(), task.areas()
    rows = []
    for group in task.groups:
        speeds = [speed for run in group.runs if (speed := run.median("sps"))]
        rows.append(
            [
                group.label,
                f"{len(finals.get(group.label, ()))} of {len(group.runs)}",
                str(summarize(finals[group.label])) if group.label in finals else NONE,
                str(summarize(areas[group.label])) if group.label in areas else NONE,
                *(_time_to_threshold(task, group, by, threshold) for by in ALIGNMENTS),
                f"{np.median(speeds):,.0f}" if speeds else NONE,
            ]
        )
    columns = ("", "finished", "final return", "area under the curve", "timesteps to threshold", "seconds to threshold",
               "gradient steps to threshold", "steps/s")  # fmt: skip
    return Table(columns, rows, caption)


def _time_to_threshold(task: Task, group: Group, by: Alignment, threshold: float | None) -> str:
    lines = task.curves(group, by)
    if threshold is None or not lines:
        return NONE
    time = time_to_threshold(lines, threshold)
    if time.median is None:
        return f"reached by {time.reached}/{time.runs}"
    low, high = ("∞" if end is None else format_number(end) for end in (time.low, time.high))
    return f"{format_number(time.median)} [{low}, {high}] ({time.reached}/{time.runs})"


def improvement(values: Mapping[str, Floats], caption: str) -> Table:
    """P(a run of the row's group scores higher than one of the column's), with its interval."""
    labels = list(values)
    rows, shade = [], {}
    for i, first in enumerate(labels):
        cells = [first]
        for j, second in enumerate(labels):
            if i == j:
                cells.append("")
                continue
            probability = probability_of_improvement(values[first], values[second])
            cells.append(f"{probability.value:.2f} [{probability.low:.2f}, {probability.high:.2f}]")
            shade[i, j + 1] = probability.value
        rows.append(cells)
    return Table(("higher than →", *labels), rows, caption, shade)


def rankings(checks: Sequence[PredictionCheck], caption: str) -> Table:
    """One row per prediction and measure: regret of the predicted best, then concordance over separated pairs."""
    rows = []
    for check in checks:
        ranking = check.ranking
        share = NONE if ranking.concordance is None else f"{ranking.concordance:.0%}"
        rows.append(
            [
                f"{check.prediction.horizon}, {check.measure}",
                ranking.predicted_best,
                ranking.measured_best,
                str(ranking.regret),
                f"{ranking.concordant} of {ranking.separated} ({share}); {ranking.pairs} pairs in total",
            ]
        )
    columns = ("prediction, measure", "predicted best", "measured best", "regret", "pairs ranked correctly")
    return Table(columns, rows, caption)


def gradients(task: Task, caption: str) -> Table | None:
    """One row per probe: what it measured at the batch of its run's own shape."""
    rows = [
        [f"{group.label}, {share:.0%}", *_probe_cells(probe)]
        for group in task.groups
        for run in group.runs
        for share, probe in run.probes.items()
        if isinstance(probe, Probe)
    ]
    columns = ("shape, share of the run", "variance", "Term 1, single steps", "Term 2, along time", "ESS of N·T",
               "bias², window", "bias², total", "noise scale", "h")  # fmt: skip
    return Table(columns, rows, caption) if rows else None


def _probe_cells(probe: Probe) -> list[str]:
    variance, bias = probe.variance, probe.bias
    return [
        *(_format_measured(term) for term in (variance.total, variance.individual, variance.covariance)),
        f"{_format_measured(variance.effective_sample_size)} of {variance.num_envs * variance.num_steps:,}",
        *(_format_measured(bias[name].squared) for name in ("window", "total")),
        _format_measured(probe.noise_scale.clustered),
        _format_measured(probe.horizon),
    ]


def _format_measured(measured: Estimate | NoiseScale | Horizon) -> str:
    """Format a value and its interval; an upper end that is missing is unbounded."""
    value, low, high = (_format_finite(number) for number in (measured.value, measured.low, measured.high))
    if value is None:
        return "no signal"
    return value if low is None else f"{value} [{low}, {high or '∞'}]"


def _format_finite(number: float | None) -> str | None:
    return None if number is None or not np.isfinite(number) else format_number(number)


def predicted_errors(predictions: Sequence[Prediction], caption: str) -> Table:
    """One row per group: predicted error relative to the median group, with its range over probes."""
    rows = [
        [label, *(_format_prediction(prediction, label) for prediction in predictions)]
        for label in predictions[0].errors
    ]
    columns = ("", *(f"{prediction.horizon}, {prediction.probes} probes" for prediction in predictions))
    return Table(columns, rows, caption)


def _format_prediction(prediction: Prediction, label: str) -> str:
    if label not in prediction.errors:
        return NONE
    low, high = prediction.ranges[label]
    return f"{prediction.errors[label]:.3g} ({low:.3g} … {high:.3g})"


def run_verdicts(diagnoses: Sequence[Diagnosis], labels: Mapping[Any, str], caption: str) -> Table:
    """One row per group: how its runs ended, and the most common first suspect of its bad runs."""
    rows = []
    for key, runs in group_diagnoses(diagnoses).items():
        counts = Counter(diagnosis.verdict.name for diagnosis in runs)
        common = common_suspect(runs)
        rows.append(
            [
                labels[key],
                ", ".join(f"{verdict} {count}" for verdict, count in counts.most_common()),
                f"{common[0].rule} ({common[1]} of {len(runs)} runs)" if common else NONE,
                f"{common[0].message} {common[0].fix}" if common else "",
            ]
        )
    return Table(("", "outcome of the runs", "first suspect", "evidence in one run, and what to change"), rows, caption)


def plans(task: Task) -> Table:
    """One row per group: the sizes of its plan."""
    rows = [[group.label, *(_format_size(getattr(group.plan, name)) for name in PLAN_FIELDS)] for group in task.groups]
    return Table(("", *PLAN_FIELDS), rows)


def _format_size(size: int | None) -> str:
    return NONE if size is None else f"{size:,}"
