"""Tables of a report: every number with its interval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rollshape.reports.document import Table
from rollshape.studies.claims import told
from rollshape.studies.curves import Alignment, Reached, to_threshold
from rollshape.studies.diagnosis import Diagnosis
from rollshape.studies.groups import Task
from rollshape.studies.ranking import Prediction, Test
from rollshape.studies.statistics import Floats, probability_of_improvement, summarised

NONE = "–"


def scores(task: Task, threshold: float | None, caption: str) -> Table:
    """A row a group: final return, area, what it took to reach the threshold in each alignment, steps/s."""
    finals, areas = task.scores(), task.areas()
    rows = []
    for group in task.groups:
        speeds = [speed for run in group.runs if (speed := run.median("sps"))]
        rows.append(
            [
                group.label,
                f"{len(finals.get(group.label, ()))} of {len(group.runs)}",
                told(summarised(finals[group.label])) if group.label in finals else NONE,
                told(summarised(areas[group.label])) if group.label in areas else NONE,
                *(_reached(task, group, by, threshold) for by in ("timesteps", "seconds", "gradient_steps")),
                f"{np.median(speeds):,.0f}" if speeds else NONE,
            ]
        )
    columns = ("", "ended", "final return", "area under the curve", "timesteps to it", "seconds to it",
               "gradient steps to it", "steps/s")  # fmt: skip
    return Table(columns, rows, caption)


def _reached(task: Task, group: Any, by: Alignment, threshold: float | None) -> str:
    lines = task.curves(group, by)
    if threshold is None or not lines:
        return NONE
    found: Reached = to_threshold(lines, threshold)
    if found.median is None:
        return f"{found.reached}/{found.runs} get there"
    low, high = ("∞" if end is None else _number(end) for end in (found.low, found.high))
    return f"{_number(found.median)} [{low}, {high}] ({found.reached}/{found.runs})"


def _number(value: float) -> str:
    """Three digits, or all of a large number."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


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
            found = probability_of_improvement(values[first], values[second])
            cells.append(f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]")
            shade[i, j + 1] = found.value
        rows.append(cells)
    return Table(("higher than →", *labels), rows, caption, shade)


def rankings(found: Sequence[Test], caption: str) -> Table:
    """Regret of the predicted best first, then concordance over the pairs that the runs separate."""
    rows = []
    for each in found:
        ranking = each.ranking
        share = NONE if ranking.concordance is None else f"{ranking.concordance:.0%}"
        rows.append(
            [
                f"{each.prediction.horizon}, {each.measure}",
                ranking.predicted_best,
                ranking.measured_best,
                told(ranking.regret),
                f"{ranking.concordant} of {ranking.separated} ({share}); {ranking.pairs} pairs in all",
            ]
        )
    return Table(
        ("predicted by, against", "predicted best", "measured best", "regret", "separated pairs in order"),
        rows,
        caption,
    )


def gradients(task: Task, caption: str) -> Table | None:
    """What probes found at each shape's own batch, a row a moment."""
    rows = []
    for group in task.groups:
        for run in group.runs:
            for moment, document in run.probes.items():
                if document.get("surface"):
                    rows.append([f"{group.label}, {moment:.0%}", *_probed(document)])
    columns = ("shape, share of the run", "variance", "Term 1, single steps", "Term 2, along time", "ESS of N·T",
               "bias², window", "bias², total", "noise scale", "h")  # fmt: skip
    return Table(columns, rows, caption) if rows else None


def _probed(document: Mapping[str, Any]) -> list[str]:
    variance, own = document["variance"], document["geometry"]
    horizon, scale = document["horizon"], document["noise_scale"]
    return [
        *(_with(variance[name], variance["ci"][name]) for name in ("total", "individual", "covariance")),
        f"{_with(document['effective_sample_size'], document['effective_sample_size_ci'])} of "
        f"{own['num_envs'] * own['num_steps']:,}",
        *(_with(document["bias"][name]["squared"], document["bias"][name]["ci"]) for name in ("window", "total")),
        _with(scale["clustered"], scale["ci"]["clustered"]),
        _with(horizon["value"], [horizon["low"], horizon["high"]]),
    ]


def _with(value: float | None, ends: Sequence[float | None] | None) -> str:
    if value is None:
        return "no signal"
    if ends is None or ends[0] is None:
        return f"{value:.3g}"
    return f"{value:.3g} [{ends[0]:.3g}, {'∞' if ends[1] is None else f'{ends[1]:.3g}'}]"


def errors(found: Sequence[Prediction], caption: str) -> Table:
    """Predicted errors, relative to the median shape, with their range over probes."""
    labels = list(found[0].errors)
    rows = [
        [label, *(f"{p.errors[label]:.3g} ({p.spread[label][0]:.3g} … {p.spread[label][1]:.3g})" if label in p.errors
                  else NONE for p in found)]
        for label in labels
    ]  # fmt: skip
    return Table(("", *(f"{p.horizon}, {p.probes} probes" for p in found)), rows, caption)


def verdicts(found: Sequence[Diagnosis], labels: Mapping[Any, str], caption: str) -> Table:
    """Group → how many runs came to what, and the strongest suspect of its bad ones."""
    groups: dict[Any, list[Diagnosis]] = {}
    for each in found:
        groups.setdefault((each.record.task, each.record.group), []).append(each)
    rows = []
    for key, runs in groups.items():
        counted = Counter(each.judgement.verdict for each in runs)
        suspects = [each.suspects[0] for each in runs if each.suspects]
        common = Counter(finding.rule for finding in suspects).most_common(1)
        first = next(finding for finding in suspects if finding.rule == common[0][0]) if common else None
        rows.append(
            [
                labels[key],
                ", ".join(f"{verdict} {count}" for verdict, count in counted.most_common()),
                f"{common[0][0]} ({common[0][1]} of {len(runs)} runs)" if common else NONE,
                f"{first.message} {first.fix}" if first else "",
            ]
        )
    return Table(
        ("", "what became of the runs", "first suspect", "evidence of one of them, and what to try"), rows, caption
    )


def plans(task: Task) -> Table:
    names = ("num_envs", "num_steps", "rollout_size", "minibatch_size", "num_minibatches", "num_epochs",
             "actual_timesteps", "num_updates", "gradient_steps")  # fmt: skip
    rows = [[group.label, *(_size(group.plan.get(name)) for name in names)] for group in task.groups]
    return Table(("", *names), rows)


def _size(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else NONE if value is None else str(value)
