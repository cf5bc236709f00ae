"""What was measured about the claims of docs/claims.md: verdicts and effects, from data to the package and the page.

rollshape study learning-rate --out DIR
.venv/bin/python benchmarks/claims.py DIR …            # prints the records
.venv/bin/python benchmarks/claims.py DIR … --write    # also updates claim_results.json; then run docs/build.py

Records of the benchmark of `advise`, of `rescale` and of earlier results are computed from the data of this repository.
Those of studies are replaced if the folder of the study is given, else kept.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from evidence.advise_data import records_of_benchmark
from evidence.earlier import records_of_earlier_results
from evidence.records import merge, write
from evidence.rescale import records_of_rescale
from evidence.studies import records_of_study

from rollshape.geometry.rules.evidence import RESULTS_FILE, parse_results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dirs", type=Path, nargs="*", metavar="DIR", help="folders of studies")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS_FILE.name}")
    args = parser.parse_args()
    known = parse_results(RESULTS_FILE.read_bytes()) if RESULTS_FILE.exists() else ()
    of_studies = [record for record in known if record.origin == "study"]
    new = [record for folder in args.dirs for record in records_of_study(folder)]
    stored = [*records_of_benchmark(), *records_of_rescale(), *records_of_earlier_results()]
    records = merge(of_studies, [*stored, *new])
    for record in records:
        print(f"{record.claim}: {record.verdict} on {record.scope}")
        for effect in record.effects:
            print(f"    {effect}")
    if args.write:
        write(records)
        print(f"written: {RESULTS_FILE}")


if __name__ == "__main__":
    main()
