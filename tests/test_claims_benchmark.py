"""benchmarks/claims.py: records come from data, and those of the package are what the data of the repository give."""

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.reports.runs import spec_of, write_run

from rollshape.geometry.rules.evidence import load_results
from rollshape.studies.groups import group_tasks
from rollshape.studies.records import read_records

ROOT = Path(__file__).parents[1]


@pytest.fixture
def evidence(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The package benchmarks/evidence, importable as its script imports it."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import evidence.advise_data
    import evidence.earlier
    import evidence.records
    import evidence.rescale
    import evidence.studies

    yield evidence
    for name in [name for name in sys.modules if name.partition(".")[0] == "evidence"]:
        del sys.modules[name]


def test_records_are_what_the_data_give(evidence: Any) -> None:
    """Run benchmarks/claims.py --write if this fails."""
    stored = [
        *evidence.advise_data.records_of_benchmark(),
        *evidence.rescale.records_of_rescale(),
        *evidence.earlier.records_of_earlier_results(),
    ]
    of_studies = [record for record in load_results() if record.origin == "study"]
    assert evidence.records.merge(of_studies, stored) == list(load_results())


def test_earlier_results_name_their_section(evidence: Any) -> None:
    text = (ROOT / "docs" / "results.md").read_text()
    for record in evidence.earlier.records_of_earlier_results():
        assert f"# {record.origin.partition('“')[2].rstrip('”')}\n" in text, record
        command = record.command.removeprefix("python ")
        assert command.partition(" --env")[0].split(" && ")[0] in text, record


def test_a_verdict_of_a_study_becomes_a_record(evidence: Any, tmp_path: Path) -> None:
    for size, end in ((64, 300.0), (512, 100.0), (1024, 200.0)):
        for seed in range(5):
            spec = spec_of(64, seed, num_minibatches=None, minibatch_size=size)
            write_run(tmp_path / f"{size}-{seed}", spec, end)
    tasks = group_tasks(read_records(tmp_path))
    judged = evidence.studies.judge("minibatch-32-to-256-is-best", tasks)
    assert [claim for claim, *_ in judged] == ["minibatch-range", "quarter", "policy-loss"]
    quarter = judged[1][3]
    assert quarter.answer == "refuted"
    effect = evidence.records.make_effect(quarter.effects[0])
    assert effect.contrast == "minibatch_size 512 minus minibatch_size 64"
    assert effect.low is not None
    assert effect.low < -100 < 0
    assert effect.value == float(f"{effect.value:.4g}")


def test_commands_are_kept_without_place_and_cores(evidence: Any) -> None:
    shorten = evidence.studies.shorten_command
    assert shorten("rollshape study epochs --seeds 5 --jobs 1 --out=/tmp/x") == "rollshape study epochs --seeds 5"
    assert shorten("rollshape study x.yaml --out 'a b' --no-probes") == "rollshape study x.yaml --no-probes"


def test_a_record_replaces_that_of_the_same_command(evidence: Any) -> None:
    first, *others = load_results()
    changed = type(first)(**{**vars(first), "verdict": "mixed" if first.verdict != "mixed" else "refuted"})
    merged = evidence.records.merge(load_results(), [changed])
    assert len(merged) == len(others) + 1
    assert changed in merged
    assert first not in merged
