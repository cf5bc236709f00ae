"""Independent batches of one shape, each from its own environments."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import jax
import numpy as np
from jax import Array

from rollshape.envs.host import Values
from rollshape.gradients.intervals import Floats
from rollshape.probes.collect import Source, Stream, estimate_advantages
from rollshape.probes.measure import View, measure_rows
from rollshape.probes.subject import Estimator

SAVED_BATCHES = 4  # whose steps are kept, to be shuffled into minibatches


@dataclass(frozen=True)
class Batches:
    """Gradients [K, P] of K batches of N×T, and the steps of the first few, [k, N, T, …]."""

    gradients: Floats
    observation: Values
    action: Values
    advantage: Values


def collect_batches(
    source: Source, estimator: Estimator, view: View, num_envs: int, num_steps: int, count: int, key: Array,
    on_progress: Callable[[int, int], None] = lambda *_: None,
) -> Batches:  # fmt: skip
    """Collect K batches of N×T."""
    gradients: Floats | None = None
    steps, num_windows, num_saved = [], count * num_envs, min(count, SAVED_BATCHES) * num_envs
    for first, stream in draw_windows(source, num_steps, num_windows, key):
        advantage = estimate_advantages(estimator, stream, num_steps)[0]
        rows = measure_rows(view, stream, advantage)
        if gradients is None:
            gradients = np.zeros((count, rows.shape[1]))
        rows = rows[: num_windows - first]
        batches, starts = np.unique((first + np.arange(len(rows))) // num_envs, return_index=True)
        gradients[batches] += np.add.reduceat(rows, starts, dtype=np.float64)
        if first < num_saved:
            steps.append((np.asarray(stream.observation), np.asarray(stream.action), advantage))
        on_progress(min(first + source.num_envs, num_windows) // num_envs, count)
    assert gradients is not None
    columns = (np.concatenate(parts)[:num_saved] for parts in zip(*steps, strict=True))
    return Batches(gradients / num_envs, *(x.reshape(-1, num_envs, *x.shape[1:]) for x in columns))


def draw_windows(source: Source, num_steps: int, num_windows: int, key: Array) -> Iterator[tuple[int, Stream]]:
    """Yield (number of the first window, stream) until there are enough windows, one per environment and draw."""
    for i in range(math.ceil(num_windows / source.num_envs)):
        yield i * source.num_envs, source.draw(num_steps, 0, jax.random.fold_in(key, i))
