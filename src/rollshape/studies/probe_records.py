"""Stored probes as studies and reports read them: the probe itself, or the reason why there is none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rollshape.probes.result import Probe
from rollshape.probes.rewards import RewardProbe

READ_ERRORS = (TypeError, ValueError, AttributeError, LookupError)


@dataclass(frozen=True, slots=True)
class FailedProbe:
    """A probe without a result. `update` is None where its document does not say."""

    update: int | None
    error: str


StoredProbe = Probe | RewardProbe | FailedProbe


def read_probe_file(path: Path) -> StoredProbe:
    """Read the file of a probe; one that cannot be read is a failed probe."""
    try:
        document = json.loads(path.read_text())
    except ValueError as error:
        return _unreadable(None, f"{path} is not JSON ({error})")
    if not isinstance(document, dict):
        return _unreadable(None, f"{path} holds no JSON object")
    return read_probe(document)


def read_probe(document: Mapping[str, Any]) -> StoredProbe:
    """Read the document of a probe, of a reward probe, or of a probe that failed.

    A document that lacks entries, such as one of an older version, is a failed probe.
    """
    update = document.get("update")
    if document.get("error"):
        return FailedProbe(update, document["error"])
    kind = RewardProbe if "reward_surface" in document else Probe
    try:
        return kind.from_dict(document)
    except KeyError as error:
        return _unreadable(update, f"the entry {error} is missing from its document")
    except READ_ERRORS as error:
        return _unreadable(update, f"its document has an unknown layout ({error})")


def _unreadable(update: int | None, reason: str) -> FailedProbe:
    fix = "It may be from another version of Rollshape: run `rollshape probe` again."
    return FailedProbe(update, f"{reason}. {fix}")
