"""`rollshape ui`: the page on this machine, with the planner and the runs of a folder."""

from __future__ import annotations

import errno
import socket
import sys
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rollshape.cli.flags import CommonArgs, parse
from rollshape.errors import RequestError
from rollshape.geometry.values import Range

HOST = "127.0.0.1"
DEFAULT_PORT = 8420


@dataclass(frozen=True, kw_only=True)
class UiArgs(CommonArgs):
    """Open the page: planner, configs, and the runs, studies and probes of a folder (default: this one).

    The server answers this machine only and never writes.
    """

    port: Annotated[int | None, "port on 127.0.0.1 (default: 8420, or a free one)", Range(1, 65535)] = None
    no_browser: Annotated[bool, "print the address without opening a browser"] = False


def run(argv: Sequence[str]) -> None:
    directory, flags = _split(argv)
    args = parse(UiArgs, "ui [DIR]", flags)
    root = Path(directory)
    if not root.is_dir():
        raise RequestError("run", f"{directory} is not a folder.", "Give the folder of your runs.")
    if args.port is not None and not 1 <= args.port <= 65535:
        raise RequestError("number-range", f"--port must be in [1, 65535], got {args.port}.", "Leave it out.")
    try:
        import uvicorn

        from rollshape.web.server import create_app
    except ImportError:
        raise RequestError("page", "The page needs Starlette and uvicorn.", "pip install 'rollshape[ui]'") from None
    listener = _listen(args.port)
    port = listener.getsockname()[1]
    address = f"http://{HOST}:{port}/"
    if args.json:
        from rollshape.cli.output import print_json

        print_json({"url": address, "root": str(root.resolve())})
    else:
        print(f"{address}  runs of {root.resolve()}; press Ctrl-C to stop")
    sys.stdout.flush()
    if not args.no_browser:
        webbrowser.open(address)
    config = uvicorn.Config(
        create_app(root, port), log_level="warning", server_header=False, timeout_graceful_shutdown=1
    )
    uvicorn.Server(config).run(sockets=[listener])


def _split(argv: Sequence[str]) -> tuple[str, list[str]]:
    """Return the folder, which may stand before or after the flags, and the flags."""
    folders, flags, takes_value = [], [], False
    for token in argv:
        if takes_value or token.startswith("-"):
            flags.append(token)
            takes_value = token == "--port"
        else:
            folders.append(token)
    if len(folders) > 1:
        raise RequestError("flags", f"ui takes one folder, got {', '.join(folders)}.", "Give their common folder.")
    return (folders or ["."])[0], flags


def _listen(port: int | None) -> socket.socket:
    """Return a listening socket on the loopback interface: of the requested port, the default one or a free one."""
    for candidate in (port,) if port is not None else (DEFAULT_PORT, 0):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, candidate))
        except OSError as error:
            listener.close()
            if port is not None:
                reason = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used: {error.strerror}"
                raise RequestError("port", f"Port {port} {reason}.", "Leave --port out for a free one.") from None
        else:
            listener.listen(64)
            return listener
    raise RequestError("port", "No port is free on this machine.", "Use --port.")
