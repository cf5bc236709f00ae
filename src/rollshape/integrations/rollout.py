"""A rollout of another library, and the metrics that it shows: episodes, rewards, targets, observations.

NumPy only. Arrays are time first, [T, N]. What the network reads may stay where it is, for example on a GPU: its
statistics use only operations that NumPy arrays and torch tensors share.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rollshape.gradients.intervals import Floats

Bools = NDArray[np.bool_]
PHASE_BINS = 16  # of reset_phase_entropy
MOST_FEATURES = 4096  # of an observation whose scale is computed; larger ones are images


@dataclass(frozen=True)
class EndedEpisode:
    """An episode that ended; `success` is None if the environment does not report it."""

    total: float
    length: int
    success: bool | None = None


@dataclass(frozen=True)
class RecordedRollout:
    """What a library collected for one update, before the update. Advantages and returns are not normalized.

    `ended[t]` says whether the episode ended with step t, `truncated[t]` whether a time limit ended it (None if the
    library does not say). `cuts` is where GAE stops, if that is not where episodes end. `episodes` are those that the
    environment reported; None: they follow from `rewards`.
    """

    rewards: Floats
    values: Floats
    advantages: Floats
    returns: Floats
    ended: Bools
    truncated: Bools | None = None
    cuts: Bools | None = None
    observations: Any = None  # as the network receives them: an array [T, N, …], or several by name
    episodes: Sequence[EndedEpisode] | None = None

    @property
    def num_steps(self) -> int:
        return int(self.rewards.shape[0])

    @property
    def num_envs(self) -> int:
        return int(self.rewards.shape[1])


@dataclass
class EpisodeTracker:
    """Follows episodes across rollouts."""

    horizon: int | None = None  # longest episode of the environment, if it is known
    _lengths: NDArray[np.int64] | None = None  # of the current episode of every environment
    _totals: Floats | None = None
    _longest: int = field(default=1)

    def add(self, rollout: RecordedRollout) -> tuple[list[EndedEpisode], NDArray[np.int64]]:
        """Return the episodes that ended in a rollout, and the episode step of every transition, [T, N]."""
        steps, envs = rollout.ended.shape
        if self._lengths is None or self._totals is None:
            self._lengths, self._totals = np.zeros(envs, np.int64), np.zeros(envs)
        time = np.arange(steps)[:, None]
        begins = np.zeros((steps, envs), np.int64)  # the step of this rollout at which the current episode begins
        begins[1:] = np.where(rollout.ended[:-1], time[1:], 0)
        begins = np.maximum.accumulate(begins, 0)
        is_old = begins == 0  # begun in an earlier rollout, or at its first step
        phases = time - begins + np.where(is_old, self._lengths, 0)
        cumulative = np.concatenate([np.zeros((1, envs)), np.cumsum(rollout.rewards, 0, dtype=np.float64)])
        before = np.take_along_axis(cumulative, begins, 0)
        totals = cumulative[1:] - before + np.where(is_old, self._totals, 0.0)
        episodes = [
            EndedEpisode(float(total), int(phase) + 1)
            for total, phase in zip(totals[rollout.ended], phases[rollout.ended], strict=True)
        ]
        last = rollout.ended[-1]
        self._lengths, self._totals = np.where(last, 0, phases[-1] + 1), np.where(last, 0.0, totals[-1])
        self._longest = max(self._longest, int(phases.max()) + 1)
        return episodes, phases

    @property
    def longest(self) -> int:
        """The longest episode: of the environment if that is known, otherwise so far."""
        return self.horizon or self._longest

    def phase_entropy(self, phases: NDArray[np.int64]) -> float:
        """Return how evenly a rollout covers the episode, in 16 bins: 1 if uniform, 0 if all steps are in one bin."""
        bins = np.minimum(phases * PHASE_BINS // self.longest, PHASE_BINS - 1)
        share = np.bincount(bins.reshape(-1), minlength=PHASE_BINS) / bins.size
        share = share[share > 0]
        return float(-(share * np.log(share)).sum() / math.log(PHASE_BINS))


def rollout_metrics(rollout: RecordedRollout, tracker: EpisodeTracker) -> dict[str, float | None]:
    """Return the metrics of a rollout by name."""
    counted, phases = tracker.add(rollout)
    return {
        **_episode_metrics(counted if rollout.episodes is None else rollout.episodes),
        "timeout_share": _timeout_share(rollout),
        "reset_phase_entropy": tracker.phase_entropy(phases),
        "reward_rms": float(np.sqrt(np.mean(np.square(rollout.rewards, dtype=np.float64)))),
        "return_std": float(np.std(rollout.returns, dtype=np.float64)),
        "explained_variance": explained_variance(rollout.values, rollout.returns),
        **_observation_scales(rollout.observations),
    }


def explained_variance(values: Floats, returns: Floats) -> float | None:
    """Return 1 − Var(R − V)/Var(R); None if the targets do not vary."""
    variance = float(np.var(returns, dtype=np.float64))
    return None if variance == 0 else 1 - float(np.var(returns - values, dtype=np.float64)) / variance


def _episode_metrics(episodes: Sequence[EndedEpisode]) -> dict[str, float | None]:
    if not episodes:
        return {"episodes": 0}
    totals = np.array([episode.total for episode in episodes])
    successes = [episode.success for episode in episodes if episode.success is not None]
    return {
        "episodes": len(episodes),
        "episodic_return": float(totals.mean()),
        "episodic_return_std": float(totals.std(ddof=1)) if len(totals) > 1 else None,
        "episodic_length": float(np.mean([episode.length for episode in episodes])),
        "success_rate": float(np.mean(successes)) if successes else None,
    }


def _timeout_share(rollout: RecordedRollout) -> float | None:
    if rollout.truncated is None or not rollout.ended.any():
        return None
    return float(rollout.truncated[rollout.ended].mean())


def _observation_scales(observations: Any) -> dict[str, float | None]:
    """Return the largest root mean square of a feature, and its ratio to the smallest that is not zero."""
    parts = observations.values() if isinstance(observations, Mapping) else [observations]
    scales = [_feature_scales(part) for part in parts if part is not None]
    values = np.concatenate([scale for scale in scales if scale is not None] or [np.zeros(0)])
    values = values[values > 0]
    if not len(values) or not np.isfinite(values).all():
        return {}
    return {"observation_scale": float(values.max()), "observation_scale_ratio": float(values.max() / values.min())}


def _feature_scales(part: Any) -> Floats | None:
    """Return the root mean square of every feature of [T, N, …]; None for images, whose features are pixels."""
    if len(part.shape) not in (2, 3) or math.prod(part.shape[2:]) > MOST_FEATURES:
        return None
    return np.atleast_1d(to_numpy(((part * 1.0) ** 2).mean((0, 1)))).reshape(-1) ** 0.5


def to_numpy(values: Any) -> Any:
    """Return a NumPy array of what may be a tensor of a computation on any device."""
    return values.detach().cpu().numpy() if hasattr(values, "detach") else np.asarray(values)


def to_floats(values: Any, shape: tuple[int, ...] | None = None) -> Floats:
    """Return a copy as NumPy floats, with the given shape."""
    floats = np.array(to_numpy(values), np.float64)
    return floats if shape is None else floats.reshape(shape)
