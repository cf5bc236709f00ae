"""What a probe found, as an object and as the JSON document of `rollshape probe --json`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rollshape.gradients.bias import Bias
from rollshape.gradients.intervals import Estimate
from rollshape.gradients.minibatch import MinibatchPoint
from rollshape.gradients.noise_scale import NoiseScales
from rollshape.gradients.surface import Point
from rollshape.gradients.variance import Variance
from rollshape.probes.batches import Cosines
from rollshape.probes.critic import TargetPoint
from rollshape.probes.horizon import Horizon
from rollshape.probes.noises import StepNoises
from rollshape.probes.picture import Picture
from rollshape.probes.reset_phase import ResetPhase


@dataclass(frozen=True, slots=True)
class Geometry:
    """The run's shape, the probe's, and the estimator that everything is said of."""

    num_envs: int
    num_steps: int
    minibatch_size: int
    rollout_size: int  # whose splits the surface holds
    probe_envs: int
    probe_steps: int
    tail_steps: int  # beyond them, for the references
    num_batches: int
    start: str
    burn_in: tuple[int, int] | None  # steps of each environment before the probe: at least, and less than
    seed: int
    algo: str
    gamma: float
    gae_lambda: float
    advantages: str
    reference: str
    left_out: tuple[int, ...]  # T that divide the rollout_size and are longer than the probe


@dataclass(frozen=True)
class Probe:
    """Of one checkpoint. Estimates have a value and a 95 % interval, low to high; parts that were not asked for are
    None or empty."""

    run_dir: str
    update: int
    timesteps: int
    command: str
    geometry: Geometry
    variance: Variance
    noise_scale: NoiseScales
    value_noise_scale: NoiseScales | None  # None also where nothing trains a critic
    minibatch: list[MinibatchPoint]
    collected: Estimate | None  # tr Var(G_B) of the batches that were collected: brute force, beside variance.total
    cosine: Cosines | None
    bias: dict[str, Bias]  # window, estimator, total
    horizon: Horizon
    surface: list[Point]
    sizes: dict[int, list[Point]]  # the same for other rollout sizes
    critic: list[TargetPoint]
    pictures: list[Picture]
    noises: StepNoises | None
    reset_phase: ResetPhase | None

    @property
    def best(self) -> Point:
        """The split with the least error of one update."""
        return min(self.surface, key=lambda point: point.mse.value)

    @property
    def best_over_horizon(self) -> Point:
        """The split with the least bias² + variance/h."""
        return min(self.surface, key=lambda point: point.score.value)

    @property
    def own(self) -> Point | None:
        """The run's own shape, where it is a split of the rollout_size."""
        shape = (self.geometry.num_envs, self.geometry.num_steps)
        return next((point for point in self.surface if (point.num_envs, point.num_steps) == shape), None)

    def to_dict(self) -> dict[str, Any]:
        """The JSON document; what is not a number is null."""
        found = self.variance
        parts = ("total", "individual", "covariance", "squared_norm", "step_variance", "correlation_time")
        whole: dict[str, Any] = {
            "run_dir": self.run_dir,
            "update": self.update,
            "timesteps": self.timesteps,
            "command": self.command,
            "geometry": asdict(self.geometry),
            "variance": with_ci({name: getattr(found, name) for name in parts}),
            "effective_sample_size": found.effective_sample_size.value,
            "effective_sample_size_ci": _ends(found.effective_sample_size),
            "carriers": found.carriers,
            "autocorrelation": [each.value for each in found.autocorrelation],
            "autocorrelation_ci": [_ends(each) for each in found.autocorrelation],
            "noise_scale": {
                **_scales(self.noise_scale),
                "value": None if self.value_noise_scale is None else _scales(self.value_noise_scale),
            },
            "minibatch": [_minibatch(point) for point in self.minibatch],
            "collected": None if self.collected is None else with_ci({"variance": self.collected}),
            "cosine": None if self.cosine is None else _cosines(self.cosine),
            "bias": {name: _bias(each) for name, each in self.bias.items()},
            "horizon": asdict(self.horizon),
            "surface": [_point(point) for point in self.surface],
            "best": {"mse": _shape(self.best), "score": _shape(self.best_over_horizon)},
            "sizes": {str(size): [_point(point) for point in points] for size, points in self.sizes.items()},
            "critic": [_target(point) for point in self.critic],
            "noises": None if self.noises is None else self.noises.to_dict(),
            "reset_phase": None if self.reset_phase is None else self.reset_phase.to_dict(),
            "steps": [
                {"num_envs": p.num_envs, "num_steps": p.num_steps, "cosine_within_env": p.mean_within(),
                 "cosine_across_batches": p.mean_across()}
                for p in self.pictures
            ],
        }  # fmt: skip
        document: dict[str, Any] = plain(whole)
        return document


def _ends(estimate: Estimate | None) -> list[float] | None:
    return None if estimate is None else [estimate.low, estimate.high]


def with_ci(estimates: Mapping[str, Estimate | None]) -> dict[str, Any]:
    """Values by name, and their intervals under `ci`."""
    values = {name: None if each is None else each.value for name, each in estimates.items()}
    return {**values, "ci": {name: _ends(each) for name, each in estimates.items()}}


def _scales(scales: NoiseScales) -> dict[str, Any]:
    named = {"clustered": scales.clustered, "individual": scales.individual, "naive": scales.naive}
    return {
        **{name: each.value for name, each in named.items()},
        "ci": {name: [each.low, each.high] for name, each in named.items()},
        "reason": scales.clustered.reason,
    }


def _cosines(found: Cosines) -> dict[str, Any]:
    return {
        **with_ci({"pairwise": found.pairwise, "to_reference": found.to_reference}),
        "predicted": {"pairwise": found.predicted_pairwise, "to_mean": found.predicted_to_mean},
        "reason": found.reason,
    }


def _minibatch(point: MinibatchPoint) -> dict[str, Any]:
    return {
        "size": point.size,
        **with_ci({"variance": point.variance, "cosine": point.cosine}),
        "predicted": {"variance": point.predicted_variance, "cosine": point.predicted_cosine},
    }


def _bias(found: Bias) -> dict[str, Any]:
    return {
        "squared": found.squared.value,
        "relative": None if found.relative is None else found.relative.value,
        "ci": _ends(found.squared),
        "relative_ci": _ends(found.relative),
        "reason": found.reason,
    }


def _shape(point: Point) -> dict[str, int]:
    return {"num_envs": point.num_envs, "num_steps": point.num_steps}


def _point(point: Point) -> dict[str, Any]:
    names = ("variance", "bias2", "bias2_window", "mse", "score")
    return {**_shape(point), **with_ci({name: getattr(point, name) for name in names})}


def _target(point: TargetPoint) -> dict[str, Any]:
    gradient = {"gradient_variance": point.gradient.variance, "gradient_bias2": point.gradient.bias2}
    return {
        **_shape(point.gradient),
        **with_ci({"bias": point.bias, "variance": point.variance, **gradient}),
    }


def plain(value: Any) -> Any:
    """Plain JSON: tuples as lists, NumPy's numbers as Python's, and null for what is not finite."""
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(each) for each in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value
