"""A report as plain blocks; HTML and Markdown are two ways to write them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Text:
    """A paragraph; `strong` for what must not be overlooked, `small` for how a number came about."""

    text: str
    tone: str = ""  # "", strong, small


@dataclass(frozen=True)
class Points:
    """A list."""

    items: Sequence[str]


@dataclass(frozen=True)
class Code:
    """Commands, as they are typed."""

    text: str


@dataclass(frozen=True)
class Table:
    """Cells are text. `shade` gives a cell a share in [0, 1] of colour, by (row, column)."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    shade: dict[tuple[int, int], float] = field(default_factory=dict)


@dataclass(frozen=True)
class Figure:
    """A drawing and its data; `series` are the labels that can be switched off, in the order of their colours."""

    name: str
    caption: str
    svg: str
    png: bytes
    csv: str
    series: Sequence[tuple[str, str]] = ()  # (label, colour)


@dataclass(frozen=True)
class Folded:
    """Blocks behind a line that opens them."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Picture:
    """A finished SVG of our own, such as the flow of a plan."""

    svg: str


Block = Text | Points | Code | Table | Figure | Folded | Picture


@dataclass(frozen=True)
class Section:
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Document:
    """Title, the answer in a word and in sentences, and sections."""

    title: str
    answer: str
    summary: Sequence[str]
    sections: Sequence[Section]
