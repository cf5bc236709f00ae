"""Text output of `rollshape probe`: the results in words, then the tables behind them."""

from __future__ import annotations

from typing import Protocol

from rich.markup import escape

from rollshape.cli.output import console
from rollshape.probes.result import Geometry, Probe, ProbeResult
from rollshape.probes.text import TextTable


class Presentable(Protocol):
    @property
    def update(self) -> int: ...
    @property
    def timesteps(self) -> int: ...
    def sentences(self) -> list[str]: ...
    def tables(self) -> list[TextTable]: ...


def show_result(run_dir: str, result: Presentable) -> None:
    """Print the results in words, and their tables."""
    out = console()
    print_text(f"[bold]{escape(run_dir)}[/] after update {result.update:,} ({result.timesteps:,} timesteps)")
    for sentence in result.sentences():
        print_text(escape(sentence))
    for table in result.tables():
        out.print()
        out.print(_format_table(table))
        if table.note:
            print_text(f"[dim]{escape(table.note)}[/]")
    out.print()


def print_text(text: str) -> None:
    out = console()
    out.print(text, soft_wrap=not out.is_terminal)  # a pipe has no width to fit


def show(probe: ProbeResult) -> None:
    show_result(probe.run_dir, probe)
    if isinstance(probe, Probe):
        print_text(f"[dim]{escape(_describe_method(probe.geometry))}[/]")
    print_text(f"[dim]{escape(probe.command)}[/]")


def _format_table(table: TextTable) -> str:
    """Return plain columns, as wide as their cells; numbers are right-aligned, labels (columns without title) left."""
    lines = (table.columns, *table.rows)
    widths = [max(len(line[i]) for line in lines) for i in range(len(table.columns))]
    aligned = ["<", *("<" if title == "" else ">" for title in table.columns[1:])]
    text = []
    for line in lines:
        cells = [f"{cell:{side}{width}}" for cell, side, width in zip(line, aligned, widths, strict=True)]
        text.append(escape("  ".join(cells).rstrip()))
    return "\n".join([f"[bold]{escape(table.title)}[/]", *text])


def _describe_method(geometry: Geometry) -> str:
    start = "from the states of the run"
    if geometry.burn_in is not None:
        start = f"after a burn-in of {geometry.burn_in[0]:,} to {geometry.burn_in[1]:,} steps"
    return (
        f"Measured in {geometry.probe_envs} environments × {geometry.probe_steps:,} steps {start}; advantages "
        f"{geometry.advantages}, γ = {geometry.gamma:g}, λ = {geometry.gae_lambda:g}; true gradient: "
        f"{geometry.reference}."
    )
