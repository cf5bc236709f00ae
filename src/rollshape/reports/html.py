"""Write a document as one HTML file with its styles, figures, data and script inside; it loads nothing."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path

from rollshape.reports.document import Block, Bullets, Code, Details, Document, Figure, Svg, Table, Text

ASSETS = Path(__file__).parent
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
    use = "".join(f'<p class="use">{escape(line)}</p>' for line in document.recommendation)
    commands = "".join(_block(Code(command)) for command in document.commands)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(document.title)}</title><style>{style}</style></head>
<body><main><header><h1>{escape(document.title)}</h1>
<div class="answer {escape(answer)}">{use}{commands if use else ""}
<strong>{escape(document.headline)}</strong>{commands if not use else ""}
{"".join(f"<p>{escape(line)}</p>" for line in document.summary)}</div></header>
<nav aria-label="Contents"><ol>{contents}</ol></nav>
{sections}</main><script>{script}</script></body></html>
"""


def _blocks(blocks: Sequence[Block]) -> str:
    return "\n".join(map(_block, blocks))


def _block(block: Block) -> str:
    match block:
        case Text(text, tone):
            return f'<p class="{tone}">{escape(text)}</p>' if tone else f"<p>{escape(text)}</p>"
        case Bullets(items):
            return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>"
        case Code(text):
            return f'<pre tabindex="0"><code>{escape(text)}</code></pre>'
        case Details(title, blocks):
            return f"<details><summary>{escape(title)}</summary>{_blocks(blocks)}</details>"
        case Svg(svg):
            return f'<div class="wide" tabindex="0">{svg}</div>'
        case Table():
            return _table(block)
        case Figure():
            return _figure(block)


def _table(table: Table) -> str:
    def cell(row: int, column: int, text: str) -> str:
        share = table.shade.get((row, column))
        style = "" if share is None else f' style="--share:{100 * min(max(share, 0.0), 1.0):.0f}%" class="shaded"'
        return f'<th scope="row">{escape(text)}</th>' if column == 0 else f"<td{style}>{escape(text)}</td>"

    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.columns)
    body = "".join(
        f"<tr>{''.join(cell(i, j, text) for j, text in enumerate(row))}</tr>" for i, row in enumerate(table.rows)
    )
    caption = f"<caption>{escape(table.caption)}</caption>" if table.caption else ""
    inner = f"{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="wide" tabindex="0"><table>{inner}</table></div>'


def _figure(figure: Figure) -> str:
    switches = "".join(
        f'<label><input type="checkbox" checked data-series="{i}"><span class="key" style="background:{color}"></span>'
        f"{escape(label)}</label>"
        for i, (label, color) in enumerate(figure.series)
    )
    legend = f'<fieldset class="series"><legend>Show</legend>{switches}</fieldset>' if switches else ""
    data = base64.b64encode(figure.csv.encode()).decode()
    link = f'<a download="{escape(figure.name)}.csv" href="data:text/csv;base64,{data}">data (CSV)</a>'
    return (
        f'<figure id="{escape(figure.name)}">{legend}<div class="wide" tabindex="0">{figure.svg}</div>'
        f"<figcaption>{escape(figure.caption)} {link}</figcaption></figure>"
    )
