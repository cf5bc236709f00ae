"""One pass over the measured part of a rollout: products and sums of gradients, as NumPy arrays. Needs torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rollshape.gradients.clusters import Clusters
from rollshape.gradients.intervals import Floats
from rollshape.gradients.variance import lag_products
from rollshape.integrations.lab_part import MOST_FLOATS, Part, Subject
from rollshape.integrations.measurement import NotMeasurable
from rollshape.integrations.rollout import RecordedRollout
from rollshape.integrations.torch_scores import LayerTrace, ScoreTracer

CHUNK_SAMPLES = 4096  # evaluated at once
TOLERANCE = 2e-3


class GradientSums:
    """What one pass over the chosen environments gives, all in NumPy."""

    def __init__(self, rollout: RecordedRollout, subject: Subject, tracer: ScoreTracer, part: Part) -> None:
        device = next(subject.module.parameters()).device
        self.weights = {
            length: window_advantages(rollout, subject, part, length) for length in part.lengths
        }  # advantages [n, T] of windows of T'
        lags: list[Any] = []
        squares: list[Any] = []
        norms: dict[int, list[Any]] = {length: [] for length in part.lengths}
        rows: dict[int, list[Tensor]] = {length: [] for length in part.lengths}
        cluster_rows: list[Tensor] = []
        for envs in _chunks(part, tracer):
            traces = trace_steps(tracer, rollout, subject, part, envs, device)
            blocks = sum(trace.gram_blocks(len(envs)) for trace in traces)
            kept = {length: as_tensor(weights[envs], device) for length, weights in self.weights.items()}
            weighted = weigh(blocks, kept[part.steps])
            lags.append(lag_products(weighted.cpu().numpy()))
            squares.append(weighted.diagonal(dim1=1, dim2=2).cpu().numpy())
            for length, weight in kept.items():
                norms[length].append(_window_norms(weigh(blocks, weight), length).cpu().numpy())
                rows[length].append(torch.cat([t.sums(weight.reshape(-1), len(envs)) for t in traces], 1).cpu())
            if part.clusters == "episodes":
                cluster_rows.append(_segment_sums(traces, kept[part.steps], part, envs).cpu())
        self.lags = np.concatenate(lags).astype(np.float64)
        self.squares = np.concatenate(squares).astype(np.float64)  # |g|² of every step, [n, T]
        self.window_norms = {length: np.concatenate(x).astype(np.float64) for length, x in norms.items()}
        self.rows = {length: torch.cat(x).numpy() / np.float32(part.steps) for length, x in rows.items()}
        self.parameters = int(self.rows[part.steps].shape[1])
        sums = torch.cat(cluster_rows).numpy() if cluster_rows else self.rows[part.steps] * np.float32(part.steps)
        self.clusters = Clusters(
            np.asarray(sums @ sums.T, np.float64),
            np.array([last - first for _, first, last in part.segments], np.float64),
            np.array([self.squares[env, first:last].sum() for env, first, last in part.segments]),
        )


def _chunks(part: Part, tracer: ScoreTracer) -> Iterator[list[int]]:
    """Yield environments that are evaluated at once; one at a time where scores are kept whole."""
    size = max(1, min(CHUNK_SAMPLES // part.steps, MOST_FLOATS // part.steps**2))
    if not tracer.use_layers or tracer.step_floats * part.steps * size > MOST_FLOATS:
        size = 1
    for first in range(0, part.envs, size):
        yield list(range(first, min(first + size, part.envs)))


def trace_steps(
    tracer: ScoreTracer, rollout: RecordedRollout, subject: Subject, part: Part, envs: list[int], device: torch.device
) -> list[LayerTrace]:
    """LayerTrace the steps of environments, in the order [n, T]; check that they are those of the rollout."""
    index = np.asarray(envs)[:, None] + np.arange(part.steps) * rollout.num_envs
    traces, log_prob = tracer.trace(torch.as_tensor(index.reshape(-1), device=device))
    stored = subject.log_probs.reshape(-1)[index.reshape(-1)]
    difference = np.abs(log_prob.cpu().numpy() - stored)
    if not np.median(difference) <= TOLERANCE * (1 + np.median(np.abs(stored))):
        raise NotMeasurable(
            "log π of the stored actions differs from what was recorded when they were sampled (median difference "
            f"{np.median(difference):.2g})"
        )
    return traces


def window_advantages(rollout: RecordedRollout, subject: Subject, part: Part, length: int) -> Floats:
    """Return the advantages that windows of `length` steps have, [n, T], centered where training does so.

    The temporal differences δ_t = A_t − γλ·(1 − ended_t)·A_{t+1} follow from the advantages of the run's T, whatever a
    library does at time limits; GAE over shorter windows sums fewer of them.
    """
    cuts = rollout.ended if rollout.cuts is None else rollout.cuts
    advantages, goes_on = rollout.advantages[:, : part.envs], 1.0 - cuts[:, : part.envs]
    following = np.concatenate([advantages[1:], np.zeros((1, part.envs))])
    deltas = advantages - subject.gamma_lambda * goes_on * following
    result, current = np.zeros((part.steps, part.envs)), np.zeros(part.envs)
    for step in reversed(range(part.steps)):
        if (step + 1) % length == 0:
            current = np.zeros(part.envs)
        current = deltas[step] + subject.gamma_lambda * goes_on[step] * current
        result[step] = current
    return np.ascontiguousarray((result - result.mean() if subject.centered else result).T)


def as_tensor(values: Floats, device: torch.device) -> Tensor:
    return torch.as_tensor(values, dtype=torch.float32, device=device)


def weigh(blocks: Any, weights: Tensor) -> Tensor:
    result: Tensor = blocks * weights[:, :, None] * weights[:, None]
    return result


def _window_norms(weighted: Tensor, length: int) -> Tensor:
    """Return the mean |window mean|² of every environment, [n], from products [n, T, T]."""
    envs, steps, _ = weighted.shape
    windows = weighted.reshape(envs, steps // length, length, steps // length, length).sum((2, 4))
    return windows.diagonal(dim1=1, dim2=2).mean(1) / length**2


def _segment_sums(traces: Sequence[LayerTrace], weights: Tensor, part: Part, envs: list[int]) -> Tensor:
    """Return the sums of the gradients of every segment of the environments, [C, P]."""
    steps = part.steps
    result = []
    for env, first, last in part.segments:
        if env in envs:
            mask = torch.zeros_like(weights)
            row = envs.index(env)
            mask[row, first:last] = weights[row, first:last]
            begin = row * steps
            result.append(torch.cat([t.part(begin, begin + steps).sums(mask[row], 1) for t in traces], 1))
    return torch.cat(result) if result else torch.zeros(0, sum(trace.size for trace in traces))


def agrees_with_autodiff(tracer: ScoreTracer, rollout: RecordedRollout) -> bool:
    """Return whether the scores of a few samples, alone and by autodiff, are those of a batch by layers."""
    device = next(tracer.module.parameters()).device
    count = min(8, rollout.num_envs * rollout.num_steps)
    index = torch.arange(count, device=device)
    traces, log_prob = tracer.trace(index)
    norms = sum(trace.gram_blocks(1)[0].diagonal() for trace in traces)
    parameters = [p for p in tracer.module.parameters() if p.requires_grad]
    for sample in range(min(count, 3)):
        alone, _ = tracer.evaluate(index[sample : sample + 1])
        if not torch.allclose(alone[0], log_prob[sample], rtol=TOLERANCE, atol=TOLERANCE):
            raise NotMeasurable("log π of a sample depends on the other samples of its batch")
        gradients = torch.autograd.grad(alone[0], parameters, allow_unused=True)
        expected = sum(float((g**2).sum()) for g in gradients if g is not None)
        if abs(float(norms[sample]) - expected) > TOLERANCE * max(expected, 1e-12):
            return False
    return True
