"""Independent batches of one shape, each from environments of its own: cosines, minibatches, and the steps' picture."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rollshape.envs.host import Values
from rollshape.gradients.cosine import cosines, pairwise_cosine, predicted_cosines, reference_cosine
from rollshape.gradients.gram import gram, reshaped, scaled
from rollshape.gradients.intervals import Estimate, Floats, Z, squared_norm
from rollshape.gradients.minibatch import MinibatchPoint, minibatch_point, shuffled_minibatches
from rollshape.gradients.variance import Components, Variance
from rollshape.gradients.windows import References
from rollshape.probes.collect import Source, Stream, estimates
from rollshape.probes.measure import View, measure_rows
from rollshape.probes.picture import Picture

SHUFFLED, MINIBATCHES = 4, 16  # batches that are shuffled, and minibatches of each that are measured
PICTURES, SHAPES = 5, ((4, 32), (32, 4))  # seed 001's picture: batch 0 against batches 0…4 at two shapes of equal size


@dataclass(frozen=True)
class Batches:
    """Gradients [K, P] of K batches of N×T, and the steps of the first few, [k, N, T, …]."""

    gradients: Floats
    observation: Values
    action: Values
    advantage: Values


@dataclass(frozen=True, slots=True)
class Cosines:
    """Agreement of batches with each other, and with the reference where that is known well enough."""

    pairwise: Estimate
    to_reference: Estimate | None
    predicted_pairwise: float
    predicted_to_mean: float  # to the shape's own mean gradient, bias and all
    reason: str | None = None


def collect_batches(
    source: Source, view: View, num_envs: int, num_steps: int, count: int, key: Array,
    told: Callable[[int, int], None],
) -> Batches:  # fmt: skip
    """K batches of N×T; only their gradients are kept, and the steps of those that are shuffled."""
    gradients: Floats | None = None
    kept, wanted = [], min(count, SHUFFLED) * num_envs
    for first, stream in _draws(source, num_steps, count * num_envs, key):
        advantage = estimates(source.spec, stream, num_steps)[0]
        found = measure_rows(view, stream, advantage)
        if gradients is None:
            gradients = np.zeros((count, found.shape[1]))
        here = first + np.arange(source.num_envs)
        np.add.at(gradients, here[here < count * num_envs] // num_envs, found[here < count * num_envs])
        if first < wanted:
            kept.append((np.asarray(stream.observation), np.asarray(stream.action), advantage))
        told(min(first + source.num_envs, count * num_envs) // num_envs, count)
    assert gradients is not None
    steps = (np.concatenate(parts)[:wanted] for parts in zip(*kept, strict=True))
    return Batches(gradients / num_envs, *(x.reshape(-1, num_envs, *x.shape[1:]) for x in steps))


def _draws(source: Source, num_steps: int, windows: int, key: Array) -> Iterator[tuple[int, Stream]]:
    """(number of the first window, a draw) until there are enough windows."""
    for i in range(math.ceil(windows / source.num_envs)):
        yield i * source.num_envs, source.draw(num_steps, 0, jax.random.fold_in(key, i))


def measured_cosines(batches: Batches, found: Variance, references: References) -> Cosines:
    """Pairwise, and to the reference; its length is the unbiased one, lest its own noise counts as a turn."""
    products = batches.gradients @ batches.gradients.T
    pairwise, to_mean = predicted_cosines(found.squared_norm.value, found.total.value)
    if not references.has_signal:
        reason = "no signal: the reference gradient cannot be told from zero"
        return Cosines(pairwise_cosine(products), None, pairwise, to_mean, reason)
    length = squared_norm(references.gram)
    agreement = reference_cosine(batches.gradients @ references.gradient, np.diag(products), length)
    return Cosines(pairwise_cosine(products), agreement, pairwise, to_mean)


def minibatch_table(
    view: View, batches: Batches, found: Variance, minibatch_size: int, rng: np.random.Generator
) -> list[MinibatchPoint]:
    """Sizes 4, 16, 64, … and the run's own: each measured on shuffles of some batches, with intervals over batches."""
    count, envs, steps = batches.advantage.shape
    size = envs * steps
    sizes = sorted({minibatch_size, *(4**i for i in range(1, 12) if 4**i <= size)})
    known = components(found)
    flat = [x.reshape(count, size, *x.shape[3:]) for x in (batches.observation, batches.action, batches.advantage)]
    table = []
    for each in sizes:
        points = []
        for k in range(count):
            chosen = shuffled_minibatches(rng, size, each, MINIBATCHES)
            observation, action, advantage = (x[k][chosen] for x in flat)
            blank: Any = None
            stream = Stream(observation, action, *[blank] * 6)
            rows = measure_rows(view, stream, advantage)
            points.append(minibatch_point(each, size, rows, batches.gradients[k], known))
        table.append(_over_batches(points))
    return table


def components(found: Variance) -> Components:
    """The point values."""
    names = (name for name in Components._fields if name != "autocorrelation")
    values = {name: jnp.asarray(getattr(found, name).value) for name in names}
    return Components(**values, autocorrelation=jnp.asarray([each.value for each in found.autocorrelation]))


def _over_batches(points: list[MinibatchPoint]) -> MinibatchPoint:
    def mean(values: list[float]) -> Estimate:
        half = Z * float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0
        return Estimate(float(np.mean(values)), float(np.mean(values)) - half, float(np.mean(values)) + half)

    first = points[0]
    return MinibatchPoint(
        first.size,
        first.predicted_variance,
        mean([point.variance.value for point in points]),
        first.predicted_cosine,
        mean([point.cosine.value for point in points]),
    )


def pictures(source: Source, view: View, key: Array) -> list[Picture]:
    """The per-step cosines of batch 0 with batches 0…4, at both shapes, from the same environments."""
    longest = max(steps for _, steps in SHAPES)
    streams = [stream for _, stream in _draws(source, longest, PICTURES * max(envs for envs, _ in SHAPES), key)]
    drawn = Stream(*(jnp.concatenate(parts) for parts in zip(*streams, strict=True)))
    observation, action = np.asarray(drawn.observation), np.asarray(drawn.action)
    found = []
    for envs, steps in SHAPES:
        windows = PICTURES * envs
        advantage = estimates(source.spec, drawn, steps)[0][:windows, :steps]
        traces = scaled(view.traces(observation[:windows, :steps], action[:windows, :steps]), jnp.asarray(advantage))
        cut = [
            tuple(jax.tree.map(lambda x, k=k: x[k], trace) for trace in reshaped(traces, 2, (PICTURES, envs * steps)))
            for k in range(PICTURES)
        ]
        squares = [np.diag(gram(batch, batch)) for batch in cut]
        cosine = [cosines(gram(cut[0], batch), squares[0], own) for batch, own in zip(cut, squares, strict=True)]
        found.append(Picture(envs, steps, np.stack(cosine)))
    return found
