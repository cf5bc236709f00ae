"""What a fault is, what can come of it, and the registry of kinds."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chaos.arena import Arena


class Verdict(StrEnum):
    """What came of a fault; the first two are good."""

    IDENTICAL = "identical"
    REFUSED = "refused"
    SILENT = "silent difference"
    TRACEBACK = "traceback"  # also a hang, a wrong exit code, no message or more than one, broken JSON
    LOST = "lost"

    @property
    def is_good(self) -> bool:
        return self in (Verdict.IDENTICAL, Verdict.REFUSED)


@dataclass(frozen=True)
class Finding:
    """The verdict on a fault, what was done (`fault`), and what was observed (`detail`)."""

    verdict: Verdict
    fault: str
    detail: str = ""


@dataclass(frozen=True)
class Outcome:
    """A finding with the kind and the seed that reproduce it."""

    kind: str
    seed: int
    verdict: Verdict
    fault: str
    detail: str
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Outcome:
        return cls(**{**values, "verdict": Verdict(values["verdict"])})


Inject = Callable[["Arena", random.Random], Finding]


@dataclass(frozen=True)
class Kind:
    """A kind of fault: how one is injected, and how many there are in `make chaos` and in `make test`."""

    name: str
    inject: Inject
    count: int
    short: int


KINDS: dict[str, Kind] = {}


def kind(name: str, count: int, short: int = 0) -> Callable[[Inject], Inject]:
    """Register a function (arena, generator) → Finding as a kind of fault."""

    def register(inject: Inject) -> Inject:
        KINDS[name] = Kind(name, inject, count, short)
        return inject

    return register


def generator(kind: str, seed: int) -> random.Random:
    """Return the generator from which a fault draws everything random."""
    return random.Random(f"{kind}:{seed}")
