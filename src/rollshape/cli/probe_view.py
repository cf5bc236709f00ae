"""What `rollshape probe` shows: the answer in words, then the tables behind it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape

from rollshape.cli.output import console
from rollshape.gradients.intervals import Estimate
from rollshape.gradients.noise_scale import NoiseScale, NoiseScales
from rollshape.gradients.noises import Noises
from rollshape.probes.reset_phase import ResetPhase
from rollshape.probes.result import Probe
from rollshape.probes.words import answer, between, number, shape


def show(probe: Probe) -> None:
    out, own = console(), probe.geometry
    out.print(f"[bold]{escape(probe.run_dir)}[/] after update {probe.update:,} ({probe.timesteps:,} timesteps)")
    for sentence in answer(probe):
        out.print(escape(sentence))
    out.print()
    out.print(_noise(probe))
    out.print()
    out.print(_splits(probe))
    if own.left_out:
        out.print(f"[dim]Not measured, for T is longer than the probe: {', '.join(map(str, own.left_out))}.[/]")
    if probe.minibatch:
        out.print()
        out.print(_minibatches(probe))
    if probe.critic:
        out.print()
        out.print(_targets(probe))
    if probe.noises is not None and probe.noises.noises is not None:
        out.print()
        out.print(_three(probe.noises.noises))
    if probe.reset_phase is not None and probe.reset_phase.between is not None:
        out.print()
        out.print(_phases(probe.reset_phase))
    out.print()
    out.print(f"[dim]{escape(_estimator(probe))}[/]")
    out.print(f"[dim]{escape(probe.command)}[/]")


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Plain columns, as wide as they need to be: a pipe has no width to fit."""
    widths = [max(len(row[i]) for row in (columns, *rows)) for i in range(len(columns))]
    lines = []
    for row in (columns, *rows):
        first, *rest = zip(row, widths, strict=True)
        cells = [f"{first[0]:<{first[1]}}", *(f"{cell:>{width}}" for cell, width in rest)]
        lines.append(escape("  ".join(cells).rstrip()))
    return "\n".join([f"[bold]{escape(title)}[/]", *lines])


def _pair(estimate: Estimate | None) -> tuple[str, str]:
    return ("–", "–") if estimate is None else (number(estimate.value), between(estimate))


def _noise(probe: Probe) -> str:
    """Everything that is said of the run's own shape."""
    found, cosine = probe.variance, probe.cosine
    collected, agreement = [], []
    if probe.collected is not None:
        collected = [(f"… of {probe.geometry.num_batches} collected batches", *_pair(probe.collected))]
    if cosine is not None:
        agreement = [
            ("cosine of two batches", *_pair(cosine.pairwise)),
            ("cosine of a batch to the reference", *_pair(cosine.to_reference)),
        ]
    rows = [
        ("noise of the gradient, tr Var", *_pair(found.total)),
        *collected,
        ("… of single steps (Term 1)", *_pair(found.individual)),
        ("… correlation along time (Term 2)", *_pair(found.covariance)),
        ("squared length of its mean", *_pair(found.squared_norm)),
        ("effective sample size", *_pair(found.effective_sample_size)),
        ("correlation time, steps", *_pair(found.correlation_time)),
        ("environments that carry the noise", f"{found.carriers:.1f}", f"of {probe.geometry.probe_envs}"),
        *_scales("noise scale", probe.noise_scale),
        *(_scales("critic's noise scale", probe.value_noise_scale) if probe.value_noise_scale else ()),
        *agreement,
        *((f"bias², {name}", *_pair(each.squared)) for name, each in probe.bias.items()),
    ]
    own = probe.geometry
    title = f"{own.num_envs:,}×{own.num_steps:,}, the run's own shape"
    return _table(title, ("", "value", "95 % interval"), rows)


def _scales(name: str, scales: NoiseScales) -> list[tuple[str, str, str]]:
    def row(label: str, scale: NoiseScale) -> tuple[str, str, str]:
        low, high = (" " if end is None else f"{end:,.0f}" for end in (scale.low, scale.high))
        return label, "no signal" if scale.value is None else f"{scale.value:,.0f}", f"{low} … {high}".strip()

    return [row(f"{name}, steps, by environment", scales.clustered), row("… naive, shuffled", scales.naive)]


def _splits(probe: Probe) -> str:
    horizon = probe.horizon.value or 1.0
    rows = []
    for point in probe.surface:
        marks = [
            word
            for word, marked in (
                ("run's", point is probe.own),
                ("best of one update", point is probe.best),
                (f"best over h = {horizon:.3g}", point is probe.best_over_horizon),
            )
            if marked
        ]
        rows.append(
            (shape(point), *_pair(point.variance), *_pair(point.bias2), number(point.bias2_window.value),
             number(point.mse.value), number(point.score.value), ", ".join(marks))
        )  # fmt: skip
    title = f"Every split of {probe.geometry.rollout_size:,} steps; score is bias² + variance/{horizon:.3g}"
    columns = ("N×T", "variance", "95 %", "bias²", "95 %", "window", "mse", "score", "")
    return _table(title, columns, rows)


def _minibatches(probe: Probe) -> str:
    own = probe.geometry.minibatch_size
    rows = [
        (f"{point.size:,}", number(point.predicted_variance), *_pair(point.variance), f"{point.predicted_cosine:.2f}",
         *_pair(point.cosine), "run's" if point.size == own else "")
        for point in probe.minibatch
    ]  # fmt: skip
    columns = ("size", "variance predicted", "measured", "95 %", "cosine predicted", "measured", "95 %", "")
    return _table("Shuffled minibatches against their batch", columns, rows)


def _targets(probe: Probe) -> str:
    rows = [(f"{p.num_steps:,}", *_pair(p.bias), *_pair(p.variance)) for p in probe.critic]
    columns = ("T", "bias", "95 %", "variance around V", "95 %")
    return _table("The critic's targets by T", columns, rows)


def _three(noises: Noises) -> str:
    rows = [
        ("sampling: which states and actions", *_pair(noises.sampling)),
        ("trajectory: how the rest went", *_pair(noises.trajectory)),
        ("credit assignment: what the estimator gets wrong", *_pair(noises.credit)),
        ("all three", *_pair(noises.total)),
    ]
    return _table("A single step's squared error", ("", "value", "95 % interval"), rows)


def _phases(found: ResetPhase) -> str:
    rows = [
        ("synchronous resets, between phases", *_pair(found.between)),
        ("… within a phase", "–" if found.within is None else number(found.within), ""),
        ("staggered resets, all of it", *_pair(found.staggered_variance)),
    ]
    if found.run_entropy is not None:
        rows.append(("the run's phases, entropy of 0 … 1", f"{found.run_entropy:.2f}", ""))
    return _table(f"Reset phase, horizon {found.horizon:,}", ("squared error", "value", "95 % interval"), rows)


def _estimator(probe: Probe) -> str:
    own = probe.geometry
    begin = (
        "the run's own states" if own.burn_in is None else f"burned in {own.burn_in[0]:,} to {own.burn_in[1]:,} steps"
    )
    return (
        f"{own.probe_envs} environments × {own.probe_steps:,} steps, {begin}; advantages {own.advantages}, "
        f"γ = {own.gamma:g}, λ = {own.gae_lambda:g}; reference: {own.reference}."
    )
