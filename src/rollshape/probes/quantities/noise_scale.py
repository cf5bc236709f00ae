"""Gradient noise scale: the number of steps at which the squared gradient equals its variance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rollshape.gradients.noise_scale import NoiseScale, NoiseScales, noise_scales
from rollshape.probes.documents import read_scales, write_scales
from rollshape.probes.quantities.quantity import Quantity
from rollshape.probes.text import CI, TextTable

if TYPE_CHECKING:
    from rollshape.probes.context import ProbeContext
    from rollshape.probes.result import Probe


def measure(context: ProbeContext) -> NoiseScales:
    windows = context.run_windows
    return noise_scales(
        context.lags[:, 0], windows.row_gram, context.num_steps, context.rng, window_norms=windows.window_norms,
        num_envs=context.num_envs,
    )  # fmt: skip


def to_dict(probe: Probe) -> dict[str, Any]:
    """Write the policy's noise scales and, under `value`, those of the critic."""
    value = None if probe.critic is None else write_scales(probe.critic.noise_scale)
    return {"noise_scale": {**write_scales(probe.noise_scale), "value": value}}


def from_dict(document: Mapping[str, Any]) -> NoiseScales:
    return read_scales(document["noise_scale"])


def sentences(probe: Probe) -> list[str]:
    scale, naive = probe.noise_scale.clustered, probe.noise_scale.naive.value
    if scale.value is None:
        bound = "" if scale.low is None else f" (noise scale > {scale.low:,.0f} steps, 95 %)"
        return [f"No gradient signal detected{bound}."]
    ends = f"{scale.low or 0:,.0f} … {'∞' if scale.high is None else f'{scale.high:,.0f}'}"
    standard = "no value" if naive is None else f"{naive:,.0f}"
    return [
        f"Gradient noise scale: {scale.value:,.0f} steps ({ends}), the rollout size at which signal equals noise. "
        f"The standard estimator, which treats steps as independent, gives {standard}."
    ]


def tables(probe: Probe) -> list[TextTable]:
    networks = {"policy": probe.noise_scale}
    if probe.critic is not None:
        networks["critic"] = probe.critic.noise_scale
    rows = [
        row
        for network, scales in networks.items()
        for row in (
            _row(f"{network}, environments independent", scales.clustered),
            _row(f"{network}, steps independent (standard)", scales.naive),
        )
    ]
    return [TextTable("Gradient noise scale (steps)", ("", "value", CI), rows)]


def _row(label: str, scale: NoiseScale) -> tuple[str, str, str]:
    low, high = ("" if end is None else f"{end:,.0f}" for end in (scale.low, scale.high))
    return label, "no signal" if scale.value is None else f"{scale.value:,.0f}", f"{low or '0'} … {high or '∞'}"


NOISE_SCALE = Quantity["ProbeContext", "Probe"](
    name="noise_scale", measure=measure, to_dict=to_dict, from_dict=from_dict, sentences=sentences, tables=tables
)
