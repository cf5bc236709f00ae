"""Predictors of which shapes learn best in a budget: from a probe of one run, and trivial ones.

Derivation: docs/maths.md, "Progress per timestep".
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from racing.replay import Choice, Floats, Method, Table, rollshape_rule
from rollshape.geometry.plan import plan
from rollshape.studies.racing.score_model import UPDATES_SCALE, USUAL_UPDATES
from rollshape.studies.statistics import sample_centers

DATA = Path(__file__).parents[1] / "data" / "foresight"
LEAST_COSINE = 0.02  # below which a gradient step does more harm by its noise than good; chosen on the tuning half
PAIR_LEVEL = 0.95  # of each pair by itself: a benchmark over many pairs, not a verdict on one (`statistics.separate`)
TINY = 1e-12
LOWEST_PRIOR = 4.0  # of the rule, below its highest

Predictor = Callable[[Table, dict[str, Any]], Floats]  # (task and budget, its probe) → one number per shape


def read_probe(table: Table) -> dict[str, Any] | None:
    """Return the probe of a table's task; None if there is none."""
    path = DATA / f"{table.name.split(',')[0]}.json"
    return json.loads(path.read_text()) if path.exists() else None


def gradient_steps(table: Table) -> Floats:
    """Return the gradient steps that each shape makes in the budget, with the planner's minibatches and epochs."""
    plans = [plan(num_envs=num_envs, num_steps=num_steps) for num_envs, num_steps in table.shapes]
    steps = [p.gradient_steps_per_update * updates for p, updates in zip(plans, table.updates, strict=True)]
    return np.array(steps, np.float64)


def cosines(table: Table, probe: dict[str, Any], *, minibatches: bool = True) -> Floats:
    """Return the cosine of each shape's minibatch (or rollout) gradient to the true one, mean over checkpoints.

    Only checkpoints where the true gradient is significantly different from zero count; without any, all cosines are 1.
    """
    rows = []
    for checkpoint in probe["checkpoints"]:
        signal, low, _ = checkpoint["signal"]
        if low <= 0:
            continue
        lengths = {entry["num_steps"]: entry for entry in checkpoint["lengths"]}
        rows.append([_cosine(lengths[steps], envs, signal, minibatches) for envs, steps in table.shapes])
    return np.array(rows).mean(axis=0) if rows else np.ones(len(table.shapes))


def _cosine(entry: dict[str, float], num_envs: int, signal: float, minibatches: bool) -> float:
    """Return ⟨G_T, G⟩ / √(|G|² (|G_T|² + tr Var G_M)) of minibatches of M steps of an N×T rollout."""
    num_steps, norm = int(entry["num_steps"]), max(entry["squared_norm"], TINY)
    size = num_envs * num_steps
    minibatch = plan(num_envs=num_envs, num_steps=num_steps).minibatch_size if minibatches else size
    step_variance, window_variance = entry["step_square"] - norm, entry["window_square"] - norm
    correlation_time = num_steps * window_variance / step_variance
    variance = step_variance / minibatch * (1 + (minibatch - 1) * (correlation_time - 1) / (size - 1))
    product = (norm + signal - entry["bias2"]) / 2
    return product / math.sqrt(signal * (norm + variance))


def progress(table: Table, probe: dict[str, Any]) -> Floats:
    """Gradient steps × (cosine of a minibatch's gradient − 0.02)."""
    return gradient_steps(table) * (cosines(table, probe) - LEAST_COSINE)


def propagation(table: Table, probe: dict[str, Any]) -> Floats:
    """Return how much of the return the critic can know, mean over updates: after u of them 1 − γ^(uT′).

    One update moves values by T′ = min(T, 1/(1 − γλ)) steps, the shorter of the window and of the memory of GAE.
    """
    gamma, memory = probe["gamma"], 1 / (1 - probe["gamma"] * probe["gae_lambda"])
    unknown = np.array([gamma ** min(steps, memory) for _, steps in table.shapes])
    updates = np.array(table.updates)
    return 1 - unknown * (1 - unknown**updates) / (updates * (1 - unknown))


