"""History of performance: measure, append one line to history.jsonl, and compare with earlier lines of this machine.

A line has ratios within one run, because seconds differ between machines and drift on one: utilization (training
over the matrix-multiply rate next to each interval) per shape, and the start of commands over that of an empty Python.
Each has the quartiles of its repetitions. A change is flagged if they do not overlap those of the last lines from the
same machine (CPU, cores, memory, JAX version). While other processes keep the cores busy, the matrix-multiply rate
may fall more than training does: such a line is compared with others of the same kind only.

`make bench` runs this file; `make bench-train` uses `record`.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rollshape.files import append
from rollshape.geometry.machine import machine

if TYPE_CHECKING:
    from rollshape.training.bench import Bench

HISTORY = Path(__file__).with_name("history.jsonl")
COMPARED = 5  # earlier lines: their quartiles together show how much the machine varies between runs
SECONDS = 3.0  # per shape

Ratio = dict[str, float]  # low, value, high: quartiles and median
Line = dict[str, Any]


class Change(NamedTuple):
    """A ratio, what it was in the latest line that has it, and the range of the latest lines."""

    name: str
    old: float
    new: float
    low: float
    high: float
    is_flagged: bool


def main() -> int:
    import plan

    load = os.getloadavg()[0]
    times = plan.measure()
    is_quick = plan.show(times)
    ratios = {**start_ratios(times), **training_ratios()}
    record(ratios, load)
    return 0 if is_quick else 1


def start_ratios(times: Mapping[str, Sequence[float]]) -> dict[str, Ratio]:
    """Return the seconds of each command over those of an empty Python, which were measured next to it."""
    from plan import EMPTY

    return {
        f"{name} / {EMPTY}": ratio_of([mine / empty for mine, empty in zip(column, times[EMPTY], strict=False)])
        for name, column in times.items()
        if name != EMPTY
    }


def training_ratios() -> dict[str, Ratio]:
    """Return the utilization of each shape, and print it."""
    from train import SHAPES

    from rollshape.training.bench import bench

    ratios = {}
    for row in bench("CartPole-v1", SHAPES, SECONDS, python=""):
        print(f"{row.shape:<10}  {row.sps:>10,} steps/s  utilization {row.utilisation:.3f}", flush=True)
        ratios |= shape_ratios(row)
    return ratios


def shape_ratios(row: Bench) -> dict[str, Ratio]:
    """Return the utilization of a shape, and its speed over that of other libraries (measured once)."""
    ratios = {f"utilization {row.shape}": rounded(row.utilisation_low, row.utilisation, row.utilisation_high)}
    for library, sps in row.peers.items():
        ratios[f"steps/s / {library} {row.shape}"] = rounded(row.sps_low / sps, row.sps / sps, row.sps_high / sps)
    return ratios


def ratio_of(values: Sequence[float]) -> Ratio:
    from rollshape.training.speed import quartiles

    return rounded(*quartiles(values))


def rounded(low: float, value: float, high: float) -> Ratio:
    return {name: float(f"{number:.4g}") for name, number in {"low": low, "value": value, "high": high}.items()}


def record(ratios: dict[str, Ratio], load: float, path: Path = HISTORY) -> list[Change]:
    """Append a line with the ratios, print how they compare with earlier lines, and return that.

    `load` is the load average (processes that want to run) before the benchmark.
    """
    line: Line = {"commit": commit(), "date": f"{datetime.now(UTC):%Y-%m-%dT%H:%MZ}", "machine": fingerprint()}
    line["load"] = round(load, 1)
    earlier = [old for old in read(path) if old["machine"] == line["machine"] and is_busy(old) == is_busy(line)]
    if is_busy(line):
        cores = line["machine"]["cores"]
        print(f"\nOther processes use this machine (load {load:.1f} on {cores} cores): the ratios are distorted, and "
              "compared only with those of other busy times.")  # fmt: skip
    changes = compare(ratios, earlier)
    append(path, (json.dumps({**line, "ratios": ratios}, ensure_ascii=False) + "\n").encode())
    if not earlier:
        kind = "busy" if is_busy(line) else "quiet"
        print(f"{path.name}: the first {kind} line of this machine; there is nothing to compare with.")
        return changes
    print(
        f"\ncompared with {earlier[-1]['commit']} ({earlier[-1]['date']}); range of the last {COMPARED} lines at most"
    )
    print(f"{'ratio':<40}     old →     new  change  range")
    for name, old, new, low, high, is_flagged in changes:
        flag = "  beyond the spread" if is_flagged else ""
        print(f"{name:<40}{old:>8.3f} →{new:>8.3f}  {100 * (new / old - 1):>+4.0f} %  {low:.3f} – {high:.3f}{flag}")
    return changes


def compare(ratios: Mapping[str, Ratio], earlier: Sequence[Line]) -> list[Change]:
    """Compare each ratio with the latest earlier lines that have it; one that no line has is new and left out."""
    changes = []
    for name, new in ratios.items():
        old = [line["ratios"][name] for line in earlier if name in line["ratios"]][-COMPARED:]
        if old:
            low, high = min(ratio["low"] for ratio in old), max(ratio["high"] for ratio in old)
            is_flagged = new["low"] > high or new["high"] < low
            changes.append(Change(name, old[-1]["value"], new["value"], low, high, is_flagged))
    return changes


def is_busy(line: Line) -> bool:
    return bool(line["load"] > line["machine"]["cores"])


def read(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def fingerprint() -> dict[str, Any]:
    """Return what makes two runs comparable; it names neither the host nor a path."""
    memory = machine().memory_bytes
    return {
        "cpu": cpu_model(),
        "cores": machine().cores,
        "memory_gb": None if memory is None else round(memory / 1e9),
        "jax": version("jax"),
    }


def cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def commit() -> str:
    """Return the commit, with a plus sign if files other than the history have changed since."""
    folder = HISTORY.parent
    head = subprocess.run(["git", "rev-parse", "--short=10", "HEAD"], cwd=folder, capture_output=True, text=True)
    changed = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", ":/", f":!{HISTORY.name}"], cwd=folder)
    return (head.stdout.strip() or "unknown") + ("+" if changed.returncode else "")


if __name__ == "__main__":
    sys.exit(main())
