"""Rows of metrics.jsonl: one per logging interval."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from rollshape.algorithms.base import Algorithm, mean_of
from rollshape.algorithms.registry import ALGORITHMS
from rollshape.training.driver import Times, UpdateMetrics
from rollshape.training.monitor import GradientSignals

Row = dict[str, Any]
TIMES = ("wall_time", "rollout_s", "update_s", "sps")  # everything else repeats bit for bit
# All rows have the same columns: what this run's algorithm does not report is null.
REPORTED = tuple(dict.fromkeys(name for algorithm in ALGORITHMS.values() for name in algorithm.reports))


def metrics_row(algorithm: Algorithm, metrics: UpdateMetrics, update: int, times: Times, wall: float) -> Row:
    """Return one interval's metrics; a value that does not exist is null, never NaN."""
    plan = algorithm.plan
    values: UpdateMetrics = jax.tree.map(lambda part: np.asarray(part, np.float64), metrics)
    count, finished = len(values.episodes), values.episodes.sum()
    signals = values.signals
    return {
        "update": update + count,
        "timesteps": (update + count) * plan.rollout_size,
        "wall_time": round(wall, 4),
        "episodic_return": mean_of(values.return_sum.sum() / finished) if finished else None,
        "episodic_length": mean_of(values.length_sum.sum() / finished) if finished else None,
        "reset_phase_entropy": mean_of(values.reset_phase_entropy),
        "gradient_steps": count * plan.gradient_steps_per_update,
        **dict.fromkeys(REPORTED),
        **algorithm.summarize(values.info),
        **{name: mean_of(getattr(signals, name)[-1]) if signals else None for name in GradientSignals._fields},
        "eval_return": None,
        "eval_return_ci": None,
        "success_rate": None,
        "rollout_s": round(times.rollout, 6),
        "update_s": round(times.update, 6),
        "sps": round(count * plan.rollout_size / sum(times)),
    }
