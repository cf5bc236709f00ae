"""Make records from verdicts, and write them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import get_args

from rollshape.files import write_bytes
from rollshape.geometry.rules.claims import CLAIMS
from rollshape.geometry.rules.evidence import RESULTS_FILE, ClaimResult, EffectSize, Verdict
from rollshape.studies.rules.base import Answer, Effect
from rollshape.studies.statistics import Summary

VERDICTS: dict[Answer, Verdict] = {
    "confirmed": "confirmed",
    "refuted": "refuted",
    "depends": "mixed",
    "not settled": "not settled",
}
assert set(VERDICTS.values()) == set(get_args(Verdict))


def make_effect(effect: Effect) -> EffectSize:
    value, low, high = (_round(number) for number in (effect.size.value, effect.size.low, effect.size.high))
    assert value is not None
    return EffectSize(effect.contrast, effect.measure, value, low, high)


def _round(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.4g}")


def answer_of(size: Summary) -> Answer:
    """Return the answer where a claim says that a difference is positive and nothing else is known."""
    if size.low is None or size.high is None:
        return "not settled"
    return "confirmed" if size.low > 0 else "refuted" if size.high < 0 else "not settled"


def merge(records: Sequence[ClaimResult], new: Iterable[ClaimResult]) -> list[ClaimResult]:
    """Replace records of the same claim, task and command; sort by claim and task."""
    merged = {(record.claim, record.task, record.command): record for record in (*records, *new)}
    order = list(CLAIMS)
    unknown = {record.claim for record in merged.values()} - CLAIMS.keys()
    if unknown:
        raise SystemExit(f"unknown claims: {', '.join(sorted(unknown))}")
    return sorted(merged.values(), key=lambda record: (order.index(record.claim), record.task, record.command))


def write(records: Sequence[ClaimResult]) -> None:
    lines = ",\n".join(json.dumps(record.to_dict(), ensure_ascii=False) for record in records)
    write_bytes(RESULTS_FILE, f"[\n{lines}\n]\n".encode())
