"""Run a command that sends itself a signal at the n-th change of a file: `python -m chaos.child N SIGNAL FOLDER …`.

A random moment is not repeatable, the n-th change of a file is.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from chaos.events import FileEvents


def main(count: str, name: str, folder: str, *argv: str) -> int:
    from rollshape.cli import main as run

    left = int(count)

    def on_event() -> None:
        nonlocal left
        if left == 0:
            os.kill(os.getpid(), signal.Signals[name])
        left -= 1

    with FileEvents(Path(folder), on_event):
        return run(argv)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
