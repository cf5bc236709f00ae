"""Gradient statistics of a PyTorch policy on the rollout that its library is about to train on. Needs torch.

Products of scores are computed on the policy's device, statistics in NumPy; JAX is not used. The policy is left as it
is: no .grad, no hook, no random number, no buffer and no mode of a module changes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rollshape.gradients.clusters import cluster_estimates
from rollshape.gradients.intervals import MIN_ENVS, Estimate, Floats
from rollshape.gradients.minibatch import minibatch_cosine, minibatch_variance
from rollshape.gradients.noise_scale import NoiseScales, noise_scales
from rollshape.gradients.surface import surface
from rollshape.gradients.variance import variance
from rollshape.integrations.lab_part import Part, Subject, choose_part
from rollshape.integrations.lab_sums import (
    CHUNK_SAMPLES,
    GradientSums,
    agrees_with_autodiff,
    as_tensor,
)
from rollshape.integrations.measurement import VARIANCE, Measured, Measurement, MinibatchLoss, NotMeasurable, ShapeError
from rollshape.integrations.rollout import RecordedRollout
from rollshape.integrations.torch_scores import ScoreTracer

COUPLED = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)


class Lab:
    """Measures the rollouts of one run."""

    def __init__(self) -> None:
        self._use_layers: bool | None = None  # None: not checked yet

    def measure(
        self, rollout: RecordedRollout, subject: Subject, *, update: int, timesteps: int, minibatch_size: int
    ) -> Measurement:
        """Measure a rollout at the parameters that collected it; raise NotMeasurable where that is impossible."""
        start = time.perf_counter()
        with undisturbed(subject.module):
            tracer = self._tracer(subject, rollout)
            part = choose_part(rollout, subject, tracer.use_layers)
            sums = GradientSums(rollout, subject, tracer, part)
            share = value_gradient_share(rollout, subject)
        estimates = _estimates(sums, part, rollout, update)
        minibatch = _minibatches(estimates, rollout.num_envs * rollout.num_steps, minibatch_size)
        return Measurement(
            update=update,
            timesteps=timesteps,
            measured=Measured(
                num_envs=rollout.num_envs,
                num_steps=rollout.num_steps,
                minibatch_size=minibatch_size,
                measured_envs=part.envs,
                measured_steps=part.steps,
                clusters=part.clusters,
                num_clusters=len(part.segments),
                parameters=sums.parameters,
                method="layers" if tracer.use_layers else "autodiff",
                gamma_lambda=subject.gamma_lambda,
                centered=subject.centered,
                seconds=time.perf_counter() - start,
            ),
            variance=estimates[0],
            effective_sample_size=estimates[1],
            noise_scale=estimates[2],
            autocorrelation=_autocorrelation(sums.lags, estimates[0]),
            minibatch=minibatch,
            surface=_surface(sums, part, rollout, update),
            value_gradient_share=share,
        )

    def _tracer(self, subject: Subject, rollout: RecordedRollout) -> ScoreTracer:
        """Return a tracer that was compared with autodiff on a few samples of the first rollout."""
        if any(isinstance(layer, COUPLED) and getattr(layer, "p", 1.0) for layer in subject.module.modules()):
            raise NotMeasurable("the policy contains BatchNorm or dropout, so a sample has no gradient of its own")
        if self._use_layers is None:
            tracer = ScoreTracer(subject.module, subject.evaluate, use_layers=not subject.recurrent)
            self._use_layers = tracer.use_layers and agrees_with_autodiff(tracer, rollout)
        return ScoreTracer(subject.module, subject.evaluate, self._use_layers)


def value_gradient_share(rollout: RecordedRollout, subject: Subject) -> float | None:
    """Return |c_v·∇L_v|²/(|∇L_π|² + |c_v·∇L_v|²) on the rollout; advantages are normalized where training does so."""
    if subject.value_targets is None or subject.recurrent:
        return None
    advantages, size = rollout.advantages, rollout.advantages.size
    if subject.centered:
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    parameters = [p for p in subject.module.parameters() if p.requires_grad]
    device = parameters[0].device
    totals: list[list[Any]] = [[0.0] * len(parameters), [0.0] * len(parameters)]
    flat = [as_tensor(x.reshape(-1), device) for x in (advantages, subject.value_targets)]
    for first in range(0, size, CHUNK_SAMPLES):
        index = torch.arange(first, min(first + CHUNK_SAMPLES, size), device=device)
        log_prob, values = subject.evaluate(index)
        losses = -(flat[0][index] * log_prob).sum(), subject.value_coef * ((values - flat[1][index]) ** 2).sum()
        for loss, total, keep in zip(losses, totals, (True, False), strict=True):
            if loss.requires_grad:
                gradients = torch.autograd.grad(loss, parameters, retain_graph=keep, allow_unused=True)
                total[:] = [t if g is None else t + g for t, g in zip(total, gradients, strict=True)]
    policy, value = (sum(float((t**2).sum()) for t in total if isinstance(t, Tensor)) for total in totals)
    return value / (policy + value) if policy + value > 0 else None


@contextmanager
def undisturbed(module: nn.Module) -> Iterator[None]:
    """Compute with gradients, in evaluation mode and full precision; afterwards everything is as it was before."""
    modes = [(part, part.training) for part in module.modules()]
    buffers = [(buffer, buffer.detach().clone()) for buffer in module.buffers()]
    device = next(module.parameters()).device
    devices = [device] if device.type == "cuda" else []
    precision = torch.get_float32_matmul_precision()
    try:
        with (
            torch.random.fork_rng(devices=devices), torch.inference_mode(False), torch.enable_grad(),
            torch.autocast(device.type, enabled=False),
        ):  # fmt: skip
            if precision != "highest":
                torch.set_float32_matmul_precision("highest")
            for part, _ in modes:
                part.training = isinstance(part, nn.RNNBase)  # cuDNN has no backward pass in evaluation mode
            yield
    finally:
        for part, mode in modes:
            part.training = mode
        if precision != "highest":
            torch.set_float32_matmul_precision(precision)
        with torch.no_grad():
            for buffer, before in buffers:
                if not torch.equal(buffer, before):
                    buffer.copy_(before)


def _estimates(
    sums: GradientSums, part: Part, rollout: RecordedRollout, update: int
) -> tuple[dict[str, Estimate], Estimate, NoiseScales]:
    size = rollout.num_envs * rollout.num_steps
    if not np.isfinite(sums.clusters.gram).all():
        raise NotMeasurable("the gradient is not finite")
    if not sums.clusters.squares.any():
        raise NotMeasurable("the gradient is zero", is_temporary=True)
    if part.envs < MIN_ENVS:
        estimates = cluster_estimates(sums.clusters, size)
        return dict(estimates.variance), estimates.effective_sample_size, estimates.noise_scale
    rng, envs = np.random.default_rng(update), size // part.steps
    gram = np.asarray(sums.rows[part.steps] @ sums.rows[part.steps].T, np.float64)
    result = variance(sums.lags, gram, rng, num_envs=envs)
    scales = noise_scales(sums.lags[:, 0], gram, part.steps, rng, num_envs=envs)
    return {name: getattr(result, name) for name in VARIANCE}, result.effective_sample_size, scales


def _autocorrelation(lags: Floats, variances: dict[str, Estimate]) -> list[float]:
    norm, step = variances["squared_norm"].value, variances["step_variance"].value
    return [float(value) for value in (lags.mean(0) - norm) / step] if step > 0 else []


def _minibatches(estimates: Any, rollout_size: int, minibatch_size: int) -> list[MinibatchLoss]:
    """Predict what minibatches of several sizes keep, the run's included."""
    variances = estimates[0]
    step, time, norm, total = (
        variances[name].value for name in ("step_variance", "correlation_time", "squared_norm", "total")
    )
    sizes = {minibatch_size, *(2**power for power in range(4, 24, 2) if 2**power <= rollout_size)}
    points = []
    for size in sorted(size for size in sizes if size <= rollout_size):
        predicted = minibatch_variance(size, rollout_size, step, time)
        points.append(MinibatchLoss(size, predicted, minibatch_cosine(norm, predicted, total)))
    return points


@dataclass(frozen=True)
class _Windows:
    num_steps: int
    window_norms: Floats
    row_gram: Floats
    bias_gram: Floats
    window_bias_gram: Floats


def _surface(sums: GradientSums, part: Part, rollout: RecordedRollout, update: int) -> list[ShapeError]:
    """Return the splits of the rollout whose T' was measured; none with fewer than 32 environments."""
    if part.envs < MIN_ENVS:
        return []
    windows = []
    for length in part.lengths:
        rows, difference = sums.rows[length], sums.rows[length] - sums.rows[part.steps]
        bias = np.asarray(difference @ difference.T, np.float64)
        gram = np.asarray(rows @ rows.T, np.float64)
        windows.append(_Windows(length, sums.window_norms[length], gram, bias, bias))
    points = surface(rollout.num_envs * rollout.num_steps, windows, np.random.default_rng(update))
    return [ShapeError(p.num_envs, p.num_steps, p.variance, p.bias2, p.mse) for p in points]
