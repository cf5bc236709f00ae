"""Which part of a rollout the gradient lab measures, so that time and memory are bounded. Needs torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from torch import nn

from rollshape.geometry.divisors import divisors
from rollshape.gradients.clusters import FEWEST
from rollshape.gradients.intervals import MIN_ENVS, Floats
from rollshape.integrations.measurement import NotMeasurable
from rollshape.integrations.rollout import RecordedRollout
from rollshape.integrations.torch_scores import Evaluate

MOST_ENVS, MOST_STEPS = 256, 4096  # measured
MOST_PAIRS = 1 << 24  # of steps of one environment, whose products are computed
MOST_FLOATS = 1 << 25  # of mean gradients and scores held at once
MOST_CLUSTERS = 128  # where they are episodes
MOST_LENGTHS = 8  # T' of the surface
FALLBACK_SAMPLES = 2048  # whose scores are computed by autodiff


@dataclass(frozen=True)
class Subject:
    """A policy and the data of one rollout. `evaluate` takes indices t·N + n of samples."""

    module: nn.Module  # holds all parameters that one optimizer trains
    evaluate: Evaluate
    log_probs: Floats  # [T, N], as stored when the rollout was collected
    gamma_lambda: float
    centered: bool  # whether training subtracts the mean of the advantages
    value_targets: Floats | None = None  # [T, N], in the units of the network's output
    value_coef: float = 0.0  # of mean((V − R)²)
    recurrent: bool = False  # evaluate takes whole environments, one after the other


@dataclass
class Part:
    """The part of a rollout that is measured."""

    envs: int
    steps: int
    lengths: list[int]
    segments: list[tuple[int, int, int]]  # clusters: environment, first step, step after the last

    @property
    def clusters(self) -> str:
        return "environments" if len(self.segments) == self.envs else "episodes"


def choose_part(rollout: RecordedRollout, subject: Subject, use_layers: bool) -> Part:
    """Choose environments, windows and clusters so that memory and time are bounded."""
    envs, parameters = rollout.num_envs, sum(p.numel() for p in subject.module.parameters() if p.requires_grad)
    lengths = [d for d in divisors(rollout.num_steps) if d <= (MOST_STEPS if use_layers else FALLBACK_SAMPLES)]
    window = lengths[-1]
    limits = [MOST_ENVS, MOST_PAIRS // window**2, MOST_FLOATS // parameters]
    limits += [] if use_layers else [FALLBACK_SAMPLES // window]
    count = min(envs, max(min(limits), FEWEST))
    lengths = _thin(lengths, 1 if count < MIN_ENVS else MOST_FLOATS // (parameters * count))
    segments = [(env, 0, window) for env in range(count)]
    if count < MIN_ENVS:  # episodes are independent, too, and there are more of them
        segments = _episodes(rollout.ended[:window, :count])
    if len(segments) < FEWEST:
        raise NotMeasurable(
            f"{envs} environments with {len(segments)} episodes in {window:,} steps are too few independent samples",
            is_temporary=True,
        )
    return Part(count, window, lengths, segments)


def _thin(lengths: Sequence[int], most: int) -> list[int]:
    """Return at most so many of ascending lengths, the last one included."""
    count = max(1, min(MOST_LENGTHS, most, len(lengths)))
    places = np.linspace(len(lengths) - 1, 0, count).round().astype(int)
    return sorted({lengths[place] for place in places})


def _episodes(ended: Any) -> list[tuple[int, int, int]]:
    """Return the episodes of every environment, neighbors merged where there are very many."""
    most = max(FEWEST, MOST_CLUSTERS // ended.shape[1])
    segments = []
    for env in range(ended.shape[1]):
        cuts = [0, *(np.flatnonzero(ended[:-1, env]) + 1), len(ended)]
        chosen = _thin_cuts(cuts, most)
        segments += [(env, int(first), int(last)) for first, last in pairwise(chosen)]
    return segments


def _thin_cuts(cuts: list[int], most: int) -> list[int]:
    places = np.linspace(0, len(cuts) - 1, min(most + 1, len(cuts))).round().astype(int)
    return [cuts[place] for place in places]
