"""The strict checker: how a command ended, and whether a run or a study equals the undisturbed one."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from chaos.commands import Result
from chaos.faults import Finding, Verdict
from chaos.trees import Tree, lost, read_tree, rows_of, without_times

MESSAGE = re.compile(r"^error \[[a-z0-9-]+\]: \S", re.MULTILINE)
STATED = ("diverged", "interrupted", "failed")  # a status in the JSON document that explains exit code 1


def complaint(result: Result, codes: Collection[int | None] = (0, 1, 2)) -> str | None:
    """Return what is wrong with how a command ended, or None: success, or exactly one message of ours."""
    if result.exception:
        return f"traceback: {_last_line(result.exception)}"
    for text in (result.err, result.out):
        if "Traceback (most recent call last)" in text:
            return f"traceback: {_last_line(text)}"
    if result.code is None:
        return "hang: the command had to be killed"
    if result.code not in codes:
        return f"exit code {result.code}: {_last_line(result.err)}"
    messages = len(MESSAGE.findall(result.err))
    if "--json" in result.argv and result.code >= 0 and result.document is None:
        return f"exit code {result.code} without one JSON document on stdout: {_last_line(result.err)}"
    if result.code == 0:
        return f"exit code 0 with an error message: {_last_line(result.err)}" if messages else None
    if result.code in (1, 2) and messages != 1 and not _is_stated(result):
        return f"exit code {result.code} with {messages} messages: {_last_line(result.err)}"
    return None


def _is_stated(result: Result) -> bool:
    document = result.document
    return isinstance(document, dict) and document.get("status") in STATED


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else "(nothing on stderr)"


def message_of(result: Result) -> str:
    """Return the message of a refused command as one short line."""
    match = re.search(r"^error .*", result.err, re.MULTILINE)
    return match.group()[:300] if match else json.dumps(result.document)[:300]


def run_difference(reference: Path, run: Path, *, parameters: bool = True) -> str | None:
    """Return how a finished run differs from the undisturbed one: metrics, parameters, summary. None: not at all."""
    if not (run / "metrics.jsonl").exists():
        return "metrics.jsonl is missing"
    expected, actual = (rows_of((folder / "metrics.jsonl").read_bytes()) for folder in (reference, run))
    updates = [row.get("update") for row in actual]
    if updates != [row["update"] for row in expected]:
        return f"rows of updates {updates} instead of 1…{expected[-1]['update']}"
    for row, other in zip(expected, actual, strict=True):
        if without_times(row) != without_times(other):
            return f"the row of update {row['update']} differs: {_first_difference(row, other)}"
    difference = _parameter_difference(reference, run) if parameters else None
    if difference:
        return difference
    documents = [json.loads((folder / "run.json").read_bytes()) for folder in (reference, run)]
    ends = [(document["status"], without_times(document.get("summary", {}))) for document in documents]
    return None if ends[0] == ends[1] else f"run.json ends as {ends[1]} instead of {ends[0]}"


def _first_difference(row: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    row, other = without_times(row), without_times(other)
    name = next(
        name for name in sorted({*row, *other}) if (name in row, row.get(name)) != (name in other, other.get(name))
    )
    return f"{name} is {other.get(name, 'missing')!r} instead of {row.get(name, 'missing')!r}"


def _parameter_difference(reference: Path, run: Path) -> str | None:
    """Compare the last checkpoints: their bytes, and if these differ the arrays in them."""
    newest = [max((folder / "checkpoints").glob("[0-9]*.eqx"), default=None) for folder in (reference, run)]
    assert newest[0] is not None
    if newest[1] is None or newest[1].name != newest[0].name:
        return f"the last checkpoint is {newest[1] and newest[1].name} instead of {newest[0].name}"
    if newest[0].read_bytes() == newest[1].read_bytes():
        return None
    import jax
    import numpy as np

    from rollshape.errors import RollshapeError
    from rollshape.training.setup import open_run

    try:
        leaves = [jax.tree.leaves(open_run(folder).state) for folder in (reference, run)]
    except RollshapeError as error:
        return f"the last checkpoint cannot be read: {error.message}"
    for i, (leaf, other) in enumerate(zip(*leaves, strict=True)):
        if np.asarray(leaf).tobytes() != np.asarray(other).tobytes():
            return f"array {i} of the last checkpoint differs"
    return None


def judge_resume(
    reference: Path, run: Path, before: Tree, result: Result, fault: str,
    damaged: Collection[str] = (), last_row: int | None = None,
) -> Finding:  # fmt: skip
    """Judge `train --resume` in a run directory: the end of the reference, or a message and nothing lost.

    A run that was done is only read: a damaged checkpoint in it stays what it is until a command needs it.
    """
    problem = complaint(result)
    if problem is not None:
        return Finding(Verdict.TRACEBACK, fault, problem)
    if result.code == 0:
        difference = run_difference(reference, run, parameters=not is_untouched(damaged, before, read_tree(run)))
        return Finding(Verdict.SILENT if difference else Verdict.IDENTICAL, fault, difference or "")
    missing = lost(before, read_tree(run), damaged, last_row)
    return Finding(Verdict.LOST if missing else Verdict.REFUSED, fault, missing or message_of(result))


def must_resume(finding: Finding) -> Finding:
    """Return the finding on a run in which nothing was damaged: refusing to continue it would lose it."""
    if finding.verdict is not Verdict.REFUSED:
        return finding
    return Finding(Verdict.LOST, finding.fault, f"cannot be resumed: {finding.detail}")


def is_untouched(damaged: Collection[str], before: Tree, after: Tree) -> bool:
    """Return whether the damaged files are checkpoints that the command left as they were, like all others."""
    same = all(after.get(name) == content for name, content in before.items() if "checkpoints/" in name)
    return bool(damaged) and same and all("checkpoints/" in name for name in damaged)


def judge_reading(expected: Collection[str], folder: Path, before: Tree, result: Result, fault: str) -> Finding:
    """Judge a command that only reads a run or a study: one of the expected documents, or a message."""
    problem = complaint(result)
    if problem is not None:
        return Finding(Verdict.TRACEBACK, fault, problem)
    missing = lost(before, read_tree(folder))
    if missing is not None:
        return Finding(Verdict.LOST, fault, missing)
    if result.code != 0:
        return Finding(Verdict.REFUSED, fault, message_of(result))
    is_expected = comparable(result.document) in expected
    return Finding(Verdict.IDENTICAL if is_expected else Verdict.SILENT, fault, "" if is_expected else "other output")


def comparable(document: Any) -> str:
    """Return a JSON document as text that is equal for equal results."""
    return json.dumps(without_times(document) if isinstance(document, dict) else document, sort_keys=True)
