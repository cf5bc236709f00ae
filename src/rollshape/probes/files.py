"""What a probe leaves beside its run: RUN_DIR/probes/UPDATE/probe.json, and figures."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from rollshape.files import atomic_write, disk_errors
from rollshape.probes.result import Probe

THEN = "probe again"


def folder_for(run_dir: str, update: int) -> Path:
    folder = Path(run_dir) / "probes" / str(update)
    with disk_errors(folder, THEN):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def write_figure(figure: Any, path: Path) -> None:
    """A matplotlib figure as PNG, whole or not at all."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    with atomic_write(path, THEN) as file:
        file.write(picture.getvalue())


def save(probe: Probe, *, figures: bool = True) -> Path:
    """The folder; a probe of the same update is written over."""
    folder = folder_for(probe.run_dir, probe.update)
    with atomic_write(folder / "probe.json", THEN) as file:
        file.write(json.dumps(probe.to_dict(), indent=2, allow_nan=False).encode())
    if figures:
        from rollshape.probes.figures import draw

        draw(probe, folder)
    return folder
