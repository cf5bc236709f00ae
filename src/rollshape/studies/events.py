"""What happens while a study runs, as `run_study` reports it to its caller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from rollshape.studies.metrics import MetricsRow
from rollshape.studies.store import TrialResult

EventKind = Literal["begin", "row", "end", "taken", "retry", "died", "note"]


@dataclass(frozen=True)
class Event:
    """A trial began, logged a row or ended; another process has it (taken), its worker died, or it is tried again.

    The `reason` of a note is a sentence; `trial` is empty if the note is about the study as a whole.
    """

    kind: EventKind
    trial: str
    row: MetricsRow | None = None
    result: TrialResult | None = None
    reason: str = ""


OnEvent = Callable[[Event], None]
