"""Run the command line, in this process or in a child, and keep all that it printed."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
SOURCE = TESTS.parent / "src"
TIMEOUT = 120.0


@dataclass(frozen=True)
class Result:
    """How a command ended: exit code (None after a timeout), output, and the exception that escaped it."""

    argv: tuple[str, ...]
    code: int | None
    out: str
    err: str
    exception: str = ""

    @property
    def document(self) -> Any:
        """The JSON document on stdout, None if there is none."""
        try:
            return json.loads(self.out)
        except ValueError:
            return None

    @property
    def error(self) -> dict[str, Any]:
        """The error in the JSON document, empty if there is none."""
        document = self.document
        error = document.get("error") if isinstance(document, dict) else None
        return error if isinstance(error, dict) else {}


def run_here(argv: Sequence[str | Path]) -> Result:
    """Run a command in this process, with files as stdout and stderr."""
    from rollshape.cli import main

    arguments = tuple(map(str, argv))
    code, exception = None, ""
    with tempfile.TemporaryDirectory() as name:
        paths = [Path(name) / stream for stream in ("out", "err")]
        with contextlib.ExitStack() as stack:
            out, err = (stack.enter_context(open(path, "w", encoding="utf-8")) for path in paths)
            stack.enter_context(contextlib.redirect_stdout(out))
            stack.enter_context(contextlib.redirect_stderr(err))
            try:
                code = main(arguments)
            except BaseException:  # whatever escapes is what the user would see as a traceback
                exception = traceback.format_exc()
        return Result(arguments, code, *(path.read_text("utf-8", "replace") for path in paths), exception)


def child_environment(**changes: str) -> dict[str, str]:
    """Return the environment of a child: it finds the source and this package."""
    path = os.pathsep.join([str(SOURCE), str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, **changes}


def start(
    argv: Sequence[str | Path],
    *,
    launcher: Sequence[str] = ("rollshape.cli",),
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    shell: str = "",
) -> subprocess.Popen[str]:
    """Start a command in a child process; `-P` because an installed command does not import from its folder."""
    command = [*(["sh", "-c", shell, "sh"] if shell else []), sys.executable, "-P", "-m", *launcher, *map(str, argv)]
    return subprocess.Popen(
        command, cwd=cwd, env=env or child_environment(), text=True, errors="replace",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def finish(process: subprocess.Popen[str], timeout: float = TIMEOUT) -> Result:
    """Wait for a child; one that does not end is killed, with the processes that it started."""
    arguments = tuple(map(str, process.args))  # type: ignore[arg-type]
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        kill_session(process)
        out, err = process.communicate()
        return Result(arguments, None, out, err)
    return Result(arguments, process.returncode, out, err)


def kill_session(process: subprocess.Popen[str]) -> None:
    """Kill a child that `start` started, and the workers of a study with it (they are sessions of their own)."""
    import psutil

    with contextlib.suppress(psutil.NoSuchProcess):
        for worker in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                worker.kill()
    process.kill()


def run_child(argv: Sequence[str | Path], *, timeout: float = TIMEOUT, **options: Any) -> Result:
    """Run a command in a child process."""
    return finish(start(argv, **options), timeout)
