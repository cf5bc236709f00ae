"""From a stream to statistics of gradients, a few environments at a time: memory is linear in N·T·width.

A view is one network's side of it: the policy's steps A·∇log π, or the critic's 2(V − R)·∇V. Its scores are traced once
for a chunk of environments and serve every estimator, for the gradient is linear in A and in V − R.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rollshape.agents.distributions import Policy
from rollshape.agents.networks import ActorCritic
from rollshape.geometry.divisors import divisors
from rollshape.gradients.gram import Trace, Traces, gram_blocks, reshaped, rows, scaled, window_norms
from rollshape.gradients.intervals import Floats, norm_estimate
from rollshape.gradients.surface import Windows
from rollshape.gradients.traces import policy_traces, value_traces
from rollshape.gradients.variance import lag_products
from rollshape.probes.collect import Stream, estimates
from rollshape.training.spec import Spec

CHUNK_BYTES = 1 << 28  # traces that are held at once, with what is made of them

Scores = Callable[[ActorCritic, Array, Array], tuple[Trace, ...]]


class View:
    """One network of a model, as scores of steps."""

    def __init__(self, model: ActorCritic, scores: Scores) -> None:
        self.model = model
        self._scores: Any = jax.jit(scores)

    def traces(self, observation: Array, action: Array) -> Traces:
        """Scores of steps [n, T, …]."""
        found: Traces = self._scores(self.model, observation, action)
        return found

    def step_floats(self, stream: Stream) -> int:
        """Numbers that the traces of one step take."""
        one = (stream.observation[:1, :1], stream.action[:1, :1])
        shapes = jax.eval_shape(self._scores, self.model, *one)
        return sum(trace.inputs.size + trace.errors.size for trace in shapes)


def policy_view(model: ActorCritic, policy: Policy) -> View:
    return View(model, lambda model, observation, action: policy_traces(model, policy, observation, action))


def critic_view(model: ActorCritic) -> View:
    return View(model, lambda model, observation, _: value_traces(model, observation))


@dataclass(frozen=True)
class Weights:
    """What the scores of steps are multiplied by, [N, S]: at windows of T, at long T, and by the reference.

    S ≤ T₀ steps: as many as whole windows of T take.
    """

    num_steps: int
    here: Array
    long: Array
    reference: Array


def advantages(spec: Spec, stream: Stream, num_steps: int) -> Weights:
    """The policy's weights: advantages at T; of the same λ without an edge; and of λ = 1 without an edge."""
    return _weights(num_steps, *(each[0] for each in _three(spec, stream, num_steps)))


def errors(spec: Spec, stream: Stream, num_steps: int) -> Weights:
    """The critic's weights: 2(V − R) with the targets R of each."""
    observed = stream.value[:, : stream.action.shape[1]]
    found = [2 * (observed[:, : each[1].shape[1]] - each[1]) for each in _three(spec, stream, num_steps)]
    return _weights(num_steps, *found)


def _three(spec: Spec, stream: Stream, num_steps: int) -> tuple[tuple[Array, Array], ...]:
    return estimates(spec, stream, num_steps), estimates(spec, stream), estimates(spec, stream, lam=1.0)


def _weights(num_steps: int, here: Array, long: Array, reference: Array) -> Weights:
    size = here.shape[1]
    return Weights(num_steps, here, long[:, :size], reference[:, :size])


@dataclass(frozen=True)
class Own:
    """What is said of the run's own T, and of the references: per environment, and Gram matrices [N, N]."""

    lags: Floats  # [N, T] lag products, means over windows
    windows: Windows
    estimator_gram: Floats  # of rows at long T minus the reference's
    reference_gram: Floats
    reference: Floats  # [P] the reference gradient

    @property
    def step_norms(self) -> Floats:
        return np.asarray(self.lags[:, 0])

    @property
    def has_signal(self) -> bool:
        """Whether the reference gradient can be told from zero."""
        return norm_estimate(self.reference_gram).low > 0


