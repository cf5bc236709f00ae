"""Flags of the commands that call host environments, and what these commands do with their output."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from rollshape.cli.flags import CommonArgs
from rollshape.cli.streams import redirected_stdout
from rollshape.envs.access import TIMEOUT
from rollshape.errors import RollshapeError
from rollshape.geometry.values import POSITIVE


@dataclass(frozen=True, kw_only=True)
class TrustArgs(CommonArgs):
    """The flag of commands that open a run directory."""

    trust: Annotated[
        bool, "import the run's environment module even if it is not an installed package; this executes its code"
    ] = False


@dataclass(frozen=True, kw_only=True)
class EnvArgs(CommonArgs):
    """Flags for the calls into host environments."""

    env_timeout: Annotated[float, "seconds that a call into a host environment may last", POSITIVE] = TIMEOUT
    isolate_env: Annotated[
        bool, "run host environments in another process, so that a crash is an error; costs 0.1–0.2 ms per vector step"
    ] = False


@contextmanager
def calling_envs(as_json: bool) -> Iterator[None]:
    """With --json, what environments and their processes print goes to stderr: stdout is the command's.

    An error that ends the process at once is a JSON document, too.
    """
    if not as_json or sys.stdout is None:  # it may be closed
        yield
        return
    from rollshape.envs import watcher

    with redirected_stdout() as stdout:
        watcher.report_error = partial(_report_as_json, stdout)
        try:
            yield
        finally:
            watcher.report_error = watcher.print_error


def _report_as_json(stdout: int, error: RollshapeError) -> None:
    from rollshape.envs.watcher import print_error

    os.write(stdout, json.dumps({"error": error.to_dict()}, indent=2).encode() + b"\n")
    print_error(error)
