"""Score every method on a half of the tasks: regret, decisions within 10 %, cost, and what the tied set covers."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from racing.replay import (
    SEEDS,
    Choice,
    Method,
    Table,
    hyperband,
    library_default,
    race_on,
    random_choice,
    read_tables,
    rollshape_rule,
    sequential_elimination,
    simpler_rule,
    successive_halving,
    whole_study,
)
from rollshape.studies.racing.score_model import NOISE_STD
from rollshape.studies.statistics import student_quantile

REPLAYS, OPTUNA_REPLAYS = 1_000, 60
NARROW = 0.10
TIED_TRUTH = 0.01  # regret below which a shape counts as one of the best
RESAMPLES = 2_000


def methods() -> dict[str, tuple[Method, int]]:
    """Return every method and how often it is replayed on each task."""
    from racing.optuna_rules import gp_whole, optuna_rule, random_halving, tpe_hyperband, tpe_median, tpe_whole

    return {
        "rollshape advise": (rollshape_rule, REPLAYS),
        "successive halving, 1 seed": (successive_halving((0.05, 0.1, 0.2, 0.4, 0.8), 1), REPLAYS),
        "successive halving, 3 seeds": (successive_halving((0.05, 0.1, 0.2, 0.4, 0.8), 3), REPLAYS),
        "Hyperband": (hyperband, REPLAYS),
        "sequential elimination, 3 paired seeds": (sequential_elimination, REPLAYS),
        "Optuna TPE + Hyperband, 1 seed": (optuna_rule(tpe_hyperband, 1), OPTUNA_REPLAYS),
        "Optuna TPE + Hyperband, 3 seeds": (optuna_rule(tpe_hyperband, 3), OPTUNA_REPLAYS),
        "Optuna random + successive halving, 1 seed": (optuna_rule(random_halving, 1), OPTUNA_REPLAYS),
        "Optuna TPE + median, 1 seed": (optuna_rule(tpe_median, 1), OPTUNA_REPLAYS),
        "Optuna TPE, whole runs, 1 seed": (optuna_rule(tpe_whole, 1), OPTUNA_REPLAYS),
        "Optuna GP, whole runs, 1 seed": (optuna_rule(gp_whole, 1), OPTUNA_REPLAYS // 3),
        "nearest to SB3's 8×256": (library_default(8, 256), 1),
        "nearest to PureJaxRL's 4×128": (library_default(4, 128), 1),
        "random shape": (random_choice, REPLAYS),
        "full study, 1 seed": (whole_study(1), REPLAYS),
        "full study, 3 seeds": (whole_study(SEEDS), REPLAYS),
    }


def simpler_rules() -> dict[str, tuple[Method, int]]:
    """Return the rule of `rollshape advise`, what is left of it without one of its parts, and close variants."""
    count = REPLAYS // 5
    variants: dict[str, dict[str, Any]] = {
        "without the prior of 1,024 updates": {"PRIOR_WEIGHT": 0.0},
        "twice the weight of the prior": {"PRIOR_WEIGHT": 2 / 3},
        "every shape for itself": {"LENGTH": 0.1},
        "correlation over 2 doublings": {"LENGTH": 2.0},
        "correlation over 4 doublings": {"LENGTH": 4.0},
        "less noise expected": {"NOISE_STD": 0.4},
        "more noise expected": {"NOISE_STD": 0.8},
        "less optimism": {"OPTIMISM": 0.75},
        "more optimism": {"OPTIMISM": 2.5},
        "one run at a time": {"TRIALS_PER_ROUND": 1},
        "four runs at a time": {"TRIALS_PER_ROUND": 4},
    }
    return {
        "rollshape advise": (rollshape_rule, count),
        **{name: (simpler_rule(**constants), count) for name, constants in variants.items()},
        "successive halving, 1 seed": (successive_halving((0.05, 0.1, 0.2, 0.4, 0.8), 1), count),
    }


@dataclass(frozen=True)
class Outcome:
    """Replays of a method on a table: regrets, shares of the full cost, whether the tied set has the best, its size."""

    regrets: list[float]
    shares: list[float]
    covers: list[bool]
    covers_equal: list[bool]
    sizes: list[int]


def replay(table: Table, method: Method, count: int, budget: float, num_seeds: int = SEEDS) -> Outcome:
    rng = np.random.default_rng(zlib.crc32(table.name.encode()))
    outcome = Outcome([], [], [], [], [])
    best = int(table.truth.argmax())
    equal = {i for i in range(len(table.shapes)) if table.regret(i) <= TIED_TRUTH}
    for _ in range(count):
        choice: Choice = method(table, table.resample(rng, num_seeds), rng, budget)
        outcome.regrets.append(table.regret(choice.shape))
        outcome.shares.append(choice.share)
        outcome.covers.append(best in choice.tied)
        outcome.covers_equal.append(bool(equal & choice.tied))
        outcome.sizes.append(len(choice.tied))
    return outcome


def summarize(outcomes: Mapping[str, Outcome]) -> dict[str, Any]:
    """Return means over tables of a method's statistics; intervals resample the tables, which differ most."""
    tables = list(outcomes.values())
    medians = np.array([np.median(item.regrets) for item in tables])
    means = np.array([np.mean(item.regrets) for item in tables])
    within = np.array([np.mean(np.array(item.regrets) <= NARROW) for item in tables])
    picks = np.random.default_rng(0).integers(0, len(tables), (RESAMPLES, len(tables)))

    def interval(values: Any) -> list[float]:
        return [round(float(end), 3) for end in np.quantile(values[picks].mean(axis=1), (0.025, 0.975))]

    pooled = np.concatenate([np.resize(item.regrets, REPLAYS) for item in tables])
    return {
        "median_regret": round(float(np.median(pooled)), 4),
        "mean_of_medians": [round(float(medians.mean()), 3), *interval(medians)],
        "mean_regret": [round(float(means.mean()), 3), *interval(means)],
        "within": [round(float(within.mean()), 3), *interval(within)],
        "max_share": round(max(max(item.shares) for item in tables), 4),
        "covers": round(float(np.mean([np.mean(item.covers) for item in tables])), 3),
        "covers_equal": round(float(np.mean([np.mean(item.covers_equal) for item in tables])), 3),
        "tied_size": round(float(np.mean([np.mean(item.sizes) for item in tables])), 1),
        "tables": {
            name: {
                "median": round(float(np.median(item.regrets)), 3),
                "mean": round(float(np.mean(item.regrets)), 3),
                "within": round(float(np.mean(np.array(item.regrets) <= NARROW)), 3),
            }
            for name, item in outcomes.items()
        },
    }


