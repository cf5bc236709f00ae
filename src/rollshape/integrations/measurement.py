"""Gradient statistics of one rollout of another library: their document in the run directory, and their text.

A measurement is written to probes/UPDATE/measurement.json while the library trains. `rollshape probe` shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rollshape.errors import RequestError
from rollshape.formatting import format_number
from rollshape.gradients.intervals import Estimate
from rollshape.gradients.noise_scale import NoiseScale, NoiseScales
from rollshape.probes.documents import (
    read_estimates,
    read_fields,
    read_scales,
    to_plain,
    write_estimates,
    write_scales,
)
from rollshape.probes.files import read_document, write_document
from rollshape.probes.text import CI, TextTable, format_cells, format_interval
from rollshape.typed import check_types

FILE = "measurement.json"
FIX = "Record the run again; it may be from another version of Rollshape."
VARIANCE = ("total", "individual", "covariance", "squared_norm", "step_variance", "correlation_time")
SHAPE = ("variance", "bias2", "mse")


class NotMeasurable(Exception):
    """The gradient cannot be measured; the text says why. A temporary reason may not hold for the next rollout."""

    def __init__(self, reason: str, is_temporary: bool = False) -> None:
        super().__init__(reason)
        self.is_temporary = is_temporary


@dataclass(frozen=True, slots=True)
class Measured:
    """The rollout and the part of it that was measured."""

    num_envs: int
    num_steps: int
    minibatch_size: int
    measured_envs: int
    measured_steps: int  # per environment: at most the T of the run
    clusters: str  # what counts as independent: environments or episodes
    num_clusters: int
    parameters: int  # that the policy depends on
    method: str  # layers, or autodiff
    gamma_lambda: float
    centered: bool  # advantages minus their mean, because training normalizes them
    seconds: float


@dataclass(frozen=True, slots=True)
class MinibatchLoss:
    """What a shuffled minibatch keeps, predicted from the variance: tr Var(G_M) and the cosine of G_M to G_B."""

    size: int
    variance: float
    cosine: float


@dataclass(frozen=True, slots=True)
class ShapeError:
    """A split N×T' of the rollout, T' ≤ T. `bias2` is that of windows of T' against those of the run's T."""

    num_envs: int
    num_steps: int
    variance: Estimate
    bias2: Estimate
    mse: Estimate


@dataclass(frozen=True)
class Measurement:
    """Gradient statistics of the policy, on the rollout of one update and at the parameters before it."""

    update: int
    timesteps: int
    measured: Measured
    variance: dict[str, Estimate]
    effective_sample_size: Estimate
    noise_scale: NoiseScales
    autocorrelation: list[float]  # ρ_k, k = 0 … measured_steps − 1
    minibatch: list[MinibatchLoss]
    surface: list[ShapeError]  # empty with fewer than 32 environments
    value_gradient_share: float | None

    def columns(self) -> dict[str, float | None]:
        """Return the metrics of the rollout's row."""
        scale = self.noise_scale.clustered.value
        total, norm = self.variance["total"].value, self.variance["squared_norm"].value
        return {
            "effective_sample_size": self.effective_sample_size.value,
            "noise_scale": scale,
            "gradient_snr": None if scale is None or not total else norm / total,
            "value_gradient_share": self.value_gradient_share,
        }

    def to_dict(self) -> dict[str, Any]:
        document = {
            "update": self.update,
            "timesteps": self.timesteps,
            "measured": asdict(self.measured),
            "variance": write_estimates(self.variance),
            "effective_sample_size": asdict(self.effective_sample_size),
            "noise_scale": write_scales(self.noise_scale),
            "autocorrelation": self.autocorrelation,
            "minibatch": [asdict(point) for point in self.minibatch],
            "surface": [
                {"num_envs": point.num_envs, "num_steps": point.num_steps}
                | write_estimates({name: getattr(point, name) for name in SHAPE})
                for point in self.surface
            ],
            "value_gradient_share": self.value_gradient_share,
        }
        plain: dict[str, Any] = to_plain(document)
        return plain

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Measurement:
        measurement = cls(
            update=document["update"],
            timesteps=document["timesteps"],
            measured=Measured(**document["measured"]),
            variance=read_estimates(document["variance"], VARIANCE),
            effective_sample_size=read_fields(document["effective_sample_size"]),
            noise_scale=read_scales(document["noise_scale"]),
            autocorrelation=[float("nan") if lag is None else lag for lag in document["autocorrelation"]],
            minibatch=[MinibatchLoss(**point) for point in document["minibatch"]],
            surface=[
                ShapeError(point["num_envs"], point["num_steps"], **read_estimates(point, SHAPE))
                for point in document["surface"]
            ],
            value_gradient_share=document["value_gradient_share"],
        )
        check_types(measurement, cls)
        return measurement

    def save(self, run_dir: Path) -> None:
        write_document(run_dir / "probes" / str(self.update) / FILE, self.to_dict())

    def sentences(self) -> list[str]:
        """Return the main results in words."""
        size = self.effective_sample_size
        shape = f"{self.measured.num_envs * self.measured.num_steps:,} steps"
        lines = [f"Effective sample size: {format_number(size.value)} of {shape} ({format_interval(size)})."]
        scale, naive = self.noise_scale.clustered, self.noise_scale.naive
        if scale.value is None:
            bound = "" if scale.low is None else f" (noise scale > {scale.low:,.0f} steps, 95 %)"
            lines.append(f"No gradient signal detected{bound}.")
        else:
            lines.append(f"Gradient noise scale: {_format_scale(scale)} steps; standard estimator: {_value(naive)}.")
        if self.value_gradient_share is not None:
            lines.append(f"The value loss contributes {self.value_gradient_share:.0%} of the squared gradient.")
        return lines

    def tables(self) -> list[TextTable]:
        labels = {
            "total": "variance of the gradient (trace)", "individual": "  from individual steps",
            "covariance": "  from correlation along time", "squared_norm": "squared norm of the mean gradient",
            "correlation_time": "correlation time (steps)",
        }  # fmt: skip
        shape = f"{self.measured.num_envs:,}×{self.measured.num_steps:,}"
        rows = [(label, *format_cells(self.variance[name])) for name, label in labels.items()]
        tables = [TextTable(f"Gradient variance of a {shape} rollout", ("", "value", CI), rows, self._method())]
        kept = [(f"{p.size:,}", format_number(p.variance), f"{p.cosine:.3f}") for p in self.minibatch]
        tables.append(TextTable("Gradient of a minibatch, predicted", ("samples", "variance", "cosine"), kept))
        if self.surface:
            errors = [
                (f"{p.num_envs:,}×{p.num_steps:,}", *format_cells(p.variance), *format_cells(p.bias2))
                for p in self.surface
            ]
            note = f"Bias is that of windows of T' steps against those of {self.measured.measured_steps:,} steps."
            tables.append(
                TextTable("Splits of the rollout, T' ≤ T", ("N×T'", "variance", "95 %", "bias²", "95 %"), errors, note)
            )
        return tables

    def _method(self) -> str:
        part = self.measured
        return (
            f"Measured on {part.measured_envs:,} environments × {part.measured_steps:,} steps, "
            f"{part.num_clusters:,} independent {part.clusters}, {part.parameters:,} parameters ({part.method})."
        )


def stored(run_dir: Path) -> list[int]:
    """Return the updates whose measurements a run directory holds."""
    return sorted(int(path.parent.name) for path in (run_dir / "probes").glob(f"[0-9]*/{FILE}"))


def read_measurement(run_dir: Path, update: int) -> Measurement:
    """Read the measurement of an update; a RequestError if it is missing or damaged."""
    from rollshape.studies.documents import reading  # imports JAX, which recording a run does not need

    path = run_dir / "probes" / str(update) / FILE
    if not path.exists():
        known = ", ".join(map(str, stored(run_dir)))
        raise RequestError("checkpoint", f"{run_dir} has no measurement of update {update}.", f"Choose from: {known}.")
    with reading(path, FIX):
        return Measurement.from_dict(read_document(path))


def _format_scale(scale: NoiseScale) -> str:
    high = "∞" if scale.high is None else f"{scale.high:,.0f}"
    return f"{_value(scale)} ({scale.low or 0:,.0f} … {high})"


def _value(scale: NoiseScale) -> str:
    return "no value" if scale.value is None else f"{scale.value:,.0f}"
