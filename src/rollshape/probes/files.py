"""Files of a probe: a JSON document with its checksum, in a run directory probes/UPDATE/probe.json, and figures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rollshape.checksums import is_intact, seal
from rollshape.errors import RequestError
from rollshape.files import disk_errors, write_bytes
from rollshape.probes.plotting import png_bytes
from rollshape.typed import parse_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REMEDY = "probe again"
REMEASURE = "Measure it again: run `rollshape probe` or the study again."


def save(run_dir: str, update: int, document: dict[str, Any], figures: Iterable[tuple[str, Figure]] = ()) -> Path:
    """Write the document, and the figures as PNG; return the folder."""
    folder = Path(run_dir) / "probes" / str(update)
    write_document(folder / "probe.json", document)
    for name, figure in figures:
        write_bytes(folder / f"{name}.png", png_bytes(figure), REMEDY)
    return folder


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Write the document of a probe in one step, with its checksum; create its folder."""
    with disk_errors(path.parent, REMEDY):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, json.dumps(seal(document), indent=2, allow_nan=False).encode(), REMEDY)


def read_document(path: Path) -> dict[str, Any]:
    """Return the document of a probe; a RequestError if it was changed after it was written."""
    try:
        document = parse_json(path.read_bytes())
    except OSError as error:
        raise RequestError("file", f"{path} cannot be read: {error.strerror}.", REMEASURE) from None
    except ValueError:
        document = None
    if not isinstance(document, dict) or not is_intact(document):
        raise RequestError("file", f"{path} was changed after it was written, or is of an older version.", REMEASURE)
    del document["checksum"]
    return document
