"""The table of outcomes per kind, the list of failures, and the JSON document."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from chaos.faults import KINDS, Outcome, Verdict

COLUMNS = {
    Verdict.IDENTICAL: "identical",
    Verdict.REFUSED: "refused with a message",
    Verdict.SILENT: "silent differences",
    Verdict.TRACEBACK: "tracebacks",
    Verdict.LOST: "lost rows",
}


def format_table(outcomes: Sequence[Outcome]) -> str:
    """Return a Markdown table with one line per kind and their sum."""
    names = [name for name in KINDS if any(outcome.kind == name for outcome in outcomes)]
    lines = [_cells("kind", "faults", *COLUMNS.values()), _cells("---", *["---:"] * (1 + len(COLUMNS)))]
    lines += [_line(name, [outcome for outcome in outcomes if outcome.kind == name]) for name in names]
    lines.append(_line("total", outcomes))
    return "\n".join(lines)


def _line(name: str, outcomes: Sequence[Outcome]) -> str:
    counts = Counter(outcome.verdict for outcome in outcomes)
    return _cells(name, str(len(outcomes)), *(str(counts[verdict]) for verdict in COLUMNS))


def _cells(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def format_failures(outcomes: Iterable[Outcome]) -> str:
    """Return a line per bad outcome with what reproduces it."""
    lines = []
    for outcome in outcomes:
        if not outcome.verdict.is_good:
            lines.append(f"{outcome.verdict}: --kind {outcome.kind} --seed {outcome.seed}: {outcome.fault}")
            lines.append(f"    {outcome.detail}")
    return "\n".join(lines)


def write_json(path: Path, outcomes: Sequence[Outcome], seconds: float) -> None:
    """Write counts per kind and all outcomes."""
    kinds = {
        name: dict(Counter(outcome.verdict.value for outcome in outcomes if outcome.kind == name))
        for name in KINDS
        if any(outcome.kind == name for outcome in outcomes)
    }
    document = {
        "faults": len(outcomes),
        "seconds": round(seconds, 1),
        "kinds": kinds,
        "outcomes": [outcome.to_dict() for outcome in outcomes],
    }
    path.write_text(json.dumps(document, indent=1))
