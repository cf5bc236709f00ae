"""Records of results that were measured before records existed: benchmarks/data/claims-earlier.json.

The file holds the numbers of docs/results.md with their commands. Differences between groups are computed here from the
groups' own intervals; an interval that was not written down is null. A verdict is the one that the study gave; where
the claim is only that one group is above another, and no study judged it, it follows from the difference.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypedDict

from evidence.records import VERDICTS, answer_of, make_effect
from rollshape.geometry.rules.evidence import ClaimResult
from rollshape.studies.rules.base import Answer, Effect
from rollshape.studies.rules.comparison import combine_answers
from rollshape.studies.statistics import Summary, difference_of_summaries
from rollshape.typed import check_types

FILE = Path(__file__).parents[1] / "data" / "claims-earlier.json"


class Contrast(TypedDict, total=False):
    """`second` minus `first`, or one group alone: its value with its interval."""

    measure: str
    first: str
    second: str
    first_value: list[float | None]
    second_value: list[float | None]


class Earlier(TypedDict):
    claim: str
    task: str
    answer: Answer | None
    contrasts: list[Contrast]
    seeds: int
    scope: str
    command: str
    section: str
    date: str  # of the commit that added the numbers


def records_of_earlier_results() -> list[ClaimResult]:
    document = json.loads(FILE.read_text(encoding="utf-8"))
    check_types(document, list[Earlier], "results")
    return [_make_record(entry) for entry in document]


def _make_record(entry: dict[str, Any]) -> ClaimResult:
    effects = [_make_effect(contrast, entry["seeds"]) for contrast in entry["contrasts"]]
    answer: Answer = entry["answer"] or combine_answers([answer_of(effect.size) for effect in effects])
    return ClaimResult(
        claim=entry["claim"],
        task=entry["task"],
        verdict=VERDICTS[answer],
        effects=tuple(map(make_effect, effects)),
        seeds=entry["seeds"],
        scope=entry["scope"],
        command=entry["command"],
        date=entry["date"],
        origin=f"docs/results.md, “{entry['section']}”",
    )


def _make_effect(contrast: dict[str, Any], seeds: int) -> Effect:
    second = _summary(contrast["second_value"], seeds)
    if "first" not in contrast:
        return Effect(contrast["second"], contrast["measure"], second)
    difference = difference_of_summaries(_summary(contrast["first_value"], seeds), second)
    return Effect(f"{contrast['second']} minus {contrast['first']}", contrast["measure"], difference)


def _summary(values: list[float], seeds: int) -> Summary:
    value, low, high = values if len(values) == 3 else (values[0], None, None)
    return Summary(value, low, high, seeds, "mean")
