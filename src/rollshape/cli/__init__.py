"""The command line: one module per command, imported only when it is used."""

from __future__ import annotations

import gc
import json
import signal
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from functools import partial
from importlib import import_module
from typing import IO

from rollshape.cli.streams import claim_stdout, discard_stdout, open_missing_streams, print_error, restore_stdout
from rollshape.errors import RequestError, RollshapeError, RunError, did_you_mean
from rollshape.processes import RaisingSignals, SignalReceived

COMMANDS = {
    "plan": "compute a valid plan from any batch sizes, with explanations",
    "translate": "translate a config from one library to another",
    "patch": "make the sizes in a config file valid, keeping comments and layout",
    "rescale": "rescale a config that works to another number of environments",
    "dialects": "list the supported libraries and how they use their configs",
    "check-env": "check an environment before training on it",
    "train": "train a policy with REINFORCE, A2C, PPO, PPO-EWMA, SAC or RRD",
    "eval": "evaluate a trained policy",
    "probe": "measure the gradient quality of a run's batches, and of other shapes",
    "reproduce": "repeat a run and report the first difference",
    "study": "compare shapes over several seeds, with confidence intervals",
    "advise": "race shapes at a fraction of the cost of a study and name the best one",
    "report": "write an HTML report of a study or a directory of runs",
    "diagnose": "report the outcome of each run and its likely cause",
    "import": "turn logs of SB3, CleanRL, rl_games, RSL-RL or skrl into runs",
    "ui": "open a page with the planner and the runs, studies and probes of a folder",
    "bench": "measure steps/s, compile time and utilization of several shapes",
}
MODULES = {"import": "import_run"}  # where the name of a command cannot be that of a module
FAILED, WRONG_REQUEST = 1, 2
INTERRUPTED = 128  # plus the signal's number: 130 for Ctrl-C, 143 for SIGTERM


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 for success, 1 for a failure, 2 for an invalid request, 130 after
    Ctrl-C and 143 after SIGTERM."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    open_missing_streams()
    report_interrupt = partial(_report_interrupt, stdout=sys.stdout, as_json="--json" in arguments)
    signals = RaisingSignals(report_interrupt)
    try:
        try:
            with signals:
                return _run(arguments)
        finally:  # also when --help exits
            sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        discard_stdout()
        return FAILED
    except OSError as error:  # such as a full disk when stdout is a file
        print_error(f"error: {error.strerror or error}")
        discard_stdout()
        return FAILED
    except BaseException as error:
        if signals.received is None and not isinstance(error, KeyboardInterrupt):
            raise
        # A library may have turned the interrupt into an exception of its own.
        return report_interrupt(signals.received or signal.SIGINT)


def run_process() -> int:
    """Run the command of this process; with --json, stdout has one document, whatever libraries print."""
    gc.set_threshold(50_000, 20, 100)  # tracing programs makes many objects and few cycles: 0.6 s of a probe
    open_missing_streams()
    if "--json" in sys.argv:
        claim_stdout()
    code = main()
    sys.stdout = sys.stderr  # for functions that libraries call at exit
    return code


def _run(arguments: list[str]) -> int:
    """Run a command; an error of ours is reported and becomes an exit code."""
    try:
        _check_text(arguments)
        return _dispatch(arguments)
    except RequestError as error:
        _report(error, as_json="--json" in arguments)
        return WRONG_REQUEST
    except RunError as error:
        _report(error, as_json="--json" in arguments)
        return FAILED


def signal_of(interrupt: BaseException) -> signal.Signals:
    """Return the signal that interrupted a command."""
    return interrupt.number if isinstance(interrupt, SignalReceived) else signal.SIGINT


def _report_interrupt(number: signal.Signals, stdout: IO[str], as_json: bool) -> int:
    """Print the message of an interrupt; return the exit code."""
    restore_stdout()  # a command redirects it while an environment runs
    with redirect_stdout(stdout):
        stopped = RunError("interrupted", f"Interrupted by {number.name}.", "Run the same command again.")
        _report(stopped, as_json=as_json)
        stdout.flush()
    return INTERRUPTED + number


def _check_text(arguments: list[str]) -> None:
    """Raise a RequestError for an argument that is not UTF-8: it could not be printed, nor stored with a run."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            given = ascii(argument)
            raise RequestError("flags", f"The argument {given} is not UTF-8 text.", "Use a UTF-8 name.") from None


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
    module = MODULES.get(name, name.replace("-", "_"))
    return int(import_module(f"rollshape.cli.{module}").run(rest) or 0)


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
    print_error(f"error [{error.rule}]: {error.message}" + (f"\n  fix: {error.fix}" if error.fix else ""))
