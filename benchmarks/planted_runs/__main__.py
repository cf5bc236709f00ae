"""Train cases one after the other: python -m planted_runs LIBRARY SEED,… OUT CASE …, with the Python of the peers."""

from __future__ import annotations

import importlib
import shutil
import sys
import time
import warnings
from pathlib import Path

from planted_runs.cases import CASES, is_complete, run_directory

if __name__ == "__main__":
    library, seeds, out, *names = sys.argv[1:]
    warnings.filterwarnings("ignore", category=UserWarning)
    train = importlib.import_module(f"planted_runs.train_{library}").train
    for seed in map(int, seeds.split(",")):
        for case in CASES:
            path = run_directory(Path(out), library, case, seed)
            if library in case.impossible_in or case.name not in names:
                continue
            if not is_complete(path, case):
                shutil.rmtree(path, ignore_errors=True)
                start = time.process_time()
                train(case, seed, path)
                print(f"{library}, {case.name}, seed {seed}: {time.process_time() - start:.1f} s of CPU", flush=True)
