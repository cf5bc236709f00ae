"""Pages that are generated from the code whenever the site is built: commands, Python functions, llms.txt."""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import re
from pathlib import Path

import rollshape
from rollshape.cli import COMMANDS, main

HERE = Path(__file__).parent


def _help(command: str) -> str:
    out = io.StringIO()
    os.environ["COLUMNS"] = "110"
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main([command, "--help"])
    return out.getvalue().rstrip()


def commands() -> str:
    """Return the page of all commands: what each does, and its flags."""
    parts = ["# Commands", "Generated from the code. Every command accepts `--json` and then prints one JSON document."]
    for name, text in COMMANDS.items():
        parts.append(f"## rollshape {name}\n\n{text[0].upper()}{text[1:]}.\n\n```text\n{_help(name)}\n```")
    return "\n\n".join(parts) + "\n"


def python_reference() -> str:
    """Return the page of all public names: signature and docstring."""
    parts = ["# Python reference", "Generated from the code. All names are importable from `rollshape`."]
    for name in sorted(rollshape.__all__):
        if name.startswith("__"):
            continue
        value = getattr(rollshape, name)
        doc = inspect.getdoc(value) or ""
        signature = ""
        with contextlib.suppress(TypeError, ValueError):
            signature = f"```python\n{name}{inspect.signature(value)}\n```\n\n"
        parts.append(f"## {name}\n\n{signature}```text\n{doc}\n```")
    return "\n\n".join(parts) + "\n"


def llms() -> str:
    """Return llms.txt: what the project is, and one line per page for language models that read the site."""
    lines = [
        "# Rollshape",
        "",
        "> Plans, translates, trains, probes and compares the shape of rollout batches in deep RL.",
        "",
    ]
    for path in sorted(HERE.glob("*.md")):
        text = path.read_text()
        title = re.search(r"^# (.+)$", text, re.MULTILINE)
        body = re.sub(r"^#.*$|^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL).strip()
        first = " ".join(body.split("\n\n")[0].split())
        summary = first if len(first) < 160 else first[:157] + "…"
        lines.append(f"- [{title[1] if title else path.stem}]({path.stem}.html): {summary}")
    return "\n".join(lines) + "\n"
