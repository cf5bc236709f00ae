"""What the minibatches of one update show: losses, KL divergence per epoch, clip fraction. NumPy only.

While the library trains, only references to its results are kept; the numbers are computed after the update.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rollshape.gradients.intervals import Floats
from rollshape.integrations.rollout import to_numpy


@dataclass
class UpdateLog:
    """The minibatches of one update, by epoch. A field that a library does not compute is None."""

    epochs: list[list[dict[str, Any]]] = field(default_factory=list)

    def new_epoch(self) -> None:
        self.epochs.append([])

    def add(self, **values: Any) -> None:
        """Add a minibatch: log_prob, old_log_prob, values, returns and advantages [M], entropy [M] or their mean."""
        if not self.epochs:
            self.new_epoch()
        self.epochs[-1].append({name: _detach(value) for name, value in values.items()})

    @property
    def gradient_steps(self) -> int:
        return sum(len(epoch) for epoch in self.epochs)

    def metrics(self, clip_range: float | None) -> dict[str, Any]:
        """Return the metrics of the update: means over its minibatches, and KL divergence and ratios per epoch."""
        epochs = [epoch for epoch in self.epochs if epoch]
        if not epochs:
            return {}
        result: dict[str, Any] = {"gradient_steps": self.gradient_steps}
        minibatches = [minibatch for epoch in epochs for minibatch in epoch]
        if all(_has(m, "values", "returns") for m in minibatches):
            pairs = zip(_blocks(minibatches, "values"), _blocks(minibatches, "returns"), strict=True)
            result["value_loss"] = float(_means([(values - returns) ** 2 for values, returns in pairs]).mean())
        if all(_has(m, "entropy") for m in minibatches):
            result["entropy"] = float(_means(_blocks(minibatches, "entropy")).mean())
        if all(_has(m, "log_prob", "old_log_prob") for m in minibatches):
            result |= _ratio_metrics([_log_ratios(epoch) for epoch in epochs], clip_range)
        return result

    def policy_loss(self, clip_range: float, normalize: bool) -> float | None:
        """Return −mean(min(r·A, clip(r)·A)) over all minibatches, with advantages normalized in each if requested."""
        minibatches = [minibatch for epoch in self.epochs for minibatch in epoch]
        if not minibatches or not all(_has(m, "advantages", "log_prob", "old_log_prob") for m in minibatches):
            return None
        losses = []
        for log_ratios, block in zip(_log_ratios(minibatches), _blocks(minibatches, "advantages"), strict=True):
            ratios, weights = np.exp(log_ratios), block
            if normalize and weights.shape[1] > 1:
                deviation = weights.std(1, ddof=1, keepdims=True)
                weights = (weights - weights.mean(1, keepdims=True)) / (deviation + 1e-8)
            clipped = np.clip(ratios, 1 - clip_range, 1 + clip_range)
            losses.append(-np.minimum(ratios * weights, clipped * weights))
        return float(_means(losses).mean())


def _ratio_metrics(epochs: Sequence[Sequence[Floats]], clip_range: float | None) -> dict[str, Any]:
    """Return KL divergence, clip fraction and effective sample size of log ratios, blocks for every epoch."""
    kl = [_means([np.expm1(x) - x for x in blocks]) for blocks in epochs]
    ess = [_effective_shares([np.exp(x) for x in blocks]) for blocks in epochs]
    result: dict[str, Any] = {}
    for name, values in (("approx_kl", kl), ("ratio_ess", ess)):
        result[name] = float(np.concatenate(values).mean())
        result[f"{name}_epochs"] = [float(x.mean()) for x in values]
    if clip_range is not None:
        outside = [_means([np.abs(np.expm1(x)) > clip_range for x in blocks]) for blocks in epochs]
        result["clip_fraction"] = float(np.concatenate(outside).mean())
    return result


def _effective_shares(blocks: Sequence[Floats]) -> Floats:
    """Return (Σr)²/(M·Σr²) of every minibatch."""
    return np.concatenate([r.sum(1) ** 2 / (r.shape[1] * (r**2).sum(1)) for r in blocks])


def _means(blocks: Sequence[Any]) -> Floats:
    """Return the mean of every minibatch."""
    return np.concatenate([block.mean(1) for block in blocks])


def _blocks(minibatches: Sequence[dict[str, Any]], name: str) -> list[Floats]:
    """Return one field of minibatches as one array [K, M], or as [1, M] each if their sizes differ."""
    rows = [np.ravel(to_numpy(minibatch[name])) for minibatch in minibatches]
    if len({len(row) for row in rows}) == 1:
        return [np.array(rows, np.float64)]
    return [np.array(row[None], np.float64) for row in rows]


def _log_ratios(minibatches: Sequence[dict[str, Any]]) -> list[Floats]:
    """Return log(π/π_old), bounded so that its exponential is finite."""
    pairs = zip(_blocks(minibatches, "log_prob"), _blocks(minibatches, "old_log_prob"), strict=True)
    return [np.clip(new - old, -50.0, 50.0) for new, old in pairs]


def _has(minibatch: dict[str, Any], *names: str) -> bool:
    return all(minibatch.get(name) is not None for name in names)


def _detach(value: Any) -> Any:
    return value.detach() if hasattr(value, "detach") else value