def score(
    half: str, budget: float, scale: float = 1.0, chosen: Mapping[str, tuple[Method, int]] | None = None
) -> dict[str, Any]:
    """Replay all methods (or the chosen ones) on all tasks of a half, each with two budgets."""
    tables, results = read_tables(half), {}
    for name, (method, count) in (chosen or methods()).items():
        replays = max(1, round(count * scale))
        outcomes = {table.name: replay(table, method, replays, budget) for table in tables}
        results[name] = {"replays": replays * len(tables), **summarize(outcomes)}
        row = results[name]
        print(f"{name:44} median {row['median_regret']:.3f}  mean {row['mean_regret']}  within 10 % {row['within']}  "
              f"cost {row['max_share']:.3f}  covers {row['covers']:.2f} / {row['covers_equal']:.2f} of "
              f"{row['tied_size']}", flush=True)  # fmt: skip
    return results


def score_budgets(half: str, scale: float = 1.0) -> None:
    """Print what larger budgets and more seeds bring, on the tasks of a half that have as many seeds."""
    for num_seeds in (SEEDS, 5, 10):
        tables = [table for table in read_tables(half) if table.scores.shape[1] >= num_seeds]
        for budget in (0.05, 0.15, 0.3, 0.5) if tables else ():
            count = max(1, round(REPLAYS * scale / 5))
            outcomes = {table.name: replay(table, rollshape_rule, count, budget, num_seeds) for table in tables}
            row = summarize(outcomes)
            runs = budget * num_seeds * len(tables[0].shapes)
            print(f"--seeds {num_seeds} --budget {budget:g}: {runs:.1f} whole runs, {len(tables)} tables  median "
                  f"{row['median_regret']:.3f}  mean {row['mean_regret']}  within 10 % {row['within']}  covers "
                  f"{row['covers']:.2f} of {row['tied_size']}", flush=True)  # fmt: skip


