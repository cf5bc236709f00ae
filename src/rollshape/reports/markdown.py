"""A document as Markdown with PNG figures beside it, for a repository."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rollshape.reports.document import Block, Code, Document, Figure, Folded, Picture, Points, Table, Text

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!$])")


def markdown(document: Document, folder: str) -> str:
    """The whole file; figures are looked for in `folder`, relative to it."""
    parts = [
        f"# {_plain(document.title)}",
        f"**{_plain(document.answer.capitalize())}.**",
        *map(_plain, document.summary),
    ]
    for section in document.sections:
        parts += [f"## {_plain(section.title)}", *_written(section.blocks, folder)]
    return "\n\n".join(parts) + "\n"


def _plain(text: str) -> str:
    """Text that stays text: nothing in it is markup, and it is one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _written(blocks: Sequence[Block], folder: str) -> list[str]:
    return [part for block in blocks for part in _block(block, folder)]


def _block(block: Block, folder: str) -> list[str]:
    match block:
        case Text(text, tone):
            return [f"**{_plain(text)}**" if tone == "strong" else _plain(text)]
        case Points(items):
            return ["\n".join(f"- {_plain(item)}" for item in items)]
        case Code(text):
            return ["\n".join(f"    {line}" for line in text.splitlines())]
        case Folded(title, blocks):
            return [f"### {_plain(title)}", *_written(blocks, folder)]
        case Picture():
            return []  # the plan is in the table beside it
        case Figure(name, caption):
            return [f"![{_plain(name)}]({folder}/{name}.png)", _plain(caption)]
        case Table(columns, rows, caption):
            head = [_row(columns), _row(["---"] + ["---:"] * (len(columns) - 1), raw=True)]
            return [*([_plain(caption)] if caption else []), "\n".join([*head, *map(_row, rows)])]


def _row(cells: Sequence[str], raw: bool = False) -> str:
    return f"| {' | '.join(cell if raw else _plain(cell) for cell in cells)} |"
