"""Planted failures in real libraries: does `rollshape diagnose` name what was planted?

    python benchmarks/planted.py train --python PEERS_PYTHON --out DIR [--libraries sb3 …] [--seeds 3 4] [--cases …]
    python benchmarks/planted.py score --out DIR [--json FILE]

`train` runs every case with the Python in which the libraries are installed and records it by Rollshape's integration;
runs that exist are kept. `score` diagnoses each run alone, with no target but the registered one, and prints the
confusion matrix (planted × named first): thresholds and cases were set on seed 0, other seeds are for scoring.

A planted failure is one only if it does harm: the run has made less than 75 % of the progress of the healthy run of the
same library, task and seed after as many timesteps. Planted runs without harm are counted separately.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from planted_runs.cases import CASES, HEALTHY, Case, is_complete, run_directory  # noqa: E402

LIBRARIES = ("sb3", "cleanrl", "rsl_rl", "skrl", "rl_games")
TUNING_SEED = 0
HARM = 0.75  # of the healthy run's progress: a planted run that makes less has failed


@dataclass(frozen=True)
class Outcome:
    """What a run was planted with, and what the diagnosis says."""

    library: str
    case: Case
    seed: int
    verdict: str
    is_bad: bool
    suspects: list[str]
    progress: float | None  # share of the healthy run's; None for a healthy run, or if that has not risen

    @property
    def is_harmed(self) -> bool:
        return self.progress is not None and self.progress < HARM

    @property
    def is_named_first(self) -> bool:
        return self.suspects[:1] == [self.case.suspect]

    @property
    def is_named(self) -> bool:
        return self.case.suspect in self.suspects[:2]

    @property
    def is_false_alarm(self) -> bool:
        return self.case.suspect is None and (self.is_bad or bool(self.suspects))

    def describe(self) -> str:
        progress = "" if self.progress is None else f", {self.progress:.0%} of the healthy run's progress"
        return f"{self.library}, {self.case.name}, seed {self.seed}: {self.verdict}{progress}, {self.suspects[:3]}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "library": self.library, "case": self.case.name, "planted": self.case.suspect, "seed": self.seed,
            "verdict": self.verdict, "bad": self.is_bad, "suspects": self.suspects, "progress": self.progress,
        }  # fmt: skip


def train(args: argparse.Namespace) -> None:
    source = os.pathsep.join([str(HERE.parent / "src"), str(HERE)])
    names = args.cases or [case.name for case in CASES]
    for library in args.libraries:
        seeds = ",".join(map(str, args.seeds))
        command = [args.python, "-m", "planted_runs", library, seeds, str(args.out), *names]
        subprocess.run(command, check=True, env=os.environ | {"PYTHONPATH": source})


def outcomes(out: Path) -> Iterator[Outcome]:
    """Diagnose every run that exists, each one alone; a planted one only beside its healthy run."""
    from rollshape.studies.diagnosis import diagnose

    for library in LIBRARIES:
        for case in CASES:
            paths = sorted((out / library).glob(f"{case.name}-[0-9]"))
            for path in (path for path in paths if is_complete(path, case)):
                seed = int(path.name.rpartition("-")[2])
                control = run_directory(out, library, HEALTHY[case.task], seed)
                if not is_complete(control, HEALTHY[case.task]):
                    print(f"{path} is left out: its healthy run is not complete.")
                    continue
                [found] = diagnose(path)
                suspects = [finding.rule for finding in found.suspects]
                share = progress(path, control, case.reward_scale) if case.suspect else None
                yield Outcome(library, case, seed, found.verdict.name, found.verdict.is_bad, suspects, share)


def progress(path: Path, control: Path, reward_scale: float) -> float | None:
    """Return a run's rise over that of the healthy run after as many timesteps; None if that has not risen.

    Both are counted from the start of the healthy run.
    """
    from rollshape.studies.learning_scores import read_learning_scores
    from rollshape.studies.levels import measure_levels
    from rollshape.studies.records import read_records

    [run], [healthy] = read_records(path), read_records(control)
    rows = [row for row in healthy.rows if row.timesteps <= run.rows[-1].timesteps]
    level = measure_levels(read_learning_scores(rows, 1))
    end = measure_levels(read_learning_scores(run.rows, 1)).end / reward_scale
    return (end - level.start) / level.rise if level.rise > 0 else None


def rates(found: Sequence[Outcome]) -> dict[str, Any]:
    """Return the shares that are published: named first, among the first two, false alarms."""
    planted = [outcome for outcome in found if outcome.case.suspect]
    harmed = [outcome for outcome in planted if outcome.is_harmed]
    healthy = [outcome for outcome in found if not outcome.case.suspect]
    return {
        "planted": len(planted),
        "without_harm": len(planted) - len(harmed),
        "harmed": len(harmed),
        "named_first": sum(outcome.is_named_first for outcome in harmed),
        "named_in_first_two": sum(outcome.is_named for outcome in harmed),
        "healthy": len(healthy),
        "false_alarms": sum(outcome.is_false_alarm for outcome in healthy),
    }


def markdown(found: Sequence[Outcome]) -> str:
    """Return the confusion matrix: one row per case, one column per suspect that was named first."""
    named = Counter((outcome.case.name, outcome.suspects[0] if outcome.suspects else "none") for outcome in found)
    columns = [*dict.fromkeys(case.suspect for case in CASES if case.suspect), *sorted({name for _, name in named})]
    columns = [name for name in dict.fromkeys(columns) if any(name == other for _, other in named)]
    lines = [f"| planted | runs | {' | '.join(columns)} |", "|---" * (len(columns) + 2) + "|"]
    for case in CASES:
        runs = sum(count for (name, _), count in named.items() if name == case.name)
        if not runs:
            continue
        cells = [str(named[case.name, column] or "") for column in columns]
        cells = [
            f"**{cell}**" if cell and column == (case.suspect or "none") else cell
            for cell, column in zip(cells, columns, strict=True)
        ]
        lines.append(f"| {case.name} | {runs} | {' | '.join(cells)} |")
    return "\n".join(lines)


def score(args: argparse.Namespace) -> None:
    found = list(outcomes(args.out))
    document: dict[str, Any] = {"runs": [outcome.to_dict() for outcome in found]}
    halves = {
        "tuning": [outcome for outcome in found if outcome.seed == TUNING_SEED],
        "scoring": [outcome for outcome in found if outcome.seed != TUNING_SEED],
    }
    for name, half in halves.items():
        if not half:
            continue
        document[name] = rates(half)
        counted = [outcome for outcome in half if outcome.case.suspect is None or outcome.is_harmed]
        print(f"\n{name}: {document[name]}\n\n{markdown(counted)}")
        for outcome in half:
            is_wrong = outcome.is_false_alarm if outcome.case.suspect is None else not outcome.is_named_first
            is_harmless = outcome.case.suspect is not None and not outcome.is_harmed
            if is_wrong or is_harmless:
                print(f"  {outcome.describe()}")
    if args.json:
        args.json.write_text(json.dumps(document, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    runs = commands.add_parser("train")
    runs.add_argument("--python", required=True)
    runs.add_argument("--libraries", nargs="+", choices=LIBRARIES, default=LIBRARIES)
    runs.add_argument("--seeds", nargs="+", type=int, default=[3, 4])
    runs.add_argument("--cases", nargs="+", choices=[case.name for case in CASES])
    runs.set_defaults(run=train)
    scores = commands.add_parser("score")
    scores.add_argument("--json", type=Path)
    scores.set_defaults(run=score)
    for command in (runs, scores):
        command.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
