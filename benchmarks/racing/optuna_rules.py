"""Optuna's samplers and pruners on the collected curves: the real library, at equal timesteps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import optuna

from racing.replay import SEEDS, Choice, Floats, Method, Table

optuna.logging.set_verbosity(optuna.logging.ERROR)
Make = Callable[[int, int], tuple[Any, Any]]  # (seed, parts of a run) → (sampler, pruner)


def tpe_hyperband(seed: int, parts: int) -> tuple[Any, Any]:
    pruner = optuna.pruners.HyperbandPruner(min_resource=1, max_resource=parts, reduction_factor=3)
    return optuna.samplers.TPESampler(seed=seed), pruner


def random_halving(seed: int, _: int) -> tuple[Any, Any]:
    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=2)
    return optuna.samplers.RandomSampler(seed=seed), pruner


def tpe_median(seed: int, _: int) -> tuple[Any, Any]:
    return optuna.samplers.TPESampler(seed=seed), optuna.pruners.MedianPruner(n_startup_trials=3)


def tpe_whole(seed: int, _: int) -> tuple[Any, Any]:
    return optuna.samplers.TPESampler(seed=seed, n_startup_trials=3), optuna.pruners.NopPruner()


def gp_whole(seed: int, _: int) -> tuple[Any, Any]:
    sampler = optuna.samplers.GPSampler(seed=seed, n_startup_trials=3, deterministic_objective=False)
    return sampler, optuna.pruners.NopPruner()


def optuna_rule(make: Make, seeds: int) -> Method:
    """Trials suggest log₂ N and log₂ T, snap to the nearest candidate and report the mean over `seeds` seeds.

    They go on until the budget is used up; the answer is the shape of the best trial that was not pruned (the furthest
    one if all were). With one seed per trial, each trial takes another of the three.
    """

    def choose(table: Table, scores: Floats, rng: np.random.Generator, budget: float) -> Choice:
        sampler, pruner = make(int(rng.integers(2**31)), table.points)
        study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner)
        total, spent, places = budget * scores.size, 0, np.array(table.coordinates)
        low, high = places.min(axis=0), places.max(axis=0)
        results: list[tuple[bool, int, float, int]] = []  # (is complete, parts, score, shape)
        while spent + seeds <= total + 1e-9:
            trial = study.ask()
            place = [trial.suggest_float(name, low[i], high[i]) for i, name in enumerate(("num_envs", "num_steps"))]
            shape = int(((places - place) ** 2).sum(axis=1).argmin())
            chosen = range(SEEDS) if seeds == SEEDS else [trial.number % SEEDS]
            value, is_complete, part = float("nan"), True, 0
            for part in range(1, table.points + 1):
                if spent + seeds > total + 1e-9:
                    is_complete, part = False, part - 1
                    break
                spent += seeds
                value = float(scores[shape, chosen, part - 1].mean())
                trial.report(value, part)
                if trial.should_prune():
                    is_complete = False
                    break
            if part:
                results.append((is_complete, part, value, shape))
            state = optuna.trial.TrialState.COMPLETE if is_complete else optuna.trial.TrialState.PRUNED
            study.tell(trial, value if is_complete else None, state=state)
        best = max(results, key=lambda result: (result[0], result[2] if result[0] else result[1], result[2]))[3]
        return Choice(best, frozenset({best}), spent / scores.size)

    return choose
