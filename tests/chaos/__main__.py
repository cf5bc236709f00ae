"""`python -m chaos`: inject faults, print the table, and exit with 1 if any ended badly."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from chaos.arena import Arena, default_folder
from chaos.faults import KINDS, Outcome, Verdict, generator
from chaos.pool import Fault, run_pool
from chaos.table import format_failures, format_table, write_json

CACHE = Path(__file__).parents[2] / ".pytest_jax_cache"
# Small programs, compiled once and shared by all processes; bit-identical ends need the same flags everywhere.
ENVIRONMENT = {
    "JAX_NUM_CPU_DEVICES": "2",
    "JAX_COMPILATION_CACHE_DIR": str(CACHE),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "XLA_FLAGS": "--xla_backend_optimization_level=0",
    "JAX_PLATFORMS": "cpu",
}


def main() -> int:
    args = parse_arguments()
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    import chaos.kinds  # noqa: F401 (registers the kinds)

    if args.worker:
        return serve(args.arena)
    arena = args.arena or default_folder()
    began = time.monotonic()
    try:
        faults = choose_faults(args.kind, args.seed, args.count, short=args.short)
        outcomes = run_pool(faults, arena, min(args.jobs, len(faults)), print_failure)
    finally:
        if args.arena is None:
            shutil.rmtree(arena, ignore_errors=True)
    seconds = time.monotonic() - began
    print(f"\n{format_table(outcomes)}\n\n{len(outcomes)} faults in {seconds:.0f} s")
    if args.json is not None:
        write_json(args.json, outcomes, seconds)
    if len(faults) == 1:
        print(json.dumps(outcomes[0].to_dict(), indent=2))
    return 0 if all(outcome.verdict.is_good for outcome in outcomes) else 1


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("--kind", action="append", help="only this kind of fault (may be repeated)")
    parser.add_argument("--seed", type=int, help="only the fault of this seed")
    parser.add_argument("--count", type=int, help="faults per kind, instead of the default of the kind")
    parser.add_argument("--short", action="store_true", help="the few faults of `make test`")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="worker processes")
    parser.add_argument("--json", type=Path, help="write counts and outcomes to this file")
    parser.add_argument("--arena", type=Path, help="keep the undisturbed runs in this folder, and use those in it")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def choose_faults(kinds: Sequence[str] | None, seed: int | None, count: int | None, *, short: bool) -> list[Fault]:
    """Return (kind, seed) of the faults to inject; the slow kinds come first, so that no worker ends long after."""
    unknown = set(kinds or ()) - set(KINDS)
    if unknown:
        raise SystemExit(f"unknown kind {', '.join(sorted(unknown))}; known: {', '.join(KINDS)}")
    faults: list[Fault] = []
    for name in kinds or KINDS:
        number = KINDS[name].short if short else KINDS[name].count
        seeds = [seed] if seed is not None else range(number if count is None else count)
        faults += [(name, seed) for seed in seeds]
    return faults


def print_failure(outcome: Outcome) -> None:
    if not outcome.verdict.is_good:
        print(format_failures([outcome]), flush=True)


def serve(folder: Path) -> int:
    """Inject the faults that arrive on stdin; nothing but outcomes goes to stdout."""
    arena, out = Arena(folder), os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for line in sys.stdin:
        name, seed = json.loads(line)
        began = time.monotonic()
        try:
            finding = KINDS[name].inject(arena, generator(name, seed))
            outcome = Outcome(name, seed, finding.verdict, finding.fault, finding.detail, 0.0)
        except Exception:  # the harness itself failed: never a pass
            detail = "the harness failed: " + traceback.format_exc()
            outcome = Outcome(name, seed, Verdict.TRACEBACK, "(not known)", detail, 0.0)
        values = {**outcome.to_dict(), "seconds": round(time.monotonic() - began, 2)}
        out.write(json.dumps(values) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
