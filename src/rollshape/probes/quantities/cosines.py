"""Agreement of the gradients of independent batches, with each other and with the true gradient."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rollshape.gradients.cosine import pairwise_cosine, predicted_cosines, reference_cosine
from rollshape.gradients.intervals import Estimate, squared_norm
from rollshape.probes.documents import read_estimates, write_estimates
from rollshape.probes.quantities.quantity import Quantity
from rollshape.probes.text import CI, TextTable, format_cells

if TYPE_CHECKING:
    from rollshape.probes.context import ProbeContext
    from rollshape.probes.result import Probe


@dataclass(frozen=True, slots=True)
class Cosines:
    """Mean cosines; `to_reference` is None, with a reason, where the reference gradient shows no signal."""

    pairwise: Estimate
    to_reference: Estimate | None
    predicted_pairwise: float
    predicted_to_mean: float  # to the mean gradient of the shape, which includes its bias
    reason: str | None = None


def measure(context: ProbeContext) -> Cosines:
    """Compute the cosines; the reference's length is the unbiased one, so that its noise does not count as a turn."""
    gradients, references = context.batches.gradients, context.run_windows.references
    products = gradients @ gradients.T
    pairwise, to_mean = predicted_cosines(context.variance.squared_norm.value, context.variance.total.value)
    if not references.has_signal:
        reason = "no signal: the reference gradient is not significantly different from zero"
        return Cosines(pairwise_cosine(products), None, pairwise, to_mean, reason)
    length = squared_norm(references.gram)
    to_reference = reference_cosine(gradients @ references.gradient, np.diag(products), length)
    return Cosines(pairwise_cosine(products), to_reference, pairwise, to_mean)


def to_dict(probe: Probe) -> dict[str, Any]:
    cosine = probe.cosine
    if cosine is None:
        return {"cosine": None}
    return {
        "cosine": {
            **write_estimates({"pairwise": cosine.pairwise, "to_reference": cosine.to_reference}),
            "predicted": {"pairwise": cosine.predicted_pairwise, "to_mean": cosine.predicted_to_mean},
            "reason": cosine.reason,
        }
    }


def from_dict(document: Mapping[str, Any]) -> Cosines | None:
    entry = document["cosine"]
    if entry is None:
        return None
    return Cosines(
        **read_estimates(entry, ("pairwise", "to_reference")),
        predicted_pairwise=entry["predicted"]["pairwise"],
        predicted_to_mean=entry["predicted"]["to_mean"],
        reason=entry["reason"],
    )


def tables(probe: Probe) -> list[TextTable]:
    if probe.cosine is None:
        return []
    rows = [
        ("between two batches", *format_cells(probe.cosine.pairwise)),
        ("between a batch and the true gradient", *format_cells(probe.cosine.to_reference)),
    ]
    return [TextTable("Cosine between gradients", ("", "value", CI), rows)]


COSINES = Quantity["ProbeContext", "Probe"](
    name="cosine", part="batches", measure=measure, to_dict=to_dict, from_dict=from_dict, tables=tables
)
