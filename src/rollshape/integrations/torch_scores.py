"""Scores ∇log π(a|s) of a PyTorch policy, from the inputs and errors of its layers. Needs torch.

A layer y = a·W + b contributes a ⊗ δ to the score of one sample, δ being the derivative of log π by y. Forward hooks
record a and y of every layer, and one backward pass gives every δ: no score is stored whole. Supported this way are
Linear, Conv1d, Conv2d, LayerNorm, and parameters that are no layer, such as log_std. The scores by all other parameters
are computed by autodiff, a batch of backward passes over the samples, and kept whole; so are those of recurrent
policies, where log π of a step depends on the steps before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Evaluate = Callable[[Tensor], tuple[Tensor, Tensor]]  # indices of samples [B] → (log π [B], V [B])
JACOBIAN_ROWS = 64  # backward passes of the fallback that are computed at once
FEW_POSITIONS = 4  # of a layer, up to which products of positions are cheaper than building its gradients


@dataclass(frozen=True)
class LayerTrace:
    """One layer: inputs a [B, P, in] and errors δ [B, P, out] of P positions (a convolution, or several calls).

    Without inputs it holds scores as they are, [B, 1, D].
    """

    inputs: Tensor | None
    errors: Tensor
    bias: bool = True

    @property
    def size(self) -> int:
        """Number of parameters of the layer."""
        outputs = int(self.errors.shape[-1])
        return outputs if self.inputs is None else (int(self.inputs.shape[-1]) + self.bias) * outputs

    def gram_blocks(self, envs: int) -> Tensor:
        """Return the products of all pairs of scores of the same environment: B = n·T samples → [n, T, T]."""
        positions = self.errors.shape[1]
        if self.inputs is not None and positions <= FEW_POSITIONS:
            a, d = (x.reshape(envs, -1, positions, x.shape[-1]) for x in (self.inputs, self.errors))
            total: Any = 0
            for p in range(positions):
                for q in range(positions):
                    products = torch.bmm(a[:, :, p], a[:, :, q].mT) + float(self.bias)
                    total = total + products * torch.bmm(d[:, :, p], d[:, :, q].mT)
            return total
        blocks = []
        steps = self.errors.shape[0] // envs
        for first in range(0, self.errors.shape[0], steps):  # of one environment: they may be large
            rows = self.part(first, first + steps).scores()
            blocks.append(rows @ rows.mT)
        return torch.stack(blocks)

    def scores(self) -> Tensor:
        """Return the scores of all samples by this layer, [B, size]."""
        if self.inputs is None:
            return self.errors[:, 0]
        weight = torch.bmm(self.inputs.mT, self.errors).flatten(1)
        return torch.cat([weight, self.errors.sum(1)], 1) if self.bias else weight

    def sums(self, weights: Tensor, envs: int) -> Tensor:
        """Return the sums of the scores of every environment with weights [B], as [n, size]."""
        errors = (self.errors * weights[:, None, None]).reshape(envs, -1, self.errors.shape[-1])
        if self.inputs is None:
            return errors.sum(1)
        weight = torch.bmm(self.inputs.reshape(envs, -1, self.inputs.shape[-1]).mT, errors).flatten(1)
        return torch.cat([weight, errors.sum(1)], 1) if self.bias else weight

    def part(self, first: int, last: int) -> LayerTrace:
        """Return the trace of some of the samples."""
        inputs = None if self.inputs is None else self.inputs[first:last]
        return LayerTrace(inputs, self.errors[first:last], self.bias)


@dataclass
class ScoreTracer:
    """Traces the scores of one policy. `use_layers` off: all by autodiff, as for recurrent policies."""

    module: nn.Module  # holds all parameters of the policy
    evaluate: Evaluate
    use_layers: bool = True

    @property
    def step_floats(self) -> int:
        """Number of parameters whose scores are kept whole for every sample."""
        return sum(p.numel() for p in self._other_parameters().values()) if self.use_layers else self._num_parameters()

    def trace(self, index: Tensor) -> tuple[list[LayerTrace], Tensor]:
        """Return the traces of samples and their log π."""
        if not self.use_layers:
            log_prob, _ = self.evaluate(index)
            return list(self._jacobian(log_prob, dict(self._trainable()))), log_prob.detach()
        calls: list[tuple[nn.Module, Tensor, Tensor]] = []

        def record(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
            calls.append((layer, inputs[0].detach(), output))
            return output.clone()  # what follows may change it in place

        hooks = [layer.register_forward_hook(record) for layer in self._layers()]
        try:
            log_prob, expanded, others = self._log_prob(index)
        finally:
            for hook in hooks:
                hook.remove()
        outputs = [output for _, _, output in calls if output.requires_grad]
        calls = [call for call in calls if call[2].requires_grad]
        targets = [*outputs, *expanded.values()]
        errors = torch.autograd.grad(log_prob.sum(), targets, allow_unused=True, retain_graph=bool(others))
        traces = list(_layer_traces(calls, errors[: len(calls)], len(index)))
        traces += [LayerTrace(None, e.reshape(len(index), 1, -1)) for e in errors[len(calls) :] if e is not None]
        return traces + list(self._jacobian(log_prob, others)), log_prob.detach()

    def _log_prob(self, index: Tensor) -> tuple[Tensor, dict[str, Tensor], dict[str, nn.Parameter]]:
        """Return log π, parameters such as log_std repeated for every sample, and those left to the fallback.

        The derivative by a repeated parameter is the score of every sample. Where the policy cannot compute with
        repeated ones, or computes something else, they are left to the fallback.
        """
        others = self._other_parameters()
        bare = {name: p for name, p in others.items() if p.dim() == 1 or (p.dim() == 2 and p.shape[0] == 1)}
        others = {name: p for name, p in others.items() if name not in bare}
        if bare:
            expanded = {
                name: p.detach().reshape(1, -1).repeat(len(index), 1).requires_grad_() for name, p in bare.items()
            }
            try:
                model = _Evaluation(self.module, self.evaluate)
                named = {f"module.{name}": value for name, value in expanded.items()}
                log_prob = torch.func.functional_call(model, named, (index,))[0]
                if log_prob.shape == (len(index),):
                    return log_prob, expanded, others
            except (RuntimeError, ValueError, IndexError):
                pass
        log_prob, _ = self.evaluate(index)
        return log_prob, {}, {**bare, **others}

    def _jacobian(self, log_prob: Tensor, parameters: dict[str, nn.Parameter]) -> Iterator[LayerTrace]:
        """Yield the scores by parameters, from a backward pass per sample."""
        if not parameters:
            return
        values = list(parameters.values())
        rows = torch.eye(len(log_prob), dtype=log_prob.dtype, device=log_prob.device)
        parts = []
        for first in range(0, len(log_prob), JACOBIAN_ROWS):
            chunk = rows[first : first + JACOBIAN_ROWS]
            parts.append(_batched_gradients(log_prob, values, chunk))
        for position in range(len(values)):
            gradients = [part[position] for part in parts]
            if gradients[0] is not None:
                yield LayerTrace(None, torch.cat([g.flatten(1) for g in gradients if g is not None])[:, None])

    def _layers(self) -> list[nn.Module]:
        return [layer for layer in self.module.modules() if _is_traced(layer)]

    def _other_parameters(self) -> dict[str, nn.Parameter]:
        """Return the parameters that belong to no traced layer, by name."""
        traced = {id(p) for layer in self._layers() for p in layer.parameters(recurse=False)}
        return {name: p for name, p in self._trainable() if id(p) not in traced}

    def _trainable(self) -> Iterator[tuple[str, nn.Parameter]]:
        return ((name, p) for name, p in self.module.named_parameters() if p.requires_grad)

    def _num_parameters(self) -> int:
        return sum(p.numel() for _, p in self._trainable())


class _Evaluation(nn.Module):  # type: ignore[misc]
    """Makes `evaluate` a function of the module's parameters, for torch.func."""

    def __init__(self, module: nn.Module, evaluate: Evaluate) -> None:
        super().__init__()
        self.module, self._evaluate = module, evaluate

    def forward(self, index: Tensor) -> tuple[Tensor, Tensor]:
        return self._evaluate(index)


