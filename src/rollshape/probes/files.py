"""Files of a probe: RUN_DIR/probes/UPDATE/probe.json, and figures."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rollshape.files import atomic_write, disk_errors

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REMEDY = "probe again"


def save(run_dir: str, update: int, document: dict[str, Any], figures: Iterable[tuple[str, Figure]] = ()) -> Path:
    """Write the document, and the figures as PNG; return the folder."""
    folder = Path(run_dir) / "probes" / str(update)
    with disk_errors(folder, REMEDY):
        folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(folder / "probe.json", REMEDY) as file:
        file.write(json.dumps(document, indent=2, allow_nan=False).encode())
    for name, figure in figures:
        image = io.BytesIO()
        figure.savefig(image, format="png")
        with atomic_write(folder / f"{name}.png", REMEDY) as file:
            file.write(image.getvalue())
    return folder