def with_held_out(half: str, count: int) -> Iterator[tuple[Table, NDArray[np.int64]]]:
    """Yield every task that has more seeds than a race, `count` times, with its seeds in random order."""
    for table in read_tables(half):
        rng = np.random.default_rng(1)
        if table.scores.shape[1] > SEEDS:
            for _ in range(count):
                yield table, rng.permutation(table.scores.shape[1])


def held_out(half: str, budget: float, scale: float = 1.0) -> tuple[float, float]:
    """Return the mean regret of our rule by final scores of all seeds, and by those of the seeds that were not raced.

    The best shape is that of all seeds in both cases, so that the second number is not biased by the race's own noise.
    """
    regrets = []
    for table, seeds in with_held_out(half, round(scale * REPLAYS / 5)):
        best, rise = int(table.truth.argmax()), table.truth.max() - table.untrained
        shape = race_on(table, table.scores[:, seeds[:SEEDS]], budget)[0].best
        assert shape is not None
        finals = table.scores[:, seeds[SEEDS:], -1].mean(axis=1)
        regrets.append((table.regret(shape), float(finals[best] - finals[shape]) / rise))
    every, others = np.mean(regrets, axis=0)
    return float(every), float(others)


def interval_coverage(half: str, budget: float, scale: float = 1.0) -> dict[str, float]:
    """Return how often the 95 % intervals of trained and of other shapes are right, and their median half-widths.

    Right by the seeds that were not raced: with an estimate m ± t·s, the mean of k other seeds is within
    t·√(s² + σ²/k) of m in 95 % of the races, where σ is the noise that the model expects of a single run. Half-widths
    are shares of (best − untrained).
    """
    covered: dict[str, list[bool]] = {"trained": [], "not trained": []}
    widths: dict[str, list[float]] = {"trained": [], "not trained": []}
    for table, seeds in with_held_out(half, round(scale * REPLAYS / 5)):
        raced, others = table.scores[:, seeds[:SEEDS]], table.scores[:, seeds[SEEDS:], -1]
        decision, _ = race_on(table, raced, budget)
        estimates = decision.rounds[-1].estimates
        trained = {run.candidate for run in decision.runs}
        noise = student_quantile(estimates.degrees) * NOISE_STD * estimates.scale / np.sqrt(others.shape[1])
        for shape in range(len(table.shapes)):
            name = "trained" if shape in trained else "not trained"
            half_width = estimates.half_width(shape)
            error = abs(float(estimates.mean[shape]) - float(others[shape].mean()))
            covered[name].append(error <= float(np.hypot(half_width, noise)))
            widths[name].append(half_width / (table.truth.max() - table.untrained))
    return {
        **{f"{name}_coverage": round(float(np.mean(hits)), 3) for name, hits in covered.items()},
        **{f"{name}_half_width": round(float(np.median(values)), 3) for name, values in widths.items()},
    }


def resolutions(half: str) -> dict[str, tuple[float, float]]:
    """Return per task what the best shape gains over no training, and the error of a shape's final score.

    The error is the standard error of the mean over seeds, as a share of the gain (median over shapes). Regrets of this
    size are within the error of the benchmark; where it is near 1 or above, the task cannot rank shapes.
    """
    result = {}
    for table in read_tables(half):
        gain = float(table.truth.max() - table.untrained)
        error = table.scores[:, :, -1].std(axis=1, ddof=1) / np.sqrt(table.scores.shape[1])
        result[table.name] = gain, float(np.median(error)) / gain
    return result


def write_results(results: Mapping[str, Any], path: Any) -> None:
    path.write_text(json.dumps(results, indent=1) + "\n")
