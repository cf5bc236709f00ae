"""Does a shape that changes during training beat a good fixed shape?

`run` trains every task in ten phases with every rule of adapting/rules.py, from the shape that `rollshape advise` would
choose, and appends the runs to benchmarks/data/adaptive.jsonl; it can be stopped and resumed. `check` trains the
control, a phased run whose shape stays the same, and compares it with the stored curve of the same fixed shape. `score`
compares the runs with the best and with the advised fixed shape; docs/advise.md has the results.
Run: .venv/bin/python benchmarks/adaptive.py run|check|score
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from adapting.baselines import read_baseline
from adapting.rules import RULES, Shape
from racing.tasks import TASKS

DATA = Path(__file__).parent / "data" / "adaptive.jsonl"
NAMES = ("cartpole", "frozen-lake", "pendulum", "mountain-car", "acrobot", "delay-chain")
MEASURED = tuple(name for name in RULES if name != "constant")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "check", "score"))
    parser.add_argument("--tasks", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--rules", nargs="+", choices=list(RULES), default=MEASURED)
    parser.add_argument("--seeds", type=int, default=5, help="seeds per rule, at most 5: those of the fixed shapes")
    args = parser.parse_args()
    if args.command == "score":
        from adapting.score import print_tables

        print_tables(DATA, args.tasks, args.rules)
    elif args.command == "check":
        return 0 if sum(not check(name) for name in args.tasks) == 0 else 1
    else:
        for name in args.tasks:
            run(name, args.rules, min(args.seeds, 5))
    return 0


def run(name: str, rules: tuple[str, ...], seeds: int) -> None:
    """Train what the data file does not have yet."""
    from adapting.phased import PhasedTrainer

    rows = [json.loads(line) for line in DATA.read_text().splitlines()] if DATA.exists() else []
    done = {(row["task"], row["rule"], row["start"], row["seed"]) for row in rows}
    start = read_baseline(name).start
    trainer = PhasedTrainer(next(task for task in TASKS if task.name == name))
    for seed in range(seeds):
        for rule in rules:
            if (name, rule, str(start), seed) in done:
                continue
            began = time.process_time()
            result = trainer.run(rule, start, seed)
            with DATA.open("a") as file:
                file.write(json.dumps(result.to_dict(), ensure_ascii=False, separators=(",", ":")) + "\n")
            shapes = " ".join(str(Shape(*shape)) for shape in result.shapes)
            print(f"{time.strftime('%H:%M:%S')} {name} {rule} seed {seed}: {result.score:.4g}  "
                  f"{time.process_time() - began:.1f} s  {shapes}", flush=True)  # fmt: skip


def check(name: str) -> bool:
    """Return whether the control repeats the stored evaluations of the same fixed shape, which have 5 digits."""
    from adapting.phased import PhasedTrainer

    baseline = read_baseline(name)
    shape = baseline.shape(baseline.advised)
    stored = baseline.table.curves[baseline.advised, 0]
    trainer = PhasedTrainer(next(task for task in TASKS if task.name == name), evaluated=len(stored))
    returns = trainer.run("constant", shape, 0).eval_return
    is_equal = [f"{value:.5g}" for value in returns] == [f"{value:.5g}" for value in stored]
    print(f"{name} {shape} seed 0: {'equal' if is_equal else 'differs'} at {len(stored)} evaluations", flush=True)
    return is_equal


if __name__ == "__main__":
    sys.exit(main())
