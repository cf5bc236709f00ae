"""Stored probes as studies and reports read them: the probe itself, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rollshape.errors import RequestError
from rollshape.probes.files import read_document
from rollshape.probes.result import Probe
from rollshape.probes.rewards import RewardProbe
from rollshape.studies.documents import reading
from rollshape.typed import check_types

FIX = "It may be from another version of Rollshape: run `rollshape probe` again."


@dataclass(frozen=True, slots=True)
class FailedProbe:
    """A probe without a result. `update` is None where its document does not say."""

    update: int | None
    error: str


StoredProbe = Probe | RewardProbe | FailedProbe


def read_probe_file(path: Path) -> StoredProbe:
    """Read the file of a probe; one that cannot be read is a failed probe."""
    update = None
    try:
        document = read_document(path)
        update = document.get("update")
        with reading(path, FIX):
            return read_probe(document)
    except RequestError as error:
        return FailedProbe(update if isinstance(update, int) else None, f"{error.message} {error.fix}")


def read_probe(document: Mapping[str, Any]) -> StoredProbe:
    """Read the document of a probe, of a reward probe, or of a probe that failed."""
    if "error" in document:
        failed = FailedProbe(document["update"], document["error"])
        check_types(failed, FailedProbe)
        return failed
    kind = RewardProbe if "reward_surface" in document else Probe
    probe = kind.from_dict(document)
    check_types(probe, kind)
    return probe
