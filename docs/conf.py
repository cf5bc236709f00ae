"""Sphinx: `make docs`. Pages are Markdown; commands, Python reference and llms.txt are generated when it starts."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))

project = "Rollshape"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "Rollshape"
html_extra_path = ["_generated"]
html_favicon = "../src/rollshape/web/static/icon.svg"
exclude_patterns = ["_generated", "_build"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
# The pages show commands and their output in blocks without a language.
highlight_language = "none"
nitpicky = True


def generate(_: Any) -> None:
    """Write what follows from the code: the references, llms.txt, and the planner if it was built."""
    from reference import commands, llms, python_reference

    (HERE / "commands.md").write_text(commands())
    (HERE / "python-reference.md").write_text(python_reference())
    extra = HERE / "_generated"
    extra.mkdir(exist_ok=True)
    (extra / "llms.txt").write_text(llms())
    page = ROOT / "build" / "page"
    shutil.rmtree(extra / "planner-app", ignore_errors=True)
    if page.is_dir():
        shutil.copytree(page, extra / "planner-app")


def setup(app: Any) -> None:
    generate(app)