def _is_traced(layer: nn.Module) -> bool:
    """Return whether the gradient of a layer follows from its inputs and errors; a subclass may compute otherwise."""
    for kind in (nn.Linear, nn.Conv1d, nn.Conv2d, nn.LayerNorm):
        if isinstance(layer, kind):
            if type(layer).forward is not kind.forward or not all(p.requires_grad for p in layer.parameters(False)):
                return False
            return not isinstance(layer, (nn.Conv1d, nn.Conv2d)) or (
                layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
            )
    return False


def _layer_traces(
    calls: list[tuple[nn.Module, Tensor, Tensor]], errors: tuple[Tensor | None, ...], samples: int
) -> Iterator[LayerTrace]:
    """Yield the trace of every layer that log π depends on; several calls of one layer are positions of it."""
    by_layer: dict[nn.Module, list[LayerTrace]] = {}
    for (layer, inputs, _), error in zip(calls, errors, strict=True):
        if error is not None:
            by_layer.setdefault(layer, []).append(_call_trace(layer, inputs, error, samples))
    for traces in by_layer.values():
        if len(traces) == 1:
            yield traces[0]
        elif traces[0].inputs is None:
            yield LayerTrace(None, torch.stack([trace.errors for trace in traces]).sum(0))
        else:
            inputs = torch.cat([trace.inputs for trace in traces], 1)
            yield LayerTrace(inputs, torch.cat([trace.errors for trace in traces], 1), traces[0].bias)


