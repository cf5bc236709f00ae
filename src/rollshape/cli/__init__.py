"""The command line: one module per command, imported only when it is used."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from rollshape.errors import RequestError, RollshapeError, RunError, did_you_mean

COMMANDS = {
    "plan": "compute a valid plan from any batch sizes, with explanations",
    "translate": "translate a config from one library to another",
    "patch": "make the sizes in a config file valid, keeping comments and layout",
    "dialects": "list the supported libraries and how they use their configs",
    "train": "train a policy with REINFORCE, A2C, PPO, PPO-EWMA, SAC or RRD",
    "eval": "evaluate a trained policy",
    "probe": "measure the gradient quality of a run's batches, and of other shapes",
    "reproduce": "repeat a run and report the first difference",
    "study": "compare shapes over several seeds, with confidence intervals",
    "report": "write an HTML report of a study or a directory of runs",
    "diagnose": "report the outcome of each run and its likely cause",
    "bench": "measure steps/s, compile time and utilization of several shapes",
}
FAILED, WRONG_REQUEST = 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 for success, 1 for a failure, 2 for an invalid request."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):  # print a question mark if the encoding has no √
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
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:  # such as a full disk when stdout is a file
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
        hint = did_you_mean(name, COMMANDS)
        raise RequestError("flags", f"Unknown command {name!r}.", f"{hint}Commands: {', '.join(COMMANDS)}.")
    return int(import_module(f"rollshape.cli.{name}").run(rest) or 0)


def _usage() -> str:
    width = max(map(len, COMMANDS))
    rows = "\n".join(f"  {name:<{width}}  {text}" for name, text in COMMANDS.items())
    return (
        "usage: rollshape COMMAND [flags]\n\n"
        "Plan, train and compare rollout shapes in deep RL: how many environments, how many steps?\n\n"
        f"commands:\n{rows}\n\n"
        "Use rollshape COMMAND --help for the flags of a command. All commands accept --json."
    )


def _report(error: RollshapeError, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"error": error.to_dict()}, indent=2))
    print(f"error [{error.rule}]: {error.message}", file=sys.stderr)
    if error.fix:
        print(f"  fix: {error.fix}", file=sys.stderr)
