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
from rollshape.quick_jit import quick_jit

CHUNK_BYTES = 1 << 22  # of traces and what is computed from them, held at once: they stay in the cache
ROWS_BYTES = 1 << 29  # of mean gradients, one per environment, held at once
BLOCK_STEPS, MOST_BLOCKS = 64, 16  # of an environment, whose mean gradient is computed at once; blocks per call

Scores = Callable[[Policy, Any, Any], tuple[Trace, ...]]


class View:
    """The scores of one network: a function of the policy, observations [n, T, …] and actions."""

    def __init__(self, scores: Scores, policy: Policy) -> None:
        self._scores, self._policy = scores, policy
        self._shapes: tuple[Trace, ...] | None = None  # of the scores of one step; tracing them takes 20 ms

    def reduce(self, function: Callable[..., Any], observation: Any, action: Any, *args: Any) -> Any:
        """Return what a function computes of the scores and other arguments, as one program.

        Arguments that are not arrays are constants of the program.
        """
        return _reduce(self._scores, function, self._policy, observation, action, args)

    def step_floats(self, stream: Stream) -> int:
        """Return how many numbers the scores of one step take."""
        return sum(trace.inputs.size + trace.errors.size for trace in self._one_step(stream))

    def num_parameters(self, stream: Stream) -> int:
        return sum(trace.size for trace in self._one_step(stream))

    def _one_step(self, stream: Stream) -> tuple[Trace, ...]:
        """Return the shapes of the scores of one step, which are the same for all streams of the policy."""
        if self._shapes is None:
            step = (np.asarray(x)[:1, :1] for x in (stream.observation, stream.action))
            self._shapes = eqx.filter_eval_shape(self._scores, self._policy, *step)
        return self._shapes


def policy_view(policy: Policy) -> View:
    return View(_policy_scores, policy)


def critic_view(policy: Policy) -> View:
    return View(_value_scores, policy)


def _policy_scores(policy: Policy, observation: Array, action: Array) -> tuple[Trace, ...]:
    return policy_scores(policy.network, policy.distribution, observation, action)


def _value_scores(policy: Policy, observation: Array, _: Array) -> tuple[Trace, ...]:
    return value_scores(policy.network, observation)


@partial(quick_jit, jit=eqx.filter_jit, is_long=True)
def _reduce(
    scores: Scores, function: Callable[..., Any], policy: Policy, observation: Array, action: Array, args: Any
) -> Any:
    return function(scores(policy, observation, action), *args)


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
        parts = list(reduce_chunks(view, sum_windows, stream, stack, lengths))
        windows += summarize_windows(group, *(np.concatenate(part) for part in zip(*parts, strict=True)))
    return windows


def measure_lags(view: View, stream: Stream, weights: Weights) -> Floats:
    """Return ⟨g_t, g_{t+k}⟩ within windows of T steps, means over every environment's windows, [N, T]."""
    extra = 8 * weights.num_steps  # Gram blocks and their diagonals
    lags = list(reduce_chunks(view, _lags, stream, weights.windowed, weights.num_steps, extra=extra))
    return np.concatenate(lags).astype(np.float64)


def measure_step_norms(view: View, stream: Stream, weights: Weights) -> Floats:
    """Return the mean |g_t|² of every environment, [N]."""
    return np.concatenate(list(reduce_chunks(view, _step_norms, stream, weights.windowed))).astype(np.float64)


def measure_rows(view: View, stream: Stream, weights: Values) -> Values:
    """Return the mean gradient of every environment's steps, [N, P].

    It is computed from sums over blocks of 64 steps, in groups of blocks: one program serves all lengths. Blocks and
    groups are filled with steps of weight 0.
    """
    envs, size = weights.shape
    num_blocks = -(-size // BLOCK_STEPS)
    at_once = max(1, min(MOST_BLOCKS, CHUNK_BYTES // (8 * BLOCK_STEPS * view.step_floats(stream))))

    def split(x: Any, mode: Any) -> Any:
        x = _pad(np.asarray(x)[:, :size], 1, num_blocks * BLOCK_STEPS, mode)
        return x.reshape(envs * num_blocks, BLOCK_STEPS, *x.shape[2:])

    modes = ("edge", "edge", "constant")
    blocks = [split(x, mode) for x, mode in zip((stream.observation, stream.action, weights), modes, strict=True)]
    sums = []
    for first in range(0, envs * num_blocks, at_once):
        group = (_pad(x[first : first + at_once], 0, at_once, mode) for x, mode in zip(blocks, modes, strict=True))
        sums.append(np.asarray(view.reduce(_sums, *group)))
    means: Values = np.concatenate(sums)[: envs * num_blocks].reshape(envs, num_blocks, -1).sum(1) / np.float32(size)
    return means


def _pad(x: Values, axis: int, size: int, mode: Any) -> Values:
    """Return x with `size` entries along an axis; x itself if it has as many, because observations may be large."""
    if x.shape[axis] == size:
        return x
    return np.pad(x, [(0, size - n if i == axis else 0) for i, n in enumerate(x.shape)], mode=mode)


def reduce_chunks(
    view: View, function: Callable[..., Any], stream: Stream, weights: Values, *constants: Any, extra: int = 0
) -> Iterator[Any]:
    """Yield what a function computes of the scores and weights [N, …, S] of one chunk of environments after the other.

    Slices are taken in NumPy: every JAX slice compiles a program.
    """
    observation, action = np.asarray(stream.observation), np.asarray(stream.action)
    size = weights.shape[-1]
    for part in chunks(view, stream, extra):
        result = view.reduce(function, observation[part, :size], action[part, :size], weights[part], *constants)
        yield jax.tree.map(np.asarray, result)


def chunks(view: View, stream: Stream, extra: int = 0) -> list[slice]:
    """Return slices of environments, all of one size: a divisor of N."""
    envs, steps = stream.action.shape[:2]
    limit = max(1, CHUNK_BYTES // (4 * steps * (2 * view.step_floats(stream) + extra)))
    size = max(d for d in divisors(envs) if d <= limit)
    return [slice(first, first + size) for first in range(0, envs, size)]


def _sums(scores: Traces, weights: Array) -> Array:
    return rows(scale_traces(scores, weights)) * weights.shape[1]


def _step_norms(scores: Traces, weights: Array) -> Array:
    return step_norms(scale_traces(scores, weights)).mean(1)


def _lags(scores: Traces, weights: Array, num_steps: int) -> Array:
    """Return the lag products of every environment, [n, T]."""
    envs, steps = weights.shape
    windows = reshape_traces(scale_traces(scores, weights), 2, (envs * (steps // num_steps), num_steps))
    lags: Array = lag_products(gram_blocks(windows)).reshape(envs, -1, num_steps).mean(1)
    return lags
