"""Evidence for `rollshape advise`: full studies of many shapes, and racing rules that are replayed on them.

`collect` runs every shape with every seed to the end (some core-hours; it can be stopped and resumed) and writes
the learning curves to benchmarks/data/advise, one file per task. A task that has data gets the seeds that it lacks, and
one of the stored seeds is run again to check that it reproduces. Everything else reads only these files.
`score` replays the rule of `rollshape advise` beside other rules, Optuna (`pip install optuna`; its GP sampler needs
torch) and fixed choices, and writes benchmarks/data/advise-HALF.json; docs/advise.md has the results. `simplify`
replays the rule without one of its parts, `budgets` the rule with more seeds and larger budgets.
Run: .venv/bin/python benchmarks/advise.py collect|score|simplify|budgets
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from racing.tasks import TASKS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    collecting = commands.add_parser("collect", help="run the studies")
    collecting.add_argument("--scratch", type=Path, default=Path("studies/advise"), help="folder of the runs")
    collecting.add_argument("--pause-file", type=Path, help="wait between two trials while this file exists")
    collecting.add_argument("--tasks", nargs="+", choices=[task.name for task in TASKS])
    collecting.add_argument("--seeds", type=int, default=10, help="seeds per shape, at most; missing ones are added")
    scoring = commands.add_parser("score", help="replay all methods on one half of the tasks")
    scoring.add_argument("--half", choices=("tune", "score"), default="score")
    scoring.add_argument("--budget", type=float, default=0.15, help="share of the full cost")
    scoring.add_argument("--scale", type=float, default=1.0, help="factor of the number of replays")
    spending = commands.add_parser("budgets", help="replay our rule with larger budgets and more seeds")
    spending.add_argument("--half", choices=("tune", "score"), default="score")
    commands.add_parser("simplify", help="replay simpler rules on the tuning half, at equal cost")
    args = parser.parse_args()
    if args.command == "simplify":
        from racing.score import score, simpler_rules

        score("tune", 0.15, chosen=simpler_rules())
        return 0
    if args.command == "budgets":
        from racing.score import score_budgets

        score_budgets(args.half)
        return 0
    if args.command == "score":
        from racing.score import held_out, interval_coverage, resolutions, score, write_results

        results = score(args.half, args.budget, args.scale)
        every, others = held_out(args.half, args.budget, args.scale)
        print(f"rollshape advise: mean regret {every:.3f} by all seeds, {others:.3f} by those that were not raced")
        intervals = interval_coverage(args.half, args.budget, args.scale)
        print(f"95 % intervals of finalists: {intervals}")
        for name, (gain, error) in resolutions(args.half).items():
            print(
                f"{name}: the best shape gains {gain:.3g}; standard error of a shape's final score {error:.1%} of that"
            )
        if (args.scale, args.budget) == (1.0, 0.15):
            write_results(results, Path(__file__).parent / "data" / f"advise-{args.half}.json")
        return 0
    from racing.collect import collect

    for task in TASKS:
        if args.tasks is None or task.name in args.tasks:
            collect(replace(task, seeds=min(task.seeds, args.seeds)), args.scratch, args.pause_file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
