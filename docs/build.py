"""Writes the pages that are made from the code: rules.md, dialects.md, flow.svg. A test holds them up to date.

Run: .venv/bin/python docs/build.py
"""

from __future__ import annotations

from pathlib import Path

from rollshape.geometry.diagram import svg
from rollshape.geometry.dialects import DIALECTS
from rollshape.geometry.dialects.base import EXTRA, Dialect
from rollshape.geometry.dialects.rrd import RRD
from rollshape.geometry.plan import plan
from rollshape.geometry.rules import PAGES
from rollshape.geometry.rules.base import CHECKS

HERE = Path(__file__).parent


def rules() -> str:
    """All pages of the planner's rules."""
    parts = [
        "# The planner's rules",
        "Made from the code by `docs/build.py`. Findings are told with the plan; enforced rules end in exit code 2.",
    ]
    for title, names in (
        ("Findings", [name for name in PAGES if name in CHECKS]),
        ("Enforced", [name for name in PAGES if name not in CHECKS]),
    ):
        parts.append(f"## {title}")
        parts += [f"### {name}\n\n{PAGES[name].text}\n\n*Source: {PAGES[name].source}.*" for name in names]
    return "\n\n".join(parts) + "\n"


def dialects() -> str:
    """What each library does, and its keys."""
    parts = [
        "# The dialects",
        "Made from the code by `docs/build.py`; read from each library's source at the version given. A value in"
        " Rollshape's words is the factor × the value in the config. Where a config says nothing, the library's default"
        " applies.",
    ]
    parts += [_section(dialect) for dialect in (*DIALECTS.values(), RRD())]
    return "\n\n".join(parts) + "\n"


def _section(dialect: Dialect) -> str:
    doc = " ".join((type(dialect).__doc__ or "").split())
    facts = [
        f"**A remainder** is {_verb(dialect)}: {dialect.remainder_detail.format(rollout='N·T', minibatch='M')}.",
        f"**The budget** is rounded {'up' if dialect.rounds_up else 'down'} to whole rollouts.",
        f"**Shuffle**: {dialect.shuffle}. **Advantages** are normalised {dialect.normalization}.",
        f"**A time limit** {dialect.time_limit}.",
        *(f"{note[0].upper()}{note[1:]}." for note in dialect.notes),
    ]
    rows = ["| key | meaning | default | factor |", "|---|---|---|---|"]
    for key in dialect.keys:
        meaning = "" if key.concept == EXTRA else key.concept
        default = "–" if key.default is None else f"`{key.default}`"
        rows.append(f"| `{key.name}` | {meaning} | {default} | {key.scale if key.scale != 1 else ''} |")
    bullets = "\n".join(f"- {fact}" for fact in facts)
    table = "\n".join(rows)
    return f"## {dialect.name}\n\n{dialect.library}, {dialect.version}. {doc}\n\n{bullets}\n\n{table}"


def _verb(dialect: Dialect) -> str:
    return {"refuse": "refused", "drop": "dropped", "short": "kept", "merge": "merged", "wrap": "wrapped"}.get(
        dialect.remainder.value, "balanced"
    )


def pages() -> dict[str, str]:
    """File name → content."""
    flow = svg(plan(num_envs=64, num_steps=32, total_timesteps=500_000))
    return {"rules.md": rules(), "dialects.md": dialects(), "flow.svg": flow + "\n"}


if __name__ == "__main__":
    for name, content in pages().items():
        (HERE / name).write_text(content)
