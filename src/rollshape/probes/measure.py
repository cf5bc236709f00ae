"""From a stream to statistics of gradients, a few environments at a time: memory is linear in N·T·width.

A view is one network's side of it: the policy's steps A·∇log π, or the critic's 2(V − R)·∇V. Its scores are traced once
for a chunk of environments and serve every estimator, for the gradient is linear in A and in V − R.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import Array

from rollshape.agents.distributions import ActionDistribution
from rollshape.agents.networks import ActorCritic
from rollshape.envs.host import Values
from rollshape.geometry.divisors import divisors
from rollshape.gradients.gram import Trace, Traces, gram_blocks, reshaped, rows, scaled, step_norms
from rollshape.gradients.intervals import Floats
from rollshape.gradients.traces import policy_traces, value_traces
from rollshape.gradients.variance import lag_products
from rollshape.gradients.windows import Weights, Windows, cut, gathered, stacked
from rollshape.probes.collect import Stream, estimates
from rollshape.training.spec import Spec

CHUNK_BYTES = 1 << 22  # traces that are held at once, with what is made of them: they stay in the cache
ROWS_BYTES = 1 << 29  # of mean gradients, an environment each, that are held at once

Scores = Callable[[Any, Any], tuple[Trace, ...]]


class View:
    """One network of a model, as scores of steps."""

    def __init__(self, scores: Scores) -> None:
        self.traces = scores  # of observations [n, T, …] and actions

    def step_floats(self, stream: Stream) -> int:
        """Numbers that the traces of one step take."""
        return sum(trace.inputs.size + trace.errors.size for trace in self._one(stream))

    def num_parameters(self, stream: Stream) -> int:
        return sum(trace.size for trace in self._one(stream))

    def _one(self, stream: Stream) -> tuple[Trace, ...]:
        """The shapes of one step's traces."""
        one = (np.asarray(x)[:1, :1] for x in (stream.observation, stream.action))
        shapes: tuple[Trace, ...] = jax.eval_shape(self.traces, *one)
        return shapes


def policy_view(model: ActorCritic, policy: ActionDistribution) -> View:
    return View(partial(_policy_scores, policy, model))


def critic_view(model: ActorCritic) -> View:
    return View(partial(_value_scores, model))


@partial(jax.jit, static_argnums=0)
def _policy_scores(
    policy: ActionDistribution, model: ActorCritic, observation: Array, action: Array
) -> tuple[Trace, ...]:
    return policy_traces(model, policy, observation, action)


@jax.jit
def _value_scores(model: ActorCritic, observation: Array, _: Array) -> tuple[Trace, ...]:
    return value_traces(model, observation)


def advantages(spec: Spec, stream: Stream, lengths: Sequence[int]) -> list[Weights]:
    """The policy's weights: advantages at each T; of the same λ without an edge; and of λ = 1 without an edge."""
    return _weights(lengths, lambda *asked: estimates(spec, stream, *asked)[0])


def errors(spec: Spec, stream: Stream, lengths: Sequence[int]) -> list[Weights]:
    """The critic's weights: 2(V − R) with the targets R of each."""
    values = np.asarray(stream.value)

    def error(*asked: Any) -> Values:
        targets = estimates(spec, stream, *asked)[1]
        return np.asarray(2 * (values[:, : targets.shape[1]] - targets))

    return _weights(lengths, error)


def _weights(lengths: Sequence[int], of: Callable[..., Values]) -> list[Weights]:
    """What is `of` (T, λ), at each T beside the same long T and the same reference."""
    long, reference = of(), of(None, 1.0)
    found = []
    for length in lengths:
        here = of(length)
        size = here.shape[1]
        found.append(Weights(length, here, long[:, :size], reference[:, :size]))
    return found


def measure_windows(view: View, stream: Stream, weights: Sequence[Weights]) -> list[Windows]:
    """What the stream says of windows of every T: as many at once as have room for their rows."""
    envs, steps = stream.action.shape[:2]
    together = max(1, ROWS_BYTES // (4 * envs * view.num_parameters(stream)) - 2)
    found: list[Windows] = []
    for first in range(0, len(weights), together):
        some = weights[first : first + together]
        lengths = tuple(each.num_steps for each in some)
        parts = [cut(traces, lengths, part) for traces, part in traced(view, stream, stacked(some, steps))]
        found += gathered(some, *(np.concatenate(part) for part in zip(*parts, strict=True)))
    return found


def measure_lags(view: View, stream: Stream, weights: Weights) -> Floats:
    """Lag products within windows of T steps, means over each environment's, [N, T]; lag 0 is the mean |g_t|²."""
    extra = 8 * weights.num_steps  # Gram blocks and their diagonals
    parts = traced(view, stream, weights.here, extra=extra)
    found = [_lags(traces, here, weights.num_steps) for traces, here in parts]
    return np.concatenate(found).astype(np.float64)


def measure_step_norms(view: View, stream: Stream, weights: Weights) -> Floats:
    """Mean |g_t|² of each environment, [N]: windows of one step."""
    found = [_step_norms(traces, here) for traces, here in traced(view, stream, weights.here)]
    return np.concatenate(found).astype(np.float64)


def measure_rows(view: View, stream: Stream, weights: Values) -> Values:
    """Mean gradient of each environment's steps, [N, P]."""
    return np.concatenate([_rows(traces, here) for traces, here in traced(view, stream, weights)])


def traced(view: View, stream: Stream, *weights: Values, extra: int = 0) -> Iterator[tuple[Any, ...]]:
    """Traces of the first steps, as many as there are weights [N, …, S], and the weights, for one chunk of environments
    after the other. The slices are NumPy's: every slice of JAX's is a program of its own."""
    observation, action = np.asarray(stream.observation), np.asarray(stream.action)
    size = weights[0].shape[-1]
    for part in chunks(view, stream, extra):
        yield view.traces(observation[part, :size], action[part, :size]), *(each[part] for each in weights)


def chunks(view: View, stream: Stream, extra: int = 0) -> list[slice]:
    """Environments that are traced together: a divisor of N, so that all chunks are of one size."""
    envs, steps = stream.action.shape[:2]
    fit = max(1, CHUNK_BYTES // (4 * steps * (2 * view.step_floats(stream) + extra)))
    size = max(d for d in divisors(envs) if d <= fit)
    return [slice(first, first + size) for first in range(0, envs, size)]


@jax.jit
def _rows(traces: Traces, weights: Array) -> Array:
    return rows(scaled(traces, weights))


@jax.jit
def _step_norms(traces: Traces, weights: Array) -> Array:
    return step_norms(scaled(traces, weights)).mean(1)


@partial(jax.jit, static_argnums=2)
def _lags(traces: Traces, weights: Array, num_steps: int) -> Array:
    """Lag products of each environment, [n, T]."""
    envs, steps = weights.shape
    cut = reshaped(scaled(traces, weights), 2, (envs * (steps // num_steps), num_steps))
    return lag_products(gram_blocks(cut)).reshape(envs, -1, num_steps).mean(1)