def chunks(view: View, stream: Stream, extra: int = 0) -> list[slice]:
    """Environments that are traced together: a divisor of N, so that all chunks are of one size."""
    envs, steps = stream.action.shape[:2]
    fit = max(1, CHUNK_BYTES // (4 * steps * (2 * view.step_floats(stream) + extra)))
    size = max(d for d in divisors(envs) if d <= fit)
    return [slice(first, first + size) for first in range(0, envs, size)]


def measure_windows(view: View, stream: Stream, weights: Weights) -> Windows:
    """What the stream says of windows of T."""
    size, parts = weights.here.shape[1], []
    for part in chunks(view, stream):
        traces = view.traces(stream.observation[part, :size], stream.action[part, :size])
        here, long, reference = weights.here[part], weights.long[part], weights.reference[part]
        differences = (here, here - reference, here - long)
        parts.append((_norms(traces, here, weights.num_steps), *(_rows(traces, w) for w in differences)))
    norms, *found = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Windows(weights.num_steps, norms.astype(np.float64), *(products(x) for x in found))


def measure_own(view: View, stream: Stream, own: Weights, windows: Windows) -> Own:
    """Lags within windows of the run's own T, and the references over the whole stream."""
    parts = []
    size = own.here.shape[1]
    for part in chunks(view, stream, extra=8 * own.num_steps):  # Gram blocks and their diagonals
        traces = view.traces(stream.observation[part, :size], stream.action[part, :size])
        long, reference = own.long[part], own.reference[part]
        parts.append(
            (_lags(traces, own.here[part], own.num_steps), _rows(traces, long - reference), _rows(traces, reference))
        )
    lags, estimator, true = (np.concatenate(part) for part in zip(*parts, strict=True))
    gradient = np.asarray(true.mean(0, dtype=np.float64))
    return Own(lags.astype(np.float64), windows, products(estimator), products(true), gradient)


def measure_step_norms(view: View, stream: Stream, weights: Weights) -> Floats:
    """Mean |g_t|² of each environment, [N]: windows of one step."""
    size = weights.here.shape[1]
    found = [
        _norms(view.traces(stream.observation[part, :size], stream.action[part, :size]), weights.here[part], 1)
        for part in chunks(view, stream)
    ]
    return np.concatenate(found).astype(np.float64)


def measure_rows(view: View, stream: Stream, weights: Array) -> Floats:
    """Mean gradient of each environment's steps, [N, P]."""
    size = weights.shape[1]
    return np.concatenate(
        [
            np.asarray(_rows(view.traces(stream.observation[part, :size], stream.action[part, :size]), weights[part]))
            for part in chunks(view, stream)
        ]
    )


def products(found: Any) -> Floats:
    """Gram matrix of rows [N, P], without a copy of them in double precision."""
    return np.asarray(jnp.matmul(found, found.T, precision=jax.lax.Precision.HIGHEST), np.float64)


@jax.jit
def _rows(traces: Traces, weights: Array) -> Array:
    return rows(scaled(traces, weights))


@partial(jax.jit, static_argnums=2)
def _norms(traces: Traces, weights: Array, num_steps: int) -> Array:
    """Mean |window mean|² of each environment, [n]."""
    envs, steps = weights.shape
    cut = reshaped(scaled(traces, weights), 2, (envs * (steps // num_steps), num_steps))
    return window_norms(cut).reshape(envs, -1).mean(1)


@partial(jax.jit, static_argnums=2)
def _lags(traces: Traces, weights: Array, num_steps: int) -> Array:
    """Lag products of each environment, [n, T]."""
    envs, steps = weights.shape
    cut = reshaped(scaled(traces, weights), 2, (envs * (steps // num_steps), num_steps))
    return lag_products(gram_blocks(cut)).reshape(envs, -1, num_steps).mean(1)
