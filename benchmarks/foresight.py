"""What a gradient probe knows about which shape learns best: predictors of progress against learning curves.

`collect` trains the first 20 % of one run per task, probes it at three checkpoints (a minute per task on an idle core)
and writes benchmarks/data/foresight. `score` compares the order of shapes that predictors give with the learning curves
of benchmarks/data/advise. `race` gives a prediction to the rule of `rollshape advise` as its prior, in replays.
docs/advise.md has the results.
Run: .venv/bin/python benchmarks/foresight.py collect|score|race
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from racing.tasks import TASKS

RESAMPLES = 2_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    collecting = commands.add_parser("collect", help="train and probe one run per task")
    collecting.add_argument("--scratch", type=Path, default=Path("runs/foresight"), help="folder of the runs")
    collecting.add_argument("--tasks", nargs="+", choices=[task.name for task in TASKS])
    for name, text in (("score", "compare predictions with learning curves"), ("race", "replay races with a prior")):
        reading = commands.add_parser(name, help=text)
        reading.add_argument("--half", choices=("tune", "score"), default="tune" if name == "race" else "score")
        reading.add_argument("--replays", type=int, default=200, help="per task and budget; of race")
    args = parser.parse_args()
    if args.command == "collect":
        from racing.probing import collect_probe

        for task in TASKS:
            if args.tasks is None or task.name in args.tasks:
                collect_probe(task, args.scratch)
                print(task.name, flush=True)
    elif args.command == "score":
        score(args.half)
    else:
        race(args.half, args.replays)
    return 0


def score(half: str) -> None:
    """Print the concordance of every predictor, by task and with an interval over tasks."""
    from racing.predictors import PREDICTORS, concordance, read_probe
    from racing.replay import read_tables

    tables = [(table, probe) for table in read_tables() if (probe := read_probe(table)) and probe["half"] == half]
    for kind in ("across", "within"):
        print(f"Pairs {kind} rollout sizes")
        for name, predict in PREDICTORS.items():
            found = {table.name: getattr(concordance(table, predict(table, probe)), kind) for table, probe in tables}
            shares = {task: hits / pairs for task, (hits, pairs) in found.items() if pairs}
            hits, pairs = (sum(counts) for counts in zip(*found.values(), strict=True))
            low, high = interval_over_tasks(shares)
            by_task = "  ".join(f"{task} {share:.2f}" for task, share in shares.items())
            print(f"  {name:58} {np.mean(list(shares.values())):.3f} [{low:.2f}, {high:.2f}]  "
                  f"{hits:g} of {pairs} pairs  {by_task}", flush=True)  # fmt: skip
    print("Regret of the shape that is predicted to be the best, without any race")
    for name, predict in PREDICTORS.items():
        regrets = {table.name: table.regret(int(predict(table, probe).argmax())) for table, probe in tables}
        low, high = interval_over_tasks(regrets)
        by_task = "  ".join(f"{task} {regret:.2f}" for task, regret in regrets.items())
        print(f"  {name:58} {np.mean(list(regrets.values())):.3f} [{low:.2f}, {high:.2f}]  {by_task}", flush=True)


def interval_over_tasks(shares: dict[str, float]) -> tuple[float, float]:
    """Return a 95 % interval of the mean; the two budgets of a task are resampled together."""
    tasks: dict[str, list[float]] = {}
    for name, share in shares.items():
        tasks.setdefault(name.split(",")[0], []).append(share)
    means = np.array([np.mean(values) for values in tasks.values()])
    picks = np.random.default_rng(0).integers(0, len(means), (RESAMPLES, len(means)))
    low, high = np.quantile(means[picks].mean(axis=1), (0.025, 0.975))
    return float(low), float(high)


def race(half: str, replays: int) -> None:
    """Print the regret of the racing rule with several priors."""
    from racing.predictors import PRIORS, read_probe, with_prior
    from racing.replay import read_tables
    from racing.score import replay, summarize

    tables = [(table, probe) for table in read_tables() if (probe := read_probe(table)) and probe["half"] == half]
    for name, prior in PRIORS.items():
        outcomes = {
            table.name: replay(table, with_prior(prior(table, probe)), replays, 0.15) for table, probe in tables
        }
        row = summarize(outcomes)
        by_task = "  ".join(f"{task} {values['mean']:.3f}" for task, values in row["tables"].items())
        print(f"{name:40} median {row['median_regret']:.3f}  mean {row['mean_regret']}  within 10 % {row['within']}  "
              f"{by_task}", flush=True)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
