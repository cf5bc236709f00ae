"""A report as plain blocks; HTML and Markdown are two ways to write them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Text:
    """A paragraph; `strong` for what must not be overlooked, `small` for how a number was computed."""

    text: str
    tone: Literal["", "strong", "small"] = ""


@dataclass(frozen=True)
class Bullets:
    """A bulleted list."""

    items: Sequence[str]


@dataclass(frozen=True)
class Code:
    """Commands, as they are typed."""

    text: str


@dataclass(frozen=True)
class Table:
    """Cells are text; `shade` maps (row, column) to a share in [0, 1] of color."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    shade: dict[tuple[int, int], float] = field(default_factory=dict)


@dataclass(frozen=True)
class Figure:
    """A figure and its data; `series` are (label, color) of the series that can be hidden."""

    name: str
    caption: str
    svg: str
    png: bytes
    csv: str
    series: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Details:
    """Blocks that are hidden until their title is clicked."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Svg:
    """A trusted SVG without data, such as the diagram of a plan."""

    svg: str


Block = Text | Bullets | Code | Table | Figure | Details | Svg


@dataclass(frozen=True)
class Section:
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Document:
    """A report: its title, the headline and answer of its claim, a summary in sentences, and sections.

    `recommendation` says what to use, in sentences, and `commands` train it.
    """

    title: str
    answer: str
    headline: str
    summary: Sequence[str]
    sections: Sequence[Section]
    recommendation: Sequence[str] = ()
    commands: Sequence[str] = ()

    def figures(self) -> Iterator[Figure]:
        """Yield every figure of the report."""
        for section in self.sections:
            yield from (block for block in section.blocks if isinstance(block, Figure))
