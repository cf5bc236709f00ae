"""From a stream to gradient statistics, a few environments at a time: memory is linear in N·T·width.

A view selects the gradients of one network: A·∇log π for the policy, 2(V − R)·∇V for the critic. Its scores are
computed once per chunk of environments and serve every estimator, because the gradient is linear in A and in V − R.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax import Array

from rollshape.agents.policy import Policy
from rollshape.envs.host import Values
from rollshape.geometry.divisors import divisors
from rollshape.gradients.gram import Trace, Traces, gram_blocks, reshape_traces, rows, scale_traces, step_norms
from rollshape.gradients.intervals import Floats
from rollshape.gradients.scores import policy_scores, value_scores
from rollshape.gradients.variance import lag_products
from rollshape.gradients.windows import Weights, Windows, stack_weights, sum_windows, summarize_windows
from rollshape.probes.collect import Stream, estimate_advantages
from rollshape.probes.subject import Estimator

CHUNK_BYTES = 1 << 22  # of traces and what is computed from them, held at once: they stay in the cache
ROWS_BYTES = 1 << 29  # of mean gradients, one per environment, held at once
BLOCK_STEPS = 64  # of an environment, whose mean gradient is computed at once

Scores = Callable[[Any, Any], tuple[Trace, ...]]


class View:
    """The scores of one network: a function of observations [n, T, …] and actions."""

    def __init__(self, scores: Scores) -> None:
        self.scores = scores

    def step_floats(self, stream: Stream) -> int:
        """Return how many numbers the scores of one step take."""
        return sum(trace.inputs.size + trace.errors.size for trace in self._one_step(stream))

    def num_parameters(self, stream: Stream) -> int:
        return sum(trace.size for trace in self._one_step(stream))

    def _one_step(self, stream: Stream) -> tuple[Trace, ...]:
        """Return the shapes of the scores of one step."""
        step = (np.asarray(x)[:1, :1] for x in (stream.observation, stream.action))
        shapes: tuple[Trace, ...] = eqx.filter_eval_shape(self.scores, *step)
        return shapes


def policy_view(policy: Policy) -> View:
    return View(partial(_policy_scores, policy))


def critic_view(policy: Policy) -> View:
    return View(partial(_value_scores, policy))


@eqx.filter_jit
def _policy_scores(policy: Policy, observation: Array, action: Array) -> tuple[Trace, ...]:
    return policy_scores(policy.network, policy.distribution, observation, action)


@eqx.filter_jit
def _value_scores(policy: Policy, observation: Array, _: Array) -> tuple[Trace, ...]:
    return value_scores(policy.network, observation)


def policy_weights(estimator: Estimator, stream: Stream, lengths: Sequence[int]) -> list[Weights]:
    """Return the advantages at every T, without window edges at the same λ, and without window edges at λ = 1."""
    return _weights(lengths, lambda *options: estimate_advantages(estimator, stream, *options)[0])


def critic_weights(estimator: Estimator, stream: Stream, lengths: Sequence[int]) -> list[Weights]:
    """Return 2(V − R) with the value targets R of the same three kinds."""
    values = np.asarray(stream.value)

    def error(*options: Any) -> Values:
        targets = estimate_advantages(estimator, stream, *options)[1]
        return np.asarray(2 * (values[:, : targets.shape[1]] - targets))

    return _weights(lengths, error)


def _weights(lengths: Sequence[int], weight: Callable[..., Values]) -> list[Weights]:
    """Return what `weight` gives for (T, λ), at every T beside the same untruncated and reference weights."""
    long, reference = weight(), weight(None, 1.0)
    weights = []
    for length in lengths:
        windowed = weight(length)
        size = windowed.shape[1]
        weights.append(Weights(length, windowed, long[:, :size], reference[:, :size]))
    return weights


def measure_windows(view: View, stream: Stream, weights: Sequence[Weights]) -> list[Windows]:
    """Return the statistics of windows of every T, computing as many T at once as have room for their rows."""
    envs, steps = stream.action.shape[:2]
    at_once = max(1, ROWS_BYTES // (4 * envs * view.num_parameters(stream)) - 2)
    windows: list[Windows] = []
    for first in range(0, len(weights), at_once):
        group = weights[first : first + at_once]
        lengths = tuple(w.num_steps for w in group)
        stack = stack_weights(group, steps)
        parts = [sum_windows(scores, lengths, part) for scores, part in chunked_scores(view, stream, stack)]
        windows += summarize_windows(group, *(np.concatenate(part) for part in zip(*parts, strict=True)))
    return windows


def measure_lags(view: View, stream: Stream, weights: Weights) -> Floats:
    """Return ⟨g_t, g_{t+k}⟩ within windows of T steps, means over every environment's windows, [N, T]."""
    extra = 8 * weights.num_steps  # Gram blocks and their diagonals
    parts = chunked_scores(view, stream, weights.windowed, extra=extra)
    lags = [_lags(scores, part, weights.num_steps) for scores, part in parts]
    return np.concatenate(lags).astype(np.float64)


