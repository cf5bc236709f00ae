"""The same request on the command line."""

import contextlib
import io
import json
from pathlib import Path
from typing import Any

from rollshape.cli import main
from rollshape.geometry.machine import Machine, assume_machine

MACHINE = {"cores": 4, "memory_bytes": 32_000_000_000}


def flags(fields: dict[str, Any]) -> list[str]:
    tokens = []
    for name, value in fields.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            tokens.append(flag)
        elif isinstance(value, list):
            tokens += [flag, *map(str, value)]
        else:
            tokens += [flag, str(value)]
    return tokens


def command(name: str, values: dict[str, Any], folder: Path) -> list[str]:
    """The command line of a call. A config goes through a file without a suffix, so that its kind is recognized."""
    values = dict(values)
    if name == "explain":
        return ["plan", "--explain", values["rule"]]
    if name == "dialects":
        return ["dialects", *flags(values)]
    if name == "plan":
        return ["plan", *flags(values)]
    file = folder / "stdin"
    file.write_text(values.pop("text"))
    more = ["--dry-run"] if name == "patch" else []
    return [name, str(file), *flags(values), *more]


def run_command(name: str, values: dict[str, Any], folder: Path) -> Any:
    """The JSON document that the command prints, for the machine that the page is asked about."""
    out = io.StringIO()
    with (
        assume_machine(Machine(**MACHINE)),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        main([*command(name, values, folder), "--json"])
    document = json.loads(out.getvalue().replace(json.dumps(str(folder))[1:-1] + "/", ""))
    return without_flags(document)


def without_flags(document: Any) -> Any:
    """An error of an unknown word is worded for flags on the command line; its rule is the same."""
    if isinstance(document, dict) and "error" in document and document["error"]["rule"] in ("flags", "choice"):
        return {"error": "choice"}
    return document
