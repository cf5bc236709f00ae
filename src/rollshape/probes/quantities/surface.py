"""Gradient error of every split of a rollout size into environments and steps, and which split has the smallest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rollshape.formatting import format_number
from rollshape.gradients.surface import Criterion, Point
from rollshape.probes.documents import read_estimates, write_estimates
from rollshape.probes.quantities.quantity import Quantity
from rollshape.probes.quantities.surface_figures import draw_sizes, draw_splits
from rollshape.probes.text import TextTable, format_cells, format_estimate, format_shape

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from rollshape.probes.context import ProbeContext
    from rollshape.probes.result import Probe

FIELDS = ("variance", "bias2", "bias2_window", "mse", "score")
DIFFERENCES = ("mse_difference", "score_difference")  # missing from documents of earlier versions


def measure(context: ProbeContext) -> list[Point]:
    return context.surfaces[context.rollout_size]


def measure_sizes(context: ProbeContext) -> dict[int, list[Point]]:
    """Return the splits of other rollout sizes."""
    return {size: points for size, points in context.surfaces.items() if size != context.rollout_size}


def to_dict(probe: Probe) -> dict[str, Any]:
    return {
        "surface": [write_point(point) for point in probe.surface],
        "best": {
            "mse": write_shape(probe.best),
            "score": write_shape(probe.best_over_horizon),
            "separated": {name: _is_separated(probe, name) for name in ("mse", "score")},
        },
    }


def _is_separated(probe: Probe, criterion: Criterion) -> bool | None:
    """Return whether the best split is significantly better than the run's own; None if it is unknown."""
    return None if probe.compared_point is None else probe.separated_best(criterion) is not None


def from_dict(document: Mapping[str, Any]) -> list[Point]:
    return [read_point(entry) for entry in document["surface"]]


def sizes_to_dict(probe: Probe) -> dict[str, Any]:
    sizes = probe.sizes or {}
    return {"sizes": {str(size): [write_point(point) for point in points] for size, points in sizes.items()}}


def sizes_from_dict(document: Mapping[str, Any]) -> dict[int, list[Point]] | None:
    sizes = {int(size): [read_point(entry) for entry in points] for size, points in document["sizes"].items()}
    return sizes or None


def write_shape(point: Point) -> dict[str, int]:
    return {"num_envs": point.num_envs, "num_steps": point.num_steps}


def write_point(point: Point) -> dict[str, Any]:
    return {**write_shape(point), **write_estimates({name: getattr(point, name) for name in FIELDS + DIFFERENCES})}


def read_point(document: Mapping[str, Any]) -> Point:
    names = FIELDS + tuple(name for name in DIFFERENCES if name in document)
    return Point(document["num_envs"], document["num_steps"], **read_estimates(document, names))


def sentences(probe: Probe) -> list[str]:
    size, horizon = probe.geometry.rollout_size, probe.horizon
    lines = [
        f"Best split of {size:,} steps for a single update (smallest squared gradient error): "
        f"{_describe_best(probe, 'mse')}."
    ]
    if horizon.value is None:
        return [*lines, f"The number of updates over which noise averages out is unknown: {horizon.reason}."]
    ends = "" if horizon.low is None or horizon.high is None else f", {horizon.low:.3g} … {horizon.high:.3g}"
    return [
        *lines,
        f"Best split over h = {horizon.value:.3g} updates ({horizon.source}{ends}), in which noise averages out but "
        f"bias does not: {_describe_best(probe, 'score')}.",
    ]


def _describe_best(probe: Probe, criterion: Criterion) -> str:
    """Name the best split if it is significantly better than the run's own shape, and how many are worse."""
    best, base = probe.best_by(criterion), probe.compared_point
    if base is None:
        return f"{format_shape(best)} (not compared: no split has the T of the run)"
    name = (
        f"the run's {format_shape(base)}" if base is probe.run_point else f"{format_shape(base)}, which has the run's T"
    )
    compared = {point: d for point in probe.surface if (d := point.difference(criterion)) is not None}
    worse = sum(difference.low > 0 for difference in compared.values())
    counts = f"{worse} of {len(compared)} other splits are significantly worse than {name}"
    if best is base:
        return f"{name}; {counts}"
    error, difference = base.error(criterion).value, format_estimate(compared[best])
    if probe.separated_best(criterion) is None:
        return (
            f"none is significantly better than {name} (smallest: {format_shape(best)}, difference {difference} "
            f"of {format_number(error)}); {counts}"
        )
    return f"{format_shape(best)}, difference to {name}: {difference} of {format_number(error)}; {counts}"


def tables(probe: Probe) -> list[TextTable]:
    """Return the errors, their differences to the run's own shape, and what they consist of."""
    horizon, size = probe.horizon.value or 1.0, probe.geometry.rollout_size
    criteria: tuple[Criterion, ...] = ("mse",) if horizon == 1 else ("mse", "score")
    errors, differences, parts = [], [], []
    for point in probe.surface:
        shape, label = format_shape(point), _label(probe, point, criteria)
        errors.append((shape, *(cell for name in criteria for cell in format_cells(point.error(name))), label))
        differences.append(
            (shape, *(cell for name in criteria for cell in format_cells(point.difference(name))), label)
        )
        parts.append(
            (shape, *format_cells(point.variance), *format_cells(point.bias2), format_number(point.bias2_window.value))
        )
    columns = ("N×T", "one update", "95 %", *(() if horizon == 1 else (f"h = {horizon:.3g}", "95 %")), "")
    omitted = probe.geometry.left_out
    note = f"Not measured (T is longer than the probe): {', '.join(map(str, omitted))}." if omitted else ""
    result = [
        TextTable(
            f"Squared gradient error of every split of {size:,} steps: bias² + variance/h", columns, errors, note
        ),
        TextTable(
            "Variance and bias² of every split", ("N×T", "variance", "95 %", "bias²", "95 %", "from truncation"), parts
        ),
    ]
    if probe.compared_point is not None:
        title = f"Difference of the error to that of {format_shape(probe.compared_point)}, paired over environments"
        note = "An interval on one side of 0 is a significant difference. Intervals are for one comparison each."
        result.insert(1, TextTable(title, columns, differences, note))
    return result


def _label(probe: Probe, point: Point, criteria: Sequence[Criterion]) -> str:
    marks = {
        "run": point is probe.run_point,
        "best": point is probe.separated_best("mse"),
        "best over h": "score" in criteria and point is probe.separated_best("score"),
    }
    return ", ".join(mark for mark, applies in marks.items() if applies)


def figures(probe: Probe) -> dict[str, Figure]:
    return {"surface": draw_splits(probe), "sizes": draw_sizes(probe)}


SURFACE = Quantity["ProbeContext", "Probe"](
    name="surface", measure=measure, to_dict=to_dict, from_dict=from_dict, sentences=sentences, tables=tables,
    figures=figures,
)  # fmt: skip
SIZES = Quantity["ProbeContext", "Probe"](
    name="sizes", part="sizes", measure=measure_sizes, to_dict=sizes_to_dict, from_dict=sizes_from_dict
)
