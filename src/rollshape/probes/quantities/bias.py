"""Bias of the mean gradient against the true policy gradient, and what it is due to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rollshape.gradients.bias import Bias, bias
from rollshape.gradients.intervals import Estimate
from rollshape.probes.documents import interval, read_estimate
from rollshape.probes.quantities.quantity import Quantity
from rollshape.probes.text import CI, TextTable, format_cells

if TYPE_CHECKING:
    from rollshape.probes.context import ProbeContext
    from rollshape.probes.result import Probe

LABELS = {
    "window": "from truncating rollouts at {steps} steps",
    "estimator": "from λ < 1 of the estimator",
    "total": "total",
}


def measure(context: ProbeContext) -> dict[str, Bias]:
    windows, rng = context.run_windows, context.rng
    references = windows.references
    return {
        "window": bias(windows.window_bias_gram, references.gram, rng),
        "estimator": bias(references.estimator_gram, references.gram, rng),
        "total": bias(windows.bias_gram, references.gram, rng),
    }


def to_dict(probe: Probe) -> dict[str, Any]:
    return {"bias": {name: _write(value) for name, value in probe.bias.items()}}


def _write(value: Bias) -> dict[str, Any]:
    return {
        "squared": value.squared.value,
        "relative": None if value.relative is None else value.relative.value,
        "ci": interval(value.squared),
        "relative_ci": interval(value.relative),
        "reason": value.reason,
    }


def from_dict(document: Mapping[str, Any]) -> dict[str, Bias]:
    return {
        name: Bias(
            read_estimate(entry["squared"], entry["ci"]),
            read_estimate(entry["relative"], entry["relative_ci"]),
            entry["reason"],
        )
        for name, entry in document["bias"].items()
    }


def sentences(probe: Probe) -> list[str]:
    total, window = probe.bias["total"], probe.bias["window"]
    if total.relative is None or window.relative is None:
        return [f"Bias of the mean gradient relative to the true gradient: unknown ({total.reason})."]
    return [
        f"Bias: the mean gradient deviates from the true policy gradient by {_percent(total.relative)} of its length; "
        f"truncating rollouts at {probe.geometry.num_steps:,} steps alone causes {_percent(window.relative)}."
    ]


def _percent(relative: Estimate) -> str:
    """Format |b|²/|G|² as |b|/|G| in percent."""
    value, low, high = (max(x, 0.0) ** 0.5 for x in (relative.value, relative.low, relative.high))
    return f"{value:.0%} ({low:.0%} … {high:.0%})"


def tables(probe: Probe) -> list[TextTable]:
    rows = [
        (LABELS[name].format(steps=f"{probe.geometry.num_steps:,}"), *format_cells(value.squared))
        for name, value in probe.bias.items()
    ]
    return [TextTable("Squared bias of the mean gradient", ("", "value", CI), rows)]


BIAS = Quantity["ProbeContext", "Probe"](
    name="bias", measure=measure, to_dict=to_dict, from_dict=from_dict, sentences=sentences, tables=tables
)
