"""Write a document as one HTML file with its styles, figures, data and script inside; it loads nothing."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from html import escape
from itertools import groupby
from pathlib import Path

from rollshape.reports.document import Block, Bullets, Code, Details, Document, Figure, Svg, Table, Text

ASSETS = Path(__file__).parent
WORDS = 40  # characters: a column with a longer cell is text
BROAD = 650  # points: a wider figure takes a whole row
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def to_html(document: Document) -> str:
    """Return the whole file. All text is escaped, and the page's policy forbids the browser to load anything."""
    style, script = (ASSETS / "page.css").read_text(), (ASSETS / "page.js").read_text()
    contents = "".join(
        f'<li><a href="#s{i}">{escape(section.title)}</a></li>' for i, section in enumerate(document.sections)
    )
    sections = "".join(
        f'<section id="s{i}"><h2>{escape(section.title)}</h2>{_blocks(section.blocks)}</section>'
        for i, section in enumerate(document.sections)
    )
    answer = document.answer.replace(" ", "-")
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(document.title)}</title><style>{style}</style></head>
<body><main><header><h1>{escape(document.title)}</h1>
<div class="answer {escape(answer)}">{_conclusion(document)}</div></header>
<nav aria-label="Contents"><ol>{contents}</ol></nav>
{sections}</main><script>{script}</script></body></html>
"""


def _conclusion(document: Document) -> str:
    """Return what to use with its command, and the verdict with its reasons: side by side where there is room."""
    commands = "".join(map(_code, document.commands))
    verdict = f"<strong>{escape(document.headline)}</strong>"
    reasons = "".join(f"<p>{escape(line)}</p>" for line in document.summary)
    if not document.recommendation:
        return f"<div>{verdict}{commands}{reasons}</div>"
    use = "".join(f'<p class="use">{escape(line)}</p>' for line in document.recommendation)
    more = '<p class="small"><a href="#s0">Configs for other libraries</a></p>' if commands else ""
    return f"<div>{use}{commands}{more}</div><div>{verdict}{reasons}</div>"


def _blocks(blocks: Sequence[Block]) -> str:
    """Return the blocks; figures that follow each other share a row where there is room."""
    parts = []
    for is_figure, group in groupby(blocks, lambda block: isinstance(block, Figure)):
        content = "\n".join(map(_block, group))
        parts.append(f'<div class="figures">{content}</div>' if is_figure else content)
    return "\n".join(parts)


def _code(text: str) -> str:
    """Return a block to copy; a line does not break inside of a flag."""
    flags = re.sub(r"(--[a-z][\w-]*(?: [^\s-]\S*)?)", r"<span>\1</span>", escape(text))
    return f'<div class="copied"><pre tabindex="0"><code>{flags}</code></pre></div>'


def _block(block: Block) -> str:
    match block:
        case Text(text, tone):
            return f'<p class="{tone}">{escape(text)}</p>' if tone else f"<p>{escape(text)}</p>"
        case Bullets(items):
            return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>"
        case Code(text):
            return _code(text)
        case Details(title, blocks):
            return f"<details><summary>{escape(title)}</summary>{_blocks(blocks)}</details>"
        case Svg(svg):
            return f'<div class="wide" tabindex="0">{svg}</div>'
        case Table():
            return _table(block)
        case Figure():
            return _figure(block)


def _table(table: Table) -> str:
    is_text = [any(len(row[i]) > WORDS for row in table.rows) for i in range(len(table.columns))]

    def cell(row: int, column: int, text: str) -> str:
        share = table.shade.get((row, column))
        style = "" if share is None else f' style="--share:{100 * min(max(share, 0.0), 1.0):.0f}%" class="shaded"'
        if column == 0:
            return f'<th scope="row">{escape(text)}</th>'
        return f'<td class="text">{escape(text)}</td>' if is_text[column] else f"<td{style}>{_number(text)}</td>"

    head = "".join(
        f'<th scope="col"{" class=text" if is_text[i] else ""}>{escape(name)}</th>'
        for i, name in enumerate(table.columns)
    )
    body = "".join(
        f"<tr>{''.join(cell(i, j, text) for j, text in enumerate(row))}</tr>" for i, row in enumerate(table.rows)
    )
    # Outside of what scrolls: a caption would be as wide as the table.
    caption = f'<p class="caption">{escape(table.caption)}</p>' if table.caption else ""
    inner = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    label = f' aria-label="{escape(table.caption[:80])}"' if table.caption else ""
    return f'{caption}<div class="wide" tabindex="0"><table{label}>{inner}</table></div>'


def _number(text: str) -> str:
    """Return a value with its interval in small letters below it."""
    value, bracket, interval = text.partition(" [")
    return f"{escape(value)}<small>[{escape(interval)}</small>" if bracket else escape(text)


def _figure(figure: Figure) -> str:
    switches = "".join(
        f'<label><input type="checkbox" checked data-series="{i}"><span class="key" style="background:{color}"></span>'
        f"{escape(label)}</label>"
        for i, (label, color) in enumerate(figure.series)
    )
    legend = f'<fieldset class="series"><legend>Show</legend>{switches}</fieldset>' if switches else ""
    data = base64.b64encode(figure.csv.encode()).decode()
    link = f'<a download="{escape(figure.name)}.csv" href="data:text/csv;base64,{data}">data (CSV)</a>'
    width = re.search(r'viewBox="0 0 ([\d.]+) ', figure.svg)
    kind = ' class="broad"' if width is not None and float(width[1]) > BROAD else ""
    return (
        f'<figure id="{escape(figure.name)}"{kind}>{legend}<div class="wide" tabindex="0">{figure.svg}</div>'
        f"<figcaption>{escape(figure.caption)} {link}</figcaption></figure>"
    )
