"""The cosines of single steps of batches, as a picture that a document can carry."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rollshape.gradients.intervals import Floats


@dataclass(frozen=True)
class Picture:
    """Cosines of all steps of batch 0 with those of batch k, [5, N·T, N·T], steps of an environment side by side."""

    num_envs: int
    num_steps: int
    cosine: Floats

    def mean_within(self) -> float:
        """Of different steps of the same environment."""
        blocks = self.cosine[0].reshape(self.num_envs, self.num_steps, self.num_envs, self.num_steps)
        own = blocks[np.arange(self.num_envs), :, np.arange(self.num_envs)]
        pairs = self.num_envs * self.num_steps * (self.num_steps - 1)
        return float((own.sum() - np.trace(self.cosine[0])) / pairs)

    def mean_across(self) -> float:
        """Of steps of different batches."""
        return float(self.cosine[1:].mean())

    def packed(self) -> dict[str, Any]:
        """For a document: the cosines as bytes, 127 a whole one, in base64."""
        whole = np.rint(127 * np.nan_to_num(self.cosine)).astype(np.int8)
        return {
            "num_envs": self.num_envs, "num_steps": self.num_steps, "batches": len(whole),
            "cosine": base64.b64encode(whole.tobytes()).decode(),
            "within_env": self.mean_within(), "across_batches": self.mean_across(),
        }  # fmt: skip


def unpacked(document: Mapping[str, Any]) -> Picture:
    """What `packed` made, to within a 127th."""
    num_envs, num_steps = document["num_envs"], document["num_steps"]
    whole = np.frombuffer(base64.b64decode(document["cosine"]), np.int8)
    size = num_envs * num_steps
    return Picture(num_envs, num_steps, whole.reshape(document["batches"], size, size) / 127)


def draw_cosines(figure: Any, pictures: Sequence[Picture]) -> None:
    """A row a shape, a column a batch, on an empty matplotlib figure; lines part the environments."""
    axes = figure.subplots(len(pictures), len(pictures[0].cosine), squeeze=False)
    image: Any = None
    for line, picture in zip(axes, pictures, strict=True):
        edges = np.arange(picture.num_steps, picture.num_envs * picture.num_steps, picture.num_steps) - 0.5
        for k, axis in enumerate(line):
            image = axis.imshow(picture.cosine[k], vmin=-1, vmax=1, cmap="RdBu_r", interpolation="nearest")
            for edge in edges:
                axis.axhline(edge, color="black", linewidth=0.3)
                axis.axvline(edge, color="black", linewidth=0.3)
            axis.grid(False)
            axis.set(xticks=[], yticks=[])
            axis.set_title(f"against batch {k}", fontsize=8)
        line[0].set_ylabel(f"{picture.num_envs}×{picture.num_steps}")
    figure.colorbar(image, ax=axes, shrink=0.6).outline.set_visible(False)
