"""The fault injection: its short version passes, and its checker reports what it should."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chaos.commands import Result, child_environment
from chaos.faults import KINDS, Outcome, Verdict
from chaos.judge import complaint, judge_resume, run_difference
from chaos.kinds.power import Disk
from chaos.table import format_failures, format_table
from chaos.trees import lost, read_tree, write_tree

MESSAGE = "error [disk]: the disk is full.\n  fix: Free some space.\n"
ERROR = json.dumps({"error": {"rule": "disk", "message": "the disk is full."}})


def test_the_short_version_passes(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "chaos", "--short", "--jobs", "1", "--json", str(tmp_path / "chaos.json")]
    done = subprocess.run(command, env=child_environment(), capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads((tmp_path / "chaos.json").read_text())
    assert document["faults"] == sum(kind.short for kind in KINDS.values())


def ended(code: int | None, out: str = ERROR, err: str = MESSAGE, exception: str = "") -> Result:
    return Result(("train", "--json"), code, out, err, exception)


def test_one_message_is_accepted() -> None:
    assert complaint(ended(1)) is None
    assert complaint(ended(0, "{}", "")) is None
    assert complaint(ended(1, '{"status": "diverged"}', "")) is None


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        (ended(None), "hang"),
        (ended(3), "exit code 3"),
        (ended(0, "{}"), "exit code 0 with an error message"),
        (ended(0, "", ""), "without one JSON document"),
        (ended(0, "{} {}", ""), "without one JSON document"),
        (ended(1, ERROR, ""), "0 messages"),
        (ended(1, ERROR, "error: no rule\n"), "0 messages"),
        (ended(2, ERROR, MESSAGE * 2), "2 messages"),
        (ended(1, ERROR, f"Traceback (most recent call last):\n{MESSAGE}"), "traceback"),
        (ended(1, exception="KeyError: 3"), "traceback: KeyError: 3"),
    ],
)
def test_anything_else_is_reported(result: Result, problem: str) -> None:
    assert problem in (complaint(result) or "")


def row(update: int, **values: Any) -> bytes:
    return json.dumps({"update": update, "entropy": 0.5, "sps": 100 + update, **values}).encode() + b"\n"


def finished_run(folder: Path, rows: bytes, parameters: bytes = b"arrays") -> Path:
    document = {"status": "done", "summary": {"final_return": 1.0, "sps": 3}}
    tree = {"metrics.jsonl": rows, "run.json": json.dumps(document).encode(), "checkpoints/000000002.eqx": parameters}
    write_tree(folder, tree)
    return folder


def test_times_may_differ_and_nothing_else(tmp_path: Path) -> None:
    reference = finished_run(tmp_path / "reference", row(1) + row(2))
    assert run_difference(reference, finished_run(tmp_path / "same", row(1, sps=7) + row(2))) is None
    others = {
        "entropy is 0.25": row(1) + row(2, entropy=0.25),
        "rows of updates [2, 1]": row(2) + row(1),
        "rows of updates [1]": row(1),
        "rows of updates [1, 1, 2]": row(1) * 2 + row(2),
    }
    for i, (difference, rows) in enumerate(others.items()):
        assert difference in (run_difference(reference, finished_run(tmp_path / str(i), rows)) or "")
    (reference / "run.json").write_text(json.dumps({"status": "done", "summary": {"final_return": 2.0}}))
    assert "ends as" in (run_difference(reference, tmp_path / "same") or "")


def test_what_was_readable_must_stay() -> None:
    before = {"metrics.jsonl": row(1) + row(2) + b'{"upd', "checkpoints/000000003.eqx": b"good", "run.json": b"{}"}
    assert lost(before, {**before, "run.json": b"[]", "metrics.jsonl": row(1) + row(2, sps=0)}) is None
    assert "row" in (lost(before, {**before, "metrics.jsonl": row(1)}) or "")
    assert lost(before, {**before, "metrics.jsonl": row(1)}, last_row=1) is None
    assert "gone" in (lost(before, {name: before[name] for name in ("metrics.jsonl", "run.json")}) or "")
    assert "changed" in (lost(before, {**before, "checkpoints/000000003.eqx": b"bad"}) or "")
    assert lost(before, {**before, "checkpoints/000000003.eqx": b"bad"}, ["checkpoints/000000003.eqx"]) is None


def test_verdicts_of_a_resume(tmp_path: Path) -> None:
    reference = finished_run(tmp_path / "reference", row(1) + row(2))
    run = finished_run(tmp_path / "run", row(1) + row(2))
    before = read_tree(run)

    def verdict(result: Result) -> Verdict:
        return judge_resume(reference, run, before, result, "fault").verdict

    assert verdict(ended(0, "{}", "")) is Verdict.IDENTICAL
    assert verdict(ended(1)) is Verdict.REFUSED
    assert verdict(ended(-11)) is Verdict.TRACEBACK
    (run / "metrics.jsonl").write_bytes(row(2))
    assert verdict(ended(0, "{}", "")) is Verdict.SILENT
    assert verdict(ended(1)) is Verdict.LOST


def test_power_loss_keeps_what_was_synced(tmp_path: Path) -> None:
    import random

    disk, rows, state = Disk(tmp_path), tmp_path / "metrics.jsonl", tmp_path / "state"
    rows.write_bytes(b"synced")
    with rows.open("rb") as file:
        disk.sync(file)
    with rows.open("ab") as file:
        file.write(b" and not")
    state.write_bytes(b"never synced")
    trees = [disk.after_power_loss(random.Random(seed)) for seed in range(50)]
    assert all(tree["metrics.jsonl"].startswith(b"synced") for tree in trees)
    assert {tree["metrics.jsonl"] for tree in trees} > {b"synced"}
    assert any("state" not in tree for tree in trees)
    assert any(tree.get("state") == b"" for tree in trees)


def test_the_table_counts_and_failures_say_how_to_repeat_them() -> None:
    outcomes = [
        Outcome("bitflip", 1, Verdict.IDENTICAL, "a", "", 0.1),
        Outcome("bitflip", 2, Verdict.SILENT, "b", "array 3 differs", 0.1),
        Outcome("rows", 0, Verdict.LOST, "c", "row 4", 0.1),
    ]
    assert "| bitflip | 2 | 1 | 0 | 1 | 0 | 0 |" in format_table(outcomes)
    assert "| total | 3 | 1 | 0 | 1 | 0 | 1 |" in format_table(outcomes)
    assert "--kind bitflip --seed 2: b\n    array 3 differs" in format_failures(outcomes)
