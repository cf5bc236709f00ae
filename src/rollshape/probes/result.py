"""The result of a probe, as an object and as the JSON document of `rollshape probe --json`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rollshape.errors import RequestError, did_you_mean
from rollshape.formatting import short_repr
from rollshape.geometry.calls import check_arguments
from rollshape.gradients.bias import Bias
from rollshape.gradients.intervals import Estimate
from rollshape.gradients.minibatch import MinibatchPoint
from rollshape.gradients.noise_scale import NoiseScales
from rollshape.gradients.surface import Criterion, Point
from rollshape.gradients.variance import Variance
from rollshape.probes.documents import to_plain
from rollshape.probes.files import save
from rollshape.probes.notebook import to_html
from rollshape.probes.quantities import QUANTITIES
from rollshape.probes.quantities.cosine_maps import CosineMap
from rollshape.probes.quantities.cosines import Cosines
from rollshape.probes.quantities.critic import Critic
from rollshape.probes.quantities.horizon import Horizon
from rollshape.probes.quantities.quantity import Quantity
from rollshape.probes.quantities.reset_phase import ResetPhase
from rollshape.probes.quantities.step_noises import StepNoises
from rollshape.probes.text import TextTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class ProbeResult(ABC):
    """What the probes of all algorithms have in common."""

    run_dir: str
    update: int
    timesteps: int
    command: str  # that repeats the probe

    @property
    @abstractmethod
    def quantities(self) -> Sequence[Quantity[Any, Any]]:
        """The quantities in the order in which they are presented."""

    @property
    def main_figure(self) -> str:
        """Name of the figure that `plot` returns by default."""
        return "surface"

    def header(self) -> dict[str, Any]:
        """Return the entries of the document that belong to no quantity."""
        return {name: getattr(self, name) for name in ("run_dir", "update", "timesteps", "command")}

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document; a number that is not finite is null."""
        document = self.header()
        for quantity in self.quantities:
            document |= quantity.to_dict(self)
        plain: dict[str, Any] = to_plain(document)
        return plain

    def sentences(self) -> list[str]:
        """Return the main results in words, with their uncertainty."""
        return [sentence for quantity in self.quantities for sentence in quantity.sentences(self)]

    def tables(self) -> list[TextTable]:
        return [table for quantity in self.quantities for table in quantity.tables(self)]

    def figures(self) -> Iterator[tuple[str, Figure]]:
        """Yield (name, matplotlib figure)."""
        for quantity in self.quantities:
            yield from quantity.figures(self).items()

    @check_arguments
    def plot(self, name: str | None = None) -> Figure:
        """Return one of the probe's figures, by default the first: the predicted error of every shape.

        Its title names the run, and the line below it the kind of uncertainty and the command that repeats the probe.
        """
        names = []
        for label, figure in self.figures():
            if label == (name or self.main_figure):
                return figure
            names.append(label)
        raise RequestError(
            "argument",
            f"This probe has no figure {short_repr(name or self.main_figure)}.",
            f"{did_you_mean(name or '', names)}It has {', '.join(names) or 'none'}.",
        )

    def _repr_html_(self) -> str:
        facts = {"run": self.run_dir, "after": f"{self.update:,} updates, {self.timesteps:,} timesteps"}
        title = f"Probe of {Path(self.run_dir).name}"
        return to_html(title, facts, self.sentences(), {"predicted gradient error by shape": self.plot()})

    def save(self, *, figures: bool = True) -> Path:
        """Write probe.json and figures to RUN_DIR/probes/UPDATE, replacing a probe of the same update."""
        return save(self.run_dir, self.update, self.to_dict(), self.figures() if figures else ())