PREDICTORS: dict[str, Predictor] = {
    "progress: gradient steps × (cosine of a minibatch − 0.02)": progress,
    "progress × critic propagation": lambda table, probe: progress(table, probe) * propagation(table, probe),
    "gradient steps × cosine of a minibatch": lambda table, probe: gradient_steps(table) * cosines(table, probe),
    "updates × cosine of a rollout": lambda table, probe: (
        np.array(table.updates) * cosines(table, probe, minibatches=False)
    ),
    "cosine of a rollout: the error of one update": lambda table, probe: cosines(table, probe, minibatches=False),
    "more updates": lambda table, _: np.array(table.updates, np.float64),
    "nearest to 1,024 updates": lambda table, _: -np.abs(np.log2(np.array(table.updates) / USUAL_UPDATES)),
    "nearest to SB3's 8×256": lambda table, _: -((np.array(table.coordinates) - (3, 8)) ** 2).sum(axis=1),
}


@dataclass(frozen=True)
class Concordance:
    """How many separated pairs of shapes a predictor orders correctly; a pair that it calls equal counts half."""

    across: tuple[float, int]  # pairs of different rollout sizes: correct, all
    within: tuple[float, int]  # pairs of one rollout size


def separated_pairs(table: Table) -> list[tuple[int, int]]:
    """Return (better, worse) pairs of shapes that their seeds separate with a probability over 0.95 each."""
    samples = sample_centers(list(table.scores[:, :, -1]))
    pairs = []
    for i in range(len(samples)):
        for j in range(i):
            higher, lower = float((samples[i] > samples[j]).mean()), float((samples[i] < samples[j]).mean())
            if max(higher, lower) > PAIR_LEVEL:
                pairs.append((i, j) if higher > lower else (j, i))
    return pairs


def concordance(table: Table, predicted: Floats) -> Concordance:
    sizes = [num_envs * num_steps for num_envs, num_steps in table.shapes]
    counts = {True: [0.0, 0], False: [0.0, 0]}
    for better, worse in separated_pairs(table):
        count = counts[sizes[better] != sizes[worse]]
        count[0] += (np.sign(predicted[better] - predicted[worse]) + 1) / 2
        count[1] += 1
    (across, all_across), (within, all_within) = counts[True], counts[False]
    return Concordance((float(across), int(all_across)), (float(within), int(all_within)))


def _usual_updates(table: Table, _: dict[str, Any]) -> Floats:
    """The prior of `rollshape advise`, by its own formula."""
    doublings = np.log2(np.array(table.updates) / USUAL_UPDATES)
    return np.maximum(-((doublings / UPDATES_SCALE) ** 2), -LOWEST_PRIOR)


def _log_progress(table: Table, probe: dict[str, Any]) -> Floats:
    """Log of the progress, from 0 for the best shape down to −4."""
    logs = np.log(np.maximum(progress(table, probe), 1.0))
    return LOWEST_PRIOR * (logs - logs.max()) / max(float(np.ptp(logs)), TINY)


def _cosine_of_splits(table: Table, probe: dict[str, Any]) -> Floats:
    """The prior of `rollshape advise`, plus the log of the cosine relative to its mean over splits of the same size."""
    logs = np.log(np.maximum(cosines(table, probe), LEAST_COSINE))
    sizes = np.array([num_envs * num_steps for num_envs, num_steps in table.shapes])
    relative = np.array([log - logs[sizes == size].mean() for log, size in zip(logs, sizes, strict=True)])
    return np.clip(_usual_updates(table, probe) + relative - relative.max(), -LOWEST_PRIOR, 0.0)


PRIORS: dict[str, Predictor] = {
    "about 1,024 updates (rollshape advise)": _usual_updates,
    "none": lambda table, _: np.zeros(len(table.shapes)),
    "progress": _log_progress,
    "mean of progress and 1,024 updates": lambda table, probe: (
        (_log_progress(table, probe) + _usual_updates(table, probe)) / 2
    ),
    "1,024 updates, splits by cosine": _cosine_of_splits,
}


def with_prior(heights: Floats) -> Method:
    """Return the rule of `rollshape advise` with another prior, from −4 to 0.

    The rule computes its prior from the number of updates, and uses it for nothing else, so it gets those numbers of
    updates that have this prior.
    """
    updates = USUAL_UPDATES * 2 ** (UPDATES_SCALE * np.sqrt(-np.asarray(heights)))

    def choose(table: Table, scores: Floats, rng: np.random.Generator, budget: float) -> Choice:
        return rollshape_rule(replace(table, updates=tuple(map(float, updates))), scores, rng, budget)

    return choose