def _call_trace(layer: nn.Module, inputs: Tensor, errors: Tensor, samples: int) -> LayerTrace:
    if isinstance(layer, nn.LayerNorm):
        normalized = nn.functional.layer_norm(inputs, layer.normalized_shape, eps=layer.eps)
        size = math.prod(layer.normalized_shape)
        parts = [(normalized * errors).reshape(samples, -1, size).sum(1)] if layer.weight is not None else []
        parts += [errors.reshape(samples, -1, size).sum(1)] if layer.bias is not None else []
        return LayerTrace(None, torch.cat(parts, 1)[:, None])
    if isinstance(layer, (nn.Conv1d, nn.Conv2d)):
        patches = _patches(layer, inputs)
        return LayerTrace(patches.mT, errors.reshape(samples, errors.shape[1], -1).mT, layer.bias is not None)
    return LayerTrace(
        inputs.reshape(samples, -1, inputs.shape[-1]),
        errors.reshape(samples, -1, errors.shape[-1]),
        layer.bias is not None,
    )


def _patches(layer: nn.Conv1d | nn.Conv2d, inputs: Tensor) -> Tensor:
    """Return what a convolution multiplies with its kernel, [B, in·kernel, positions]."""
    one = isinstance(layer, nn.Conv1d)
    kernel, stride, padding, dilation = (
        (1, *size) if one else tuple(size) for size in (layer.kernel_size, layer.stride, layer.padding, layer.dilation)
    )
    if one:
        inputs, padding = inputs[:, :, None], (0, *layer.padding)
    return nn.functional.unfold(inputs, kernel, dilation, padding, stride)


def _batched_gradients(log_prob: Tensor, parameters: list[Any], rows: Tensor) -> tuple[Tensor | None, ...]:
    """Return the derivatives of several combinations of log π, [R, …] each; one by one where torch cannot batch."""
    try:
        batched: tuple[Tensor | None, ...] = torch.autograd.grad(
            log_prob, parameters, rows, retain_graph=True, allow_unused=True, is_grads_batched=True
        )
        return batched
    except RuntimeError:
        single = [torch.autograd.grad(log_prob, parameters, row, retain_graph=True, allow_unused=True) for row in rows]
        return tuple(None if part[0] is None else torch.stack(part) for part in zip(*single, strict=True))
