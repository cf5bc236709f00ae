"""What adaptive runs are compared with: fixed shapes of the advise benchmark, from their stored learning curves."""

from __future__ import annotations

import zlib
from collections import Counter
from dataclasses import dataclass

import numpy as np
from racing.replay import Floats, Table, read_tables, rollshape_rule
from racing.tasks import POINTS

from adapting.rules import FEWEST_ENVS, Shape, resize

REPLAYS, BUDGET = 200, 0.15


@dataclass(frozen=True)
class Baseline:
    """A task's fixed shapes: the best one and the one that `rollshape advise` chooses most often."""

    table: Table
    advised: int
    advised_share: float  # of the replays that choose it

    @property
    def best(self) -> int:
        return int(self.table.truth.argmax())

    @property
    def rise(self) -> float:
        """Best − untrained."""
        return float(self.table.truth.max()) - self.table.untrained

    def shape(self, index: int) -> Shape:
        return Shape(*self.table.shapes[index])

    def scores(self, index: int) -> Floats:
        """Return the final score of every seed of a shape."""
        scores: Floats = self.table.scores[index, :, -1]
        return scores

    @property
    def start(self) -> Shape:
        """The advised shape; where it has fewer than 8 environments, one of the same rollout size that has 8."""
        advised = self.shape(self.advised)
        return advised if advised.num_envs >= FEWEST_ENVS else resize(advised, advised.rollout_size)


def read_baseline(task: str) -> Baseline:
    """Replay races on a task's stored curves, each with three of its seeds."""
    table = next(table for table in read_tables() if table.name == task and table.points == POINTS)
    rng = np.random.default_rng(zlib.crc32(table.name.encode()))
    choices = Counter(rollshape_rule(table, table.resample(rng), rng, BUDGET).shape for _ in range(REPLAYS))
    advised, count = max(choices.items(), key=lambda item: (item[1], -item[0]))
    return Baseline(table, advised, count / REPLAYS)
