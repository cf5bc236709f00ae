"""Few long or many short subsequences? Variance and bias of the gradient of RRD's reward network at equal timesteps.

A reward batch of `rrd_batch_size` timesteps consists of B = rrd_batch_size / K subsequences of K, drawn independently
from the replay, so tr Var(G_B) = tr Var(g_K)/B, g_K being the gradient of one subsequence: one sample of g_K per K
gives the whole surface. The plain loss has a bias that depends on K, the gradient of the variance term that the
unbiased loss subtracts; it is the mean difference of the two on the same subsequences. Intervals are over
subsequences, given the replay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from rollshape.agents.soft import Network, soft_distribution_for
from rollshape.algorithms.replay import ReplayBuffer
from rollshape.algorithms.rrd import Subsequences, reward_network_loss, sample_subsequences
from rollshape.errors import RequestError
from rollshape.formatting import format_number
from rollshape.gradients.intervals import Estimate, estimate_squared_norm
from rollshape.gradients.variance import cluster_variance
from rollshape.probes.documents import read_estimates, write_estimates
from rollshape.probes.plotting import BLUE, ORANGE, bar_heights, probe_figure
from rollshape.probes.quantities.quantity import Quantity
from rollshape.probes.subject import Checkpoint
from rollshape.probes.text import TextTable, format_cells, format_estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from rollshape.probes.rewards import RewardContext, RewardProbe

DRAWS = 256
FIELDS = ("variance", "bias2", "squared_norm")


@dataclass(frozen=True, slots=True)
class RewardGradient:
    """One way to split a reward batch into subsequences."""

    rrd_sample_size: int
    num_subsequences: int
    variance: Estimate  # tr Var of the gradient of the batch
    bias2: Estimate  # of the plain loss; the unbiased loss has none
    squared_norm: Estimate  # |G|²

    @property
    def mse(self) -> float:
        """Squared error of one gradient step."""
        return self.variance.value + max(self.bias2.value, 0.0)


def measure(context: RewardContext) -> list[RewardGradient]:
    return reward_gradient_surface(
        context.checkpoint, context.rrd_batch_size, context.sample_sizes, context.unbiased, context.draws, context.seed
    )


def reward_gradient_surface(
    checkpoint: Checkpoint,
    rrd_batch_size: int,
    sample_sizes: Sequence[int],
    unbiased: bool = False,
    draws: int = DRAWS,
    seed: int = 0,
) -> list[RewardGradient]:
    """Return the errors for every K in ascending order, from the replay and reward network of a checkpoint."""
    network, replay = checkpoint.reward_model()
    for size in sample_sizes:
        if size < 2 or rrd_batch_size % size:
            raise RequestError(
                "subsequences",
                f"rrd_sample_size {size} does not divide a reward batch of {rrd_batch_size} into subsequences of two "
                "or more timesteps.",
                f"Choose divisors of {rrd_batch_size} from 2 on.",
            )
    key, rng = jax.random.key(seed), np.random.default_rng(seed)
    points = []
    for i, size in enumerate(sorted(sample_sizes)):
        plain, corrected = (
            np.asarray(part, np.float64)
            for part in _grams(checkpoint.env.action, network, replay, jax.random.fold_in(key, i), size, draws)
        )
        total, norm = cluster_variance(corrected if unbiased else plain[0], rng)
        count = rrd_batch_size // size
        points.append(
            RewardGradient(
                rrd_sample_size=size,
                num_subsequences=count,
                variance=_multiply(total, draws / count),
                bias2=Estimate(0.0, 0.0, 0.0) if unbiased else estimate_squared_norm(plain[1]),
                squared_norm=norm,
            )
        )
    return points


def _grams(
    action: Any, network: Network, replay: ReplayBuffer, key: Array, size: int, draws: int
) -> tuple[Array, Array]:
    """Return the Gram matrices of R subsequences: [2, R, R] of the plain loss's gradients and of their correction, and
    [R, R] of the corrected gradients."""
    policy = soft_distribution_for(action)
    keys = jax.random.split(key)

    def gradients(network: Network, replay: ReplayBuffer, subsequence: Subsequences) -> tuple[Array, Array]:
        batch = jax.tree.map(lambda x: x[None], subsequence)
        plain, corrected = (
            ravel_pytree(jax.grad(reward_network_loss)(network, policy, replay, batch, unbiased))[0]
            for unbiased in (False, True)
        )
        return plain, corrected

    def grams(network: Network, replay: ReplayBuffer) -> tuple[Array, Array]:
        subsequences = sample_subsequences(replay, (keys[0], keys[1]), (draws,), size)
        plain, corrected = jax.lax.map(partial(gradients, network, replay), subsequences)
        rows = jnp.stack([plain, plain - corrected])
        return jnp.einsum("krp,ksp->krs", rows, rows), corrected @ corrected.T

    result: tuple[Array, Array] = jax.jit(grams)(network, replay)
    return result


def _multiply(estimate: Estimate, factor: float) -> Estimate:
    return Estimate(estimate.value * factor, estimate.low * factor, estimate.high * factor)


def to_dict(probe: RewardProbe) -> dict[str, Any]:
    return {
        "reward_surface": [
            {
                **_write_split(point),
                "mse": point.mse,
                **write_estimates({name: getattr(point, name) for name in FIELDS}),
            }
            for point in probe.surface
        ],
        "best": _write_split(probe.best),
    }


def _write_split(point: RewardGradient) -> dict[str, int]:
    return {"rrd_sample_size": point.rrd_sample_size, "num_subsequences": point.num_subsequences}


def from_dict(document: Mapping[str, Any]) -> list[RewardGradient]:
    return [
        RewardGradient(entry["rrd_sample_size"], entry["num_subsequences"], **read_estimates(entry, FIELDS))
        for entry in document["reward_surface"]
    ]


def sentences(probe: RewardProbe) -> list[str]:
    best = probe.best
    lines = [
        f"Best split of {probe.rrd_batch_size:,} timesteps for the reward network (smallest squared gradient error): "
        f"{_describe(best)}."
    ]
    run = next((point for point in probe.surface if point.rrd_sample_size == probe.rrd_sample_size), None)
    if run is not None and run is not best:
        lines.append(f"The run uses {_describe(run)}.")
    return lines


def _describe(point: RewardGradient) -> str:
    return (
        f"{point.num_subsequences:,} subsequences of {point.rrd_sample_size:,} timesteps, error {point.mse:.3g}, of "
        f"which variance {format_estimate(point.variance)}"
    )


def tables(probe: RewardProbe) -> list[TextTable]:
    rows = [
        (f"{point.num_subsequences:,}×{point.rrd_sample_size:,}", format_number(point.mse),
         *format_cells(point.variance), *format_cells(point.bias2),
         "run" if point.rrd_sample_size == probe.rrd_sample_size else "")
        for point in probe.surface
    ]  # fmt: skip
    title = f"Reward network: squared gradient error of every split of {probe.rrd_batch_size:,} timesteps"
    return [TextTable(title, ("subsequences×K", "error", "variance", "95 %", "bias²", "95 %", ""), rows)]


def figures(probe: RewardProbe) -> dict[str, Figure]:
    """Draw bias² and variance of every split."""
    title = f"Reward network: every split of {probe.rrd_batch_size:,} timesteps"
    figure = probe_figure(probe, title, "95 % intervals of the variance, over subsequences", (7.0, 4.0))
    axis, places = figure.subplots(), np.arange(len(probe.surface))
    bias2 = np.array([max(point.bias2.value, 0.0) for point in probe.surface])
    axis.bar(places, bias2, color=ORANGE, label="bias² of the plain loss")
    bars = bar_heights([point.variance for point in probe.surface])
    axis.bar(places, bottom=bias2, color=BLUE, label="variance", **bars)
    axis.set_xticks(places, [f"{p.num_subsequences}×{p.rrd_sample_size}" for p in probe.surface], rotation=45)
    axis.set(xlabel="subsequences × rrd_sample_size", ylabel="squared error of the gradient")
    axis.legend(frameon=False, fontsize=8)
    return {"reward_gradient": figure}


REWARD_GRADIENT = Quantity["RewardContext", "RewardProbe"](
    name="surface", measure=measure, to_dict=to_dict, from_dict=from_dict, sentences=sentences, tables=tables,
    figures=figures,
)  # fmt: skip