def measure_step_norms(view: View, stream: Stream, weights: Weights) -> Floats:
    """Return the mean |g_t|² of every environment, [N]."""
    norms = [_step_norms(scores, part) for scores, part in chunked_scores(view, stream, weights.windowed)]
    return np.concatenate(norms).astype(np.float64)


def measure_rows(view: View, stream: Stream, weights: Values) -> Values:
    """Return the mean gradient of every environment's steps, [N, P].

    Many steps are the mean of blocks of 64: one program serves all lengths.
    """
    size = weights.shape[-1]
    if size > BLOCK_STEPS and size % BLOCK_STEPS == 0:

        def split(x: Any) -> Any:
            return np.asarray(x)[:, :size].reshape(-1, BLOCK_STEPS, *x.shape[2:])

        blocks = stream._replace(observation=split(stream.observation), action=split(stream.action))
        means: Values = (
            measure_rows(view, blocks, split(weights)).reshape(len(weights), size // BLOCK_STEPS, -1).mean(1)
        )
        return means
    return np.concatenate([_rows(scores, part) for scores, part in chunked_scores(view, stream, weights)])


def chunked_scores(view: View, stream: Stream, *weights: Values, extra: int = 0) -> Iterator[tuple[Any, ...]]:
    """Yield (scores, weights …) of one chunk of environments after the other, for the S steps of weights [N, …, S].

    Slices are taken in NumPy: every JAX slice compiles a program.
    """
    observation, action = np.asarray(stream.observation), np.asarray(stream.action)
    size = weights[0].shape[-1]
    for part in chunks(view, stream, extra):
        yield view.scores(observation[part, :size], action[part, :size]), *(w[part] for w in weights)


def chunks(view: View, stream: Stream, extra: int = 0) -> list[slice]:
    """Return slices of environments, all of one size: a divisor of N."""
    envs, steps = stream.action.shape[:2]
    limit = max(1, CHUNK_BYTES // (4 * steps * (2 * view.step_floats(stream) + extra)))
    size = max(d for d in divisors(envs) if d <= limit)
    return [slice(first, first + size) for first in range(0, envs, size)]


@jax.jit
def _rows(scores: Traces, weights: Array) -> Array:
    return rows(scale_traces(scores, weights))


@jax.jit
def _step_norms(scores: Traces, weights: Array) -> Array:
    return step_norms(scale_traces(scores, weights)).mean(1)


@partial(jax.jit, static_argnums=2)
def _lags(scores: Traces, weights: Array, num_steps: int) -> Array:
    """Return the lag products of every environment, [n, T]."""
    envs, steps = weights.shape
    windows = reshape_traces(scale_traces(scores, weights), 2, (envs * (steps // num_steps), num_steps))
    return lag_products(gram_blocks(windows)).reshape(envs, -1, num_steps).mean(1)
