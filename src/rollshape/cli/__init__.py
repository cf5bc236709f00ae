"""The command line: one file a command, loaded only when it is asked for."""

from __future__ import annotations

import difflib
import json
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from rollshape.errors import RequestError, RollshapeError, RunError

COMMANDS = {
    "plan": "any N and T to a legal, explained plan",
    "translate": "a config from one library's words to another's",
    "patch": "make a config file legal in place, comments kept",
    "dialects": "the libraries that are spoken, and what each does",
    "train": "REINFORCE, A2C, PPO, SAC or RRD at any shape",
    "eval": "score a trained policy on fresh episodes",
    "probe": "what a batch of a run's shape is worth, and of any other",
    "reproduce": "run again, and report the first difference",
    "study": "many shapes and seeds side by side, with intervals",
    "report": "a study or a folder of runs as one page, its conclusion first",
    "diagnose": "what became of each run, and why, by measured evidence",
    "bench": "steps/s, compile time and utilisation at several shapes",
}
FAILED, WRONG_REQUEST = 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Exit codes: 0 done, 1 it failed, 2 the request is wrong."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):  # a terminal that has no √ shows a question mark
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()
        return code
    except RequestError as error:
        _report(error, as_json="--json" in arguments)
        return WRONG_REQUEST
    except RunError as error:
        _report(error, as_json="--json" in arguments)
        return FAILED
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:  # such as a full disk behind stdout
        print(f"error: {error.strerror or error}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        return 130


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_usage())
        return 0
    if arguments[0] in ("-V", "--version"):
        from rollshape import __version__

        print(f"rollshape {__version__}")
        return 0
    name, *rest = arguments
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"Did you mean {near[0]}? " if near else ""
        raise RequestError("flags", f"There is no command {name!r}.", f"{hint}Commands: {', '.join(COMMANDS)}.")
    return int(import_module(f"rollshape.cli.{name}").run(rest) or 0)


def _usage() -> str:
    width = max(map(len, COMMANDS))
    rows = "\n".join(f"  {name:<{width}}  {text}" for name, text in COMMANDS.items())
    return (
        "usage: rollshape COMMAND [flags]\n\nWhat shape should my rollout batch have?\n\n"
        f"{rows}\n\nrollshape COMMAND --help shows a command's flags; every command takes --json."
    )


def _report(error: RollshapeError, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"error": error.to_dict()}, indent=2))
    print(f"error [{error.rule}]: {error.message}", file=sys.stderr)
    if error.fix:
        print(f"  fix: {error.fix}", file=sys.stderr)
