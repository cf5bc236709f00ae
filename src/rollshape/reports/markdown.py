"""Write a document as Markdown, with its figures as PNG files in a folder beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rollshape.reports.document import Block, Bullets, Code, Details, Document, Figure, Svg, Table, Text

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!$])")


def to_markdown(document: Document, folder: str) -> str:
    """Return the whole file; figures are linked from `folder`, relative to it."""
    parts = [
        f"# {_escape(document.title)}",
        *(f"**{_escape(line)}**" for line in document.recommendation),
        *_blocks([Code(command) for command in document.commands], folder),
        f"**{_escape(document.headline.rstrip('.'))}.**",
        *map(_escape, document.summary),
    ]
    for section in document.sections:
        parts += [f"## {_escape(section.title)}", *_blocks(section.blocks, folder)]
    return "\n\n".join(parts) + "\n"


def _escape(text: str) -> str:
    """Return one line in which no character is markup."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _blocks(blocks: Sequence[Block], folder: str) -> list[str]:
    return [part for block in blocks for part in _block(block, folder)]


def _block(block: Block, folder: str) -> list[str]:
    match block:
        case Text(text, tone):
            return [f"**{_escape(text)}**" if tone == "strong" else _escape(text)]
        case Bullets(items):
            return ["\n".join(f"- {_escape(item)}" for item in items)]
        case Code(text):
            return ["\n".join(f"    {line}" for line in text.splitlines())]
        case Details(title, blocks):
            return [f"### {_escape(title)}", *_blocks(blocks, folder)]
        case Svg():
            return []  # the table beside it has the same numbers
        case Figure(name, caption):
            return [f"![{_escape(name)}]({folder}/{name}.png)", _escape(caption)]
        case Table(columns, rows, caption):
            head = [_row(columns), _row(["---"] + ["---:"] * (len(columns) - 1), raw=True)]
            return [*([_escape(caption)] if caption else []), "\n".join([*head, *map(_row, rows)])]


def _row(cells: Sequence[str], raw: bool = False) -> str:
    return f"| {' | '.join(cell if raw else _escape(cell) for cell in cells)} |"
