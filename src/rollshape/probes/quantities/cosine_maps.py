"""Cosines between the gradients of single steps, of one batch with itself and with others, as images."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax import Array

from rollshape.gradients.cosine import cosines
from rollshape.gradients.gram import Traces, gram, reshape_traces, scale_traces, step_norms
from rollshape.gradients.intervals import Floats
from rollshape.probes.batches import draw_windows
from rollshape.probes.collect import Stream, estimate_advantages
from rollshape.probes.plotting import probe_figure
from rollshape.probes.quantities.quantity import Quantity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from rollshape.probes.context import ProbeContext
    from rollshape.probes.result import Probe

NUM_BATCHES, SHAPES = 5, ((4, 32), (32, 4))  # two shapes of the same size


@dataclass(frozen=True)
class CosineMap:
    """Cosines of all steps of batch 0 with those of batch k, [K, N·T, N·T]; steps of an environment are adjacent.

    `cosine` is None where only the means were stored.
    """

    num_envs: int
    num_steps: int
    within_env: float  # mean over different steps of the same environment
    across_batches: float  # mean over steps of different batches
    cosine: Floats | None = None

    @property
    def num_batches(self) -> int:
        return 0 if self.cosine is None else len(self.cosine)

    def to_dict(self) -> dict[str, Any]:
        """Return the map with its cosines as bytes in base64, ±127 standing for ±1."""
        assert self.cosine is not None
        levels = np.rint(127 * np.nan_to_num(self.cosine)).astype(np.int8)
        return {
            "num_envs": self.num_envs, "num_steps": self.num_steps, "batches": len(levels),
            "cosine": base64.b64encode(levels.tobytes()).decode(),
            "within_env": self.within_env, "across_batches": self.across_batches,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> CosineMap:
        """Read what `to_dict` wrote; cosines are exact to 1/127."""
        num_envs, num_steps = document["num_envs"], document["num_steps"]
        levels = np.frombuffer(base64.b64decode(document["cosine"]), np.int8)
        cosine = levels.reshape(document["batches"], num_envs * num_steps, num_envs * num_steps) / 127
        return cls(num_envs, num_steps, document["within_env"], document["across_batches"], cosine)


def new_cosine_map(num_envs: int, num_steps: int, cosine: Floats) -> CosineMap:
    """Return the map of cosines [K, N·T, N·T] with their means."""
    blocks = cosine[0].reshape(num_envs, num_steps, num_envs, num_steps)
    diagonal = blocks[np.arange(num_envs), :, np.arange(num_envs)]
    pairs = num_envs * num_steps * (num_steps - 1)
    within = float((diagonal.sum() - np.trace(cosine[0])) / pairs)
    return CosineMap(num_envs, num_steps, within, float(cosine[1:].mean()), cosine)


def measure(context: ProbeContext) -> list[CosineMap]:
    """Compute the cosines of batch 0 with all batches at both shapes, from the same environments."""
    longest, num_windows = max(steps for _, steps in SHAPES), NUM_BATCHES * max(envs for envs, _ in SHAPES)
    streams = [stream for _, stream in draw_windows(context.source, longest, num_windows, context.key("pictures"))]
    columns: Any = (np.concatenate(parts) for parts in zip(*streams, strict=True))
    stream = Stream(*columns)
    maps = []
    for envs, steps in SHAPES:
        count = NUM_BATCHES * envs
        advantage = estimate_advantages(context.checkpoint.estimator, stream, steps)[0]
        columns = (x[:count, :steps] for x in (stream.observation, stream.action, advantage))
        products, squares = (np.asarray(x) for x in context.view.reduce(_products, *columns))
        cosine = [cosines(product, squares[0], square) for product, square in zip(products, squares, strict=True)]
        maps.append(new_cosine_map(envs, steps, np.stack(cosine)))
    return maps


def _products(scores: Traces, advantage: Array) -> tuple[Array, Array]:
    """Return the inner products [K, N·T, N·T] of the steps of batch 0 with those of every batch, and their squared
    norms [K, N·T], from scores [K·N, T, …]."""
    gradients = reshape_traces(scale_traces(scores, advantage), 2, (NUM_BATCHES, advantage.size // NUM_BATCHES))
    first = jax.tree.map(lambda x: x[0], gradients)
    return jax.vmap(gram, (None, 0))(first, gradients), step_norms(gradients)


def to_dict(probe: Probe) -> dict[str, Any]:
    """Write the means alone; `Probe.to_dict(cosine_maps=True)` adds the maps."""
    return {
        "steps": [
            {"num_envs": m.num_envs, "num_steps": m.num_steps, "cosine_within_env": m.within_env,
             "cosine_across_batches": m.across_batches}
            for m in probe.cosine_maps or ()
        ]
    }  # fmt: skip


def from_dict(document: Mapping[str, Any]) -> list[CosineMap] | None:
    if document.get("pictures"):
        return [CosineMap.from_dict(entry) for entry in document["pictures"]]
    maps = [
        CosineMap(
            entry["num_envs"], entry["num_steps"], entry["cosine_within_env"], entry["cosine_across_batches"]
        )
        for entry in document["steps"]
    ]  # fmt: skip
    return maps or None


def figures(probe: Probe) -> dict[str, Figure]:
    maps = [m for m in probe.cosine_maps or () if m.cosine is not None]
    if not maps:
        return {}
    figure = probe_figure(
        probe, "Cosines between step gradients of batch 0 and batches 0 to 4",
        "exact values of one sample, no interval; lines separate environments",
        (2.4 * NUM_BATCHES, 2.7 * len(maps) + 1),
    )  # fmt: skip
    draw_cosine_maps(figure, maps)
    return {"cosines": figure}


def draw_cosine_maps(figure: Any, maps: Sequence[CosineMap]) -> None:
    """Draw on an empty matplotlib figure: one row per shape, one column per batch."""
    images = [(m, m.cosine) for m in maps if m.cosine is not None]
    axes = figure.subplots(len(images), len(images[0][1]), squeeze=False)
    image: Any = None
    for row, (cosine_map, cosine) in zip(axes, images, strict=True):
        steps = cosine_map.num_steps
        edges = np.arange(steps, cosine_map.num_envs * steps, steps) - 0.5
        for k, axis in enumerate(row):
            image = axis.imshow(cosine[k], vmin=-1, vmax=1, cmap="RdBu_r", interpolation="nearest")
            last = cosine.shape[-1] - 0.5
            axis.hlines(edges, -0.5, last, color="black", linewidth=0.3)  # one artist for all lines
            axis.vlines(edges, -0.5, last, color="black", linewidth=0.3)
            axis.grid(False)
            axis.set(xticks=[], yticks=[])
            axis.set_title(f"with batch {k}", fontsize=8)
        row[0].set_ylabel(f"{cosine_map.num_envs}×{steps}")
    figure.colorbar(image, ax=axes, shrink=0.6).outline.set_visible(False)


COSINE_MAPS = Quantity["ProbeContext", "Probe"](
    name="cosine_maps", part="pictures", measure=measure, to_dict=to_dict, from_dict=from_dict, figures=figures
)
