"""Probes as studies and reports read them: the only module that knows the layout of a probe's JSON document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rollshape.probes.quantities.cosine_maps import CosineMap


@dataclass(frozen=True, slots=True)
class Measurement:
    """A measured value and its 95 % interval; None where the probe could not tell, an open end is None."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class SurfacePoint:
    """The predicted error of one shape's gradient."""

    num_envs: int
    num_steps: int
    variance: float | None
    bias2: float | None
    mse: float | None


@dataclass(frozen=True, slots=True)
class RewardPoint:
    """The error of the reward network's gradient with subsequences of one length."""

    rrd_sample_size: int
    variance: Measurement
    bias2: float | None
    mse: float | None


@dataclass(frozen=True, slots=True)
class RewardRecord:
    """The probe of an RRD run: its reward batch, and the rewards along one episode."""

    rrd_batch_size: int
    surface: tuple[RewardPoint, ...]
    true_rewards: Sequence[float]
    predicted_rewards: Sequence[float]


@dataclass(frozen=True)
class ProbeRecord:
    """A probe of one checkpoint. `error` is the reason where it failed; then everything else is empty."""

    update: int
    command: str
    error: str
    num_envs: int
    num_steps: int
    variance: Measurement
    step_variance: Measurement  # Term 1: the part of single steps
    covariance: Measurement  # Term 2: the part of correlation along time
    effective_sample_size: Measurement
    window_bias2: Measurement
    total_bias2: Measurement
    relative_window_bias: float | None
    noise_scale: Measurement
    horizon: Measurement
    collected_variance: Measurement  # of batches collected at the run's own shape
    surface: tuple[SurfacePoint, ...]
    other_sizes: tuple[SurfacePoint, ...]
    packed_pictures: tuple[Mapping[str, Any], ...]
    rewards: RewardRecord | None

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> ProbeRecord:
        """Read the document of a probe, of a reward probe, or of a probe that failed."""
        shape, variance = document.get("geometry") or {}, document.get("variance") or {}
        bias, scale = document.get("bias") or {}, document.get("noise_scale") or {}
        window, total = bias.get("window") or {}, bias.get("total") or {}
        horizon = document.get("horizon") or {}
        return cls(
            update=document.get("update", 0),
            command=document.get("command", ""),
            error=document.get("error", ""),
            num_envs=shape.get("num_envs", 0),
            num_steps=shape.get("num_steps", 0),
            variance=_named(variance, "total"),
            step_variance=_named(variance, "individual"),
            covariance=_named(variance, "covariance"),
            effective_sample_size=_measurement(
                document.get("effective_sample_size"), document.get("effective_sample_size_ci")
            ),
            window_bias2=_measurement(window.get("squared"), window.get("ci")),
            total_bias2=_measurement(total.get("squared"), total.get("ci")),
            relative_window_bias=window.get("relative"),
            noise_scale=_named(scale, "clustered"),
            horizon=Measurement(horizon.get("value"), horizon.get("low"), horizon.get("high")),
            collected_variance=_named(document.get("collected") or {}, "variance"),
            surface=tuple(_point(point) for point in document.get("surface") or ()),
            other_sizes=tuple(_point(point) for points in document.get("sizes", {}).values() for point in points),
            packed_pictures=tuple(document.get("pictures") or ()),
            rewards=_rewards(document) if document.get("reward_surface") else None,
        )

    def cosine_maps(self) -> list[CosineMap]:
        """Return the cosines of single steps, one picture per shape."""
        return [CosineMap.from_dict(picture) for picture in self.packed_pictures]


def _measurement(value: float | None, interval: Sequence[float | None] | None) -> Measurement:
    low, high = interval or (None, None)
    return Measurement(value, low, high)


def _named(values: Mapping[str, Any], name: str) -> Measurement:
    return _measurement(values.get(name), (values.get("ci") or {}).get(name))


def _point(point: Mapping[str, Any]) -> SurfacePoint:
    return SurfacePoint(point["num_envs"], point["num_steps"], point["variance"], point["bias2"], point["mse"])


def _rewards(document: Mapping[str, Any]) -> RewardRecord:
    episode = document["redistribution"]
    surface = tuple(
        RewardPoint(point["rrd_sample_size"], _named(point, "variance"), point["bias2"], point["mse"])
        for point in document["reward_surface"]
    )
    return RewardRecord(document["rrd_batch_size"], surface, episode["true"], episode["predicted"])