def read_quantities(quantities: Sequence[Quantity[Any, Any]], document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the quantities in a document, by name; a ValueError names the one that has another layout."""
    values = {}
    for quantity in quantities:
        try:
            values[quantity.name] = quantity.from_dict(document)
        except KeyError:
            raise
        except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
            raise ValueError(f"{quantity.name} has another layout ({error})") from None
    return values


@dataclass(frozen=True, slots=True)
class Geometry:
    """Shape of the run and of the probe, and the estimator that all results refer to."""

    num_envs: int
    num_steps: int
    minibatch_size: int
    rollout_size: int  # whose splits are compared
    probe_envs: int
    probe_steps: int
    tail_steps: int  # after them, for the reference
    num_batches: int
    start: str
    burn_in: tuple[int, int] | None  # steps of an environment before the probe: at least, and less than
    seed: int
    algo: str
    gamma: float
    gae_lambda: float
    advantages: str
    reference: str
    left_out: tuple[int, ...]  # T that divide the rollout_size and are longer than the probe

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Geometry:
        burn_in = None if document["burn_in"] is None else tuple(document["burn_in"])
        return cls(**{**document, "burn_in": burn_in, "left_out": tuple(document["left_out"])})


@dataclass(frozen=True)
class Probe(ProbeResult):
    """Gradient statistics at one checkpoint. Estimates have a value and a 95 % interval, `low` to `high`.

    A quantity that was not measured is None.
    """

    geometry: Geometry
    variance: Variance
    noise_scale: NoiseScales
    minibatch: list[MinibatchPoint] | None
    collected: Estimate | None  # tr Var(G_B) over collected batches, to compare with variance.total
    cosine: Cosines | None
    bias: dict[str, Bias]  # window, estimator, total
    horizon: Horizon
    surface: list[Point]
    sizes: dict[int, list[Point]] | None  # the surfaces of other rollout sizes
    critic: Critic | None  # None also where no critic is trained
    cosine_maps: list[CosineMap] | None
    noises: StepNoises | None
    reset_phase: ResetPhase | None

    @property
    def quantities(self) -> Sequence[Quantity[Any, Any]]:
        return QUANTITIES

    @property
    def best(self) -> Point:
        """The split with the smallest error of one update."""
        return self.best_by("mse")

    @property
    def best_over_horizon(self) -> Point:
        """The split with the smallest bias² + variance/h."""
        return self.best_by("score")

    def best_by(self, criterion: Criterion) -> Point:
        return min(self.surface, key=lambda point: point.error(criterion).value)

    def separated_best(self, criterion: Criterion) -> Point | None:
        """The best split if its error is significantly smaller than that of the run's own shape."""
        best = self.best_by(criterion)
        difference = best.difference(criterion)
        return best if difference is not None and difference.high < 0 else None

    @property
    def compared_point(self) -> Point | None:
        """The split with the T of the run, which others are compared with; None if nothing was compared with it."""
        is_compared = any(point.mse_difference is not None for point in self.surface)
        splits = (point for point in self.surface if point.num_steps == self.geometry.num_steps)
        return next(splits, None) if is_compared else None

    @property
    def run_point(self) -> Point | None:
        """The shape of the run, if it is a split of the rollout_size."""
        shape = (self.geometry.num_envs, self.geometry.num_steps)
        return next((point for point in self.surface if (point.num_envs, point.num_steps) == shape), None)

    def header(self) -> dict[str, Any]:
        return {**super().header(), "geometry": asdict(self.geometry)}

    def to_dict(self, *, cosine_maps: bool = False) -> dict[str, Any]:
        """Return the JSON document; `cosine_maps` adds the maps themselves, which are large."""
        document = super().to_dict()
        if cosine_maps:
            document["pictures"] = [m.to_dict() for m in self.cosine_maps or () if m.cosine is not None]
        return document

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Probe:
        """Read what `to_dict` wrote; a stored document may lack the run directory."""
        return cls(
            run_dir=document.get("run_dir", ""),
            update=document["update"],
            timesteps=document["timesteps"],
            command=document["command"],
            geometry=Geometry.from_dict(document["geometry"]),
            **read_quantities(QUANTITIES, document),
        )
