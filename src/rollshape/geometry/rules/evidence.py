"""What was measured about claims: the records of claim_results.json, which benchmarks/claims.py writes.

Only reads JSON, so that the planner, its page in a browser and the docs can show it.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from rollshape.typed import check_types, parse_json

RESULTS_FILE = Path(__file__).with_name("claim_results.json")
Verdict = Literal["confirmed", "refuted", "mixed", "not settled"]
NOT_TESTED = "not tested"


@dataclass(frozen=True)
class EffectSize:
    """A measured number with its 95 % interval; an end is None where it is unknown or the runs do not bound it."""

    contrast: str  # `1024×2 minus 2×1024`
    measure: str  # `final return`
    value: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        interval = "no interval" if self.low is None or self.high is None else f"{self.low:.4g} … {self.high:.4g}"
        value = f"{self.value:+.4g}" if " minus " in self.contrast else f"{self.value:.4g}"
        return f"{self.contrast}, {self.measure}: {value} ({interval})"


@dataclass(frozen=True)
class ClaimResult:
    """What one study or benchmark says about a claim on one task."""

    claim: str  # id of a Claim
    task: str
    verdict: Verdict
    effects: tuple[EffectSize, ...]
    seeds: int  # runs per group; the smallest number
    scope: str  # task, budget, learning rate and seeds
    command: str
    date: str  # of the last run; ISO 8601
    origin: str  # what the record was computed from

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> ClaimResult:
        """Return the record that `to_dict` wrote; a ValueError names a wrong or missing value."""
        missing = [name for name in cls.__dataclass_fields__ if name not in document]
        unknown = [name for name in document if name not in cls.__dataclass_fields__]
        if missing or unknown:
            raise ValueError(f"a record has no {', '.join(missing)}" if missing else f"unknown: {', '.join(unknown)}")
        try:
            effects = tuple(EffectSize(**effect) for effect in document["effects"])
        except TypeError as error:
            raise ValueError(f"an effect of {document['claim']} is not a record: {error}") from None
        result = cls(**{**document, "effects": effects})
        check_types(result, cls, f"{document['claim']}, {document['task']}")
        result.check()
        return result

    def check(self) -> None:
        """Raise a ValueError if the record contradicts itself or does not say how it was measured."""
        where = f"{self.claim}, {self.task}"
        for effect in self.effects:
            if effect.low is not None and effect.high is not None and not effect.low <= effect.value <= effect.high:
                raise ValueError(f"{where}: {effect} is outside of its interval")
        if self.seeds < 1 or not self.command or not self.scope:
            raise ValueError(f"{where}: seeds, command and scope are required")
        datetime.date.fromisoformat(self.date)


@cache
def load_results() -> tuple[ClaimResult, ...]:
    """Return all records of the package."""
    return parse_results(RESULTS_FILE.read_bytes())


def parse_results(content: bytes | str) -> tuple[ClaimResult, ...]:
    """Return the records of a JSON document; a ValueError names a wrong value."""
    documents = parse_json(content)
    check_types(documents, list[dict[str, Any]], "the document")
    return tuple(ClaimResult.from_dict(document) for document in documents)
