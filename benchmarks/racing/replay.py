"""Replays on the collected curves: our rule, other racing rules and fixed choices, at equal timesteps."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from rollshape.studies.racing import rule, score_model
from rollshape.studies.racing.rule import POINTS, Decision, Progress, TrialRequest, decide
from rollshape.studies.racing.score_model import Features
from rollshape.studies.racing.scores import num_recent

Floats = NDArray[np.float64]
DATA = Path(__file__).parents[1] / "data" / "advise"
SEEDS = 3


@dataclass(frozen=True)
class Table:
    """A task with one of its budgets: returns [shapes, seeds, evaluations]; a diverged run keeps its last score."""

    name: str
    half: str
    shapes: tuple[tuple[int, int], ...]
    updates: tuple[int, ...]  # in a whole run
    curves: Floats
    untrained: float

    @cached_property
    def scores(self) -> Floats:
        """The score of every run after every part, [shapes, seeds, parts]; as `score_curve` computes it."""
        columns = [self.curves[:, :, k - num_recent(k) : k].mean(-1) for k in range(1, self.points + 1)]
        return np.stack(columns, axis=-1)

    @cached_property
    def truth(self) -> Floats:
        """The final score of every shape, over all seeds."""
        return self.scores[:, :, -1].mean(axis=1)

    @property
    def points(self) -> int:
        """Parts of a whole run."""
        return self.curves.shape[2]

    @property
    def coordinates(self) -> list[tuple[float, float]]:
        return [(math.log2(num_envs), math.log2(num_steps)) for num_envs, num_steps in self.shapes]

    def regret(self, shape: int) -> float:
        """How far a shape is below the best, as a share of (best − untrained)."""
        return float((self.truth.max() - self.truth[shape]) / (self.truth.max() - self.untrained))

    def resample(self, rng: np.random.Generator, num_seeds: int = SEEDS) -> Floats:
        """Return the scores of a race: different seeds, the same for all shapes."""
        return self.scores[:, rng.permutation(self.scores.shape[1])[:num_seeds]]


def read_tables(half: str | None = None) -> list[Table]:
    """Return every task twice: with its budget, and with half of it (a shorter run is the same curve cut off)."""
    tables = []
    for path in sorted(DATA.glob("*.json")):
        document = json.loads(path.read_text())
        if half in (None, document["half"]):
            tables += [_read_table(document, points) for points in (POINTS, POINTS // 2)]
    return tables


def _read_table(document: dict[str, Any], points: int) -> Table:
    curves = np.array([shape["eval_return"] for shape in document["shapes"]], np.float64)
    for k in range(curves.shape[2]):  # a run that has diverged
        before = curves[:, :, k - 1] if k else np.full(curves.shape[:2], np.nanmin(curves))
        curves[:, :, k] = np.where(np.isnan(curves[:, :, k]), before, curves[:, :, k])
    return Table(
        document["task"] + ("" if points == POINTS else ", half budget"),
        document["half"],
        tuple((shape["num_envs"], shape["num_steps"]) for shape in document["shapes"]),
        tuple(shape["num_updates"] * points // POINTS for shape in document["shapes"]),
        curves[:, :, :points],
        float(np.mean(document["untrained"])),
    )


@dataclass(frozen=True)
class Choice:
    """What a method chose: a shape, what it calls tied with it, and the share of the full cost."""

    shape: int
    tied: frozenset[int]
    share: float


Method = Callable[[Table, Floats, np.random.Generator, float], Choice]  # (table, scores of the race, rng, budget)


class StoredRuns(Progress):
    """The scores of a race, as far as they were requested; costs are parts."""

    def __init__(self, scores: Floats) -> None:
        self._scores, self._trained = scores, np.zeros(scores.shape[:2], np.int64)

    def train(self, request: TrialRequest) -> None:
        self._trained[request.candidate, request.seed] = request.point

    def score(self, request: TrialRequest) -> float | None:
        candidate, seed, point = request.candidate, request.seed, request.point
        return float(self._scores[candidate, seed, point - 1]) if self._trained[candidate, seed] >= point else None

    def cost(self, candidate: int, point: int) -> float:  # noqa: ARG002 (all runs are equally long)
        return point

    def spent(self, candidate: int, seed: int) -> float:
        return float(self._trained[candidate, seed])

    @property
    def share(self) -> float:
        """What was trained, as a share of everything."""
        return float(self._trained.sum()) / self._scores.size


def race_on(table: Table, scores: Floats, budget: float) -> tuple[Decision, float]:
    """Race as `rollshape advise` does; return the last decision and the share of the full cost."""
    shapes = zip(table.shapes, table.updates, strict=True)
    candidates = [Features(num_envs, num_steps, updates) for (num_envs, num_steps), updates in shapes]
    runs, total = StoredRuns(scores), budget * scores.size
    while (decision := decide(candidates, scores.shape[1], total, runs, points=table.points)).requests:
        for request in decision.requests:
            runs.train(request)
    return decision, runs.share


def rollshape_rule(table: Table, scores: Floats, _: np.random.Generator, budget: float) -> Choice:
    """`rollshape advise`, by the code that it runs."""
    decision, share = race_on(table, scores, budget)
    best, estimates = decision.best, decision.rounds[-1].estimates
    assert best is not None
    return Choice(best, frozenset(i for i in range(len(table.shapes)) if not estimates.is_worse(i, best)), share)


def simpler_rule(**constants: Any) -> Method:
    """`rollshape advise` with other constants of its rule or its model, such as PRIOR_WEIGHT=0."""

    def choose(table: Table, scores: Floats, rng: np.random.Generator, budget: float) -> Choice:
        with ExitStack() as stack:
            for name, value in constants.items():
                stack.enter_context(patch.object(rule if hasattr(rule, name) else score_model, name, value))
            return rollshape_rule(table, scores, rng, budget)

    return choose


def successive_halving(shares: tuple[float, ...], seeds: int) -> Method:
    """Plain successive halving: the same seeds at every rung, the last score, equal cost per rung."""

    def choose(_: Table, scores: Floats, __: np.random.Generator, budget: float) -> Choice:
        left, done = budget * scores.size, 0
        field = np.arange(scores.shape[0])
        rungs = sorted({math.ceil(share * scores.shape[2] - 1e-9) for share in shares})
        for number, point in enumerate(rungs):
            cost = (point - done) * seeds
            if number:
                field = field[: max(2, min(len(field), int(left / (len(rungs) - number) / cost)))]
            if len(field) * cost > left + 1e-9:
                break
            left, done = left - len(field) * cost, point
            field = field[np.argsort(-scores[field, :seeds, point - 1].mean(axis=1), kind="stable")]
        return Choice(int(field[0]), frozenset({int(field[0])}), budget - left / scores.size)

    return choose


def hyperband(_: Table, scores: Floats, rng: np.random.Generator, budget: float) -> Choice:
    """Brackets of successive halving on random subsets: from many shapes for a short time to few for a long time."""
    total, spent = budget * scores.size, 0.0
    best, best_score = int(rng.integers(scores.shape[0])), (-1, -np.inf)
    rungs = sorted({math.ceil(share * scores.shape[2] - 1e-9) for share in (0.05, 0.1, 0.2, 0.4, 0.8)})
    while True:
        for first in range(len(rungs) - 1):
            bracket = rungs[first:]
            seed, count = int(rng.integers(SEEDS)), min(scores.shape[0], 2 ** (len(bracket) - 1))
            field, done = rng.permutation(scores.shape[0])[:count], 0
            for point in bracket:
                cost = len(field) * (point - done)
                if spent + cost > total + 1e-9:
                    return Choice(best, frozenset({best}), spent / scores.size)
                spent, done = spent + cost, point
                values = scores[field, seed, point - 1]
                if (point, float(values.max())) > best_score:
                    best, best_score = int(field[values.argmax()]), (point, float(values.max()))
                field = field[np.argsort(-values, kind="stable")][: max(1, len(field) // 2)]


def sequential_elimination(_: Table, scores: Floats, __: np.random.Generator, budget: float) -> Choice:
    """Paired sequential elimination: all shapes and seeds go on together; who is significantly worse is dropped."""
    total = budget * scores.size
    field, spent, leader = np.arange(scores.shape[0]), 0.0, 0
    for point in range(1, scores.shape[2] + 1):
        if len(field) * SEEDS + spent > total + 1e-9:
            break
        spent += len(field) * SEEDS
        table = scores[field, :, point - 1]
        means = table.mean(axis=1)
        leader = int(field[means.argmax()])
        difference = table[means.argmax()] - table
        error = difference.std(axis=1, ddof=1) / math.sqrt(SEEDS)
        keep = (difference.mean(axis=1) <= 2.92 * error) | (field == leader)  # one-sided 95 %, 2 degrees of freedom
        field = field[keep]
        if len(field) == 1:
            break
    return Choice(leader, frozenset(map(int, field)), spent / scores.size)


def whole_study(seeds: int) -> Method:
    """Every shape to the end: what a full study with this many seeds would choose, whatever the budget of the race."""

    def choose(_: Table, scores: Floats, __: np.random.Generator, ___: float) -> Choice:
        best = int(scores[:, :seeds, -1].mean(axis=1).argmax())
        return Choice(best, frozenset({best}), seeds / SEEDS)

    return choose


def random_choice(table: Table, _: Floats, rng: np.random.Generator, __: float) -> Choice:
    """Any of the candidates, without training."""
    return _free(int(rng.integers(len(table.shapes))))


def library_default(num_envs: int, num_steps: int) -> Method:
    """The candidate that is nearest to a library's default, without training."""

    def choose(table: Table, _: Floats, __: np.random.Generator, ___: float) -> Choice:
        place = np.array([math.log2(num_envs), math.log2(num_steps)])
        return _free(int(((np.array(table.coordinates) - place) ** 2).sum(axis=1).argmin()))

    return choose


def _free(shape: int) -> Choice:
    return Choice(shape, frozenset({shape}), 0.0)
