"""What recording a run of another library costs: time of training with and without it, in turns.

    python benchmarks/integrations.py sb3 --repetitions 3

Run it with the Python of the peers (.venv-peers/bin/python). Wall time and processor time are those of the training,
without imports; the ratios are medians over the repetitions. On a busy machine they vary by more than the cost:
`own_cpu_share` is the share of the processor time that passes in Rollshape's code.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples"
sys.path.insert(0, str(EXAMPLES))


LIBRARIES: dict[str, tuple[str, Callable[[Any, str | None], Any]]] = {
    "sb3": ("sb3_callback", lambda example, path: example.train(40_000, path)),
    "cleanrl": ("cleanrl_ppo", lambda example, path: example.train(example.Args(total_timesteps=50_000), path)),
    "rsl_rl": ("rsl_rl_runner", lambda example, path: example.train(60, path)),
    "skrl": ("skrl_agent", lambda example, path: example.train(3200, path)),
    "rl_games": ("rl_games_observer", lambda example, path: example.train(120, path)),
}  # the example script of every library, and how to call it


def measure(train: Callable[[str | None], Any], path: str | None) -> tuple[float, float]:
    """Return the wall time and the processor time of a training."""
    with contextlib.redirect_stdout(io.StringIO()):
        start = time.perf_counter(), time.process_time()
        train(path)
        return time.perf_counter() - start[0], time.process_time() - start[1]


@contextlib.contextmanager
def own_time(spent: list[float]) -> Iterator[None]:
    """Append the processor time that passes in Rollshape's part of a training."""
    from rollshape.integrations.recorder import Recorder

    original, total, depth = Recorder.call, 0.0, 0

    def call(self: Recorder, *args: Any, **options: Any) -> Any:
        nonlocal total, depth
        depth, start = depth + 1, time.thread_time()
        try:
            return original(self, *args, **options)
        finally:
            depth -= 1
            total += time.thread_time() - start if depth == 0 else 0.0

    Recorder.call = call  # type: ignore[method-assign]
    try:
        yield
    finally:
        Recorder.call = original  # type: ignore[method-assign]
        spent.append(total)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", choices=LIBRARIES)
    parser.add_argument("--repetitions", type=int, default=3)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(1)
    name, call = LIBRARIES[args.library]
    train = partial(call, importlib.import_module(name))
    times: dict[str, list[tuple[float, float]]] = {"without": [], "with": []}
    measured: list[int] = []
    spent: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for repetition in range(args.repetitions):
            for kind in ("without", "with") if repetition % 2 == 0 else ("with", "without"):
                path = str(Path(folder) / f"{repetition}") if kind == "with" else None
                with own_time(spent) if path else contextlib.nullcontext():
                    times[kind].append(measure(train, path))
            measured.append(len(list(Path(folder, str(repetition)).glob("probes/*/measurement.json"))))
    ratios = [
        [b[i] / a[i] for a, b in zip(times["without"], times["with"], strict=True)] for i in (0, 1)
    ]  # of wall time and processor time
    document = {
        "library": args.library,
        "wall_s": {kind: [round(x[0], 2) for x in values] for kind, values in times.items()},
        "cpu_s": {kind: [round(x[1], 2) for x in values] for kind, values in times.items()},
        "wall_ratio": round(statistics.median(ratios[0]), 3),
        "cpu_ratio": round(statistics.median(ratios[1]), 3),
        "own_cpu_share": [round(own / total[1], 4) for own, total in zip(spent, times["with"], strict=True)],
        "measurements": measured,
    }
    print(json.dumps(document))


if __name__ == "__main__":
    main()
