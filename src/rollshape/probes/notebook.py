"""What a notebook shows of a run, a probe or a study: a small table, sentences and a figure, all text escaped."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from rollshape.probes.plotting import png_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 90


def to_html(
    title: str, facts: Mapping[str, str], sentences: Sequence[str] = (), figures: Mapping[str, Figure] | None = None
) -> str:
    """Return an HTML fragment; `figures` are embedded as PNG, each with its description for readers without images."""
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(text)}</td></tr>'
        for name, text in facts.items()
    )
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    images = "".join(
        f'<img alt="{escape(name)}" style="max-width:100%" '
        f'src="data:image/png;base64,{base64.b64encode(png_bytes(figure, DPI)).decode()}">'
        for name, figure in (figures or {}).items()
    )
    table = f"<table>{rows}</table>" if rows else ""
    return f"<div><strong>{escape(title)}</strong>{table}{f'<ul>{items}</ul>' if items else ''}{images}</div>"
