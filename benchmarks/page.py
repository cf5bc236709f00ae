"""The list of runs of the page with 1,000 runs: how long the first request and the next ones take.

CPU time of the server's process, medians of several folders or requests, next to the time that only reading and parsing
the same files takes. Run: .venv/bin/python benchmarks/page.py [--runs 1000] [--repeat 5]
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.responses import JSONResponse

from rollshape.training.rundir import RunDirectory
from rollshape.training.spec import Spec
from rollshape.web.folder import Folder
from rollshape.web.runs import RunList

ROWS = 50


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the list of runs.")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    root = Path(tempfile.mkdtemp())
    try:
        write_runs(root, arguments.runs)
        files = [path for path in root.rglob("*") if path.name in ("run.json", "metrics.jsonl")]
        size = sum(path.stat().st_size for path in files)
        print(f"{arguments.runs:,} runs, {size / 1e6:.1f} MB")
        lists = [RunList(Folder(root)) for _ in range(arguments.repeat)]
        show("read and parse the files", [seconds(lambda: parse(files)) for _ in lists])
        show("first request", [seconds(lambda runs=runs: answer(runs)) for runs in lists])  # type: ignore[misc]
        show("next request", [seconds(lambda runs=runs: answer(runs)) for runs in lists])  # type: ignore[misc]
    finally:
        shutil.rmtree(root)


def write_runs(root: Path, count: int) -> None:
    """Write run directories as `rollshape train` leaves them, in folders of 50."""
    spec = Spec(num_envs=64, num_steps=32, total_timesteps=100 * 2048)
    plan = spec.plan()
    row: dict[str, Any] = dict.fromkeys(
        ("episodic_length", "policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction", "ratio_ess",
         "grad_norm", "explained_variance", "learning_rate", "rollout_s", "update_s", "sps"), 0.123456789)  # fmt: skip
    lines = "".join(
        json.dumps(row | {"update": i, "timesteps": 2048 * i, "wall_time": 0.1 * i, "eval_return": 1.5 * i}) + "\n"
        for i in range(1, ROWS + 1)
    )
    for number in range(count):
        path = root / f"sweep{number // 50}" / f"run{number}"
        path.mkdir(parents=True)
        RunDirectory(path).write(
            {"spec": spec.to_dict(), "plan": plan.to_dict(), "versions": {"jax": "1"}, "status": "done",
             "summary": {"final_return": float(number), "timesteps": 204_800, "sps": 10_000.0}}
        )  # fmt: skip
        (path / "metrics.jsonl").write_text(lines)


def parse(files: list[Path]) -> None:
    for path in files:
        content = path.read_bytes()
        json.loads(content if path.name == "run.json" else content.splitlines()[-1])


def answer(runs: RunList) -> bytes:
    return JSONResponse(runs.document()).body


def seconds(function: Callable[[], object]) -> float:
    """Return the CPU time of a call."""
    start = time.process_time()
    function()
    return time.process_time() - start


def show(name: str, times: list[float]) -> None:
    median, least = (1000 * value for value in (statistics.median(times), min(times)))
    print(f"{name:26} {median:6.0f} ms CPU (median of {len(times)}, least {least:.0f})")


if __name__ == "__main__":
    main()
