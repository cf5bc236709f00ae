"""Generate rules.md, dialects.md and flow.svg from the code. A test checks that they are up to date.

Run: .venv/bin/python docs/build.py
"""

from __future__ import annotations

from pathlib import Path

from rollshape.geometry.diagram import svg
from rollshape.geometry.dialects import DIALECTS
from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.keys import EXTRA
from rollshape.geometry.dialects.language import LanguageDialect
from rollshape.geometry.dialects.registry import ALL_DIALECTS, LANGUAGE_DIALECTS
from rollshape.geometry.dialects.rrd import RrdDialect
from rollshape.geometry.plan import plan
from rollshape.geometry.rules import PAGES
from rollshape.geometry.rules.base import CHECKS

HERE = Path(__file__).parent


def rules() -> str:
    """Return the documentation of all rules of the planner."""
    parts = [
        "# Rules of the planner",
        "Generated from the code by `docs/build.py`. `rollshape plan` reports findings with the plan; a violation of an"
        " enforced rule is an error (exit code 2). `rollshape plan --explain RULE` prints a rule.",
    ]
    for title, names in (
        ("Findings", [name for name in PAGES if name in CHECKS]),
        ("Enforced rules", [name for name in PAGES if name not in CHECKS]),
    ):
        parts.append(f"## {title}")
        parts += [f"### {name}\n\n{PAGES[name].text}\n\n*Source: {PAGES[name].source}.*" for name in names]
    return "\n\n".join(parts) + "\n"


def dialects() -> str:
    """Return the documentation of all dialects: keys and behavior of each library."""
    parts = [
        "# Dialects",
        "Generated from the code by `docs/build.py`. A dialect is the config format of a library; the facts are taken"
        " from the library's source code at the given version. `meaning` is the name in Rollshape's [vocabulary]"
        "(vocabulary.md), whose value is the factor × the value in the config. If a key is missing, the default of the"
        " library applies.",
    ]
    parts += [
        "## How far each dialect is verified",
        "*Read*: keys, defaults and rules are those of the library's source code at this version. *Run*: the library"
        " trains on configs that Rollshape wrote. *Proven*: what it then does (optimizer steps, minibatches, refusals)"
        " is counted in a test, and equals the prediction. A dialect that extends a proven one has its rules.",
        _evidence(),
    ]
    parts += [_section(dialect) for dialect in (*DIALECTS.values(), RrdDialect())]
    parts += [
        "# Dialects of language model trainers",
        "A sample is a completion: see [language models](language-models.md). These dialects translate into each other,"
        " and not into those above.",
    ]
    parts += [_section(dialect) for dialect in LANGUAGE_DIALECTS.values()]
    return "\n\n".join(parts) + "\n"


def _evidence() -> str:
    """Return the table of how far each dialect is verified."""
    rows = ["| dialect | library | version | read | run | proven |", "|---|---|---|---|---|---|"]
    for dialect in (*ALL_DIALECTS.values(), RrdDialect()):
        if dialect.own_proof:
            run, proven = "yes", f"[tests/peers/{dialect.own_proof}](../tests/peers/{dialect.own_proof})"
        elif dialect.name == "rollshape":
            run, proven = "yes", "it is this library"
        else:
            base = next((kind.__dict__["name"] for kind in type(dialect).__mro__[1:] if kind.__dict__.get("proof")), "")
            run, proven = "–", f"extends {base}" if base else "–"
        rows.append(f"| `{dialect.name}` | {dialect.library} | {dialect.version} | yes | {run} | {proven} |")
    return "\n".join(rows)


def _section(dialect: Dialect) -> str:
    doc = " ".join((type(dialect).__doc__ or "").split())
    facts = _language_facts(dialect) if isinstance(dialect, LanguageDialect) else _environment_facts(dialect)
    rows = ["| key | meaning | default | factor |", "|---|---|---|---|"]
    for key in dialect.keys:
        meaning = "" if key.concept == EXTRA else key.concept
        default = "–" if key.default is None else f"`{key.default}`"
        rows.append(f"| `{key.name}` | {meaning} | {default} | {key.scale if key.scale != 1 else ''} |")
    bullets = "\n".join(f"- {fact}" for fact in facts)
    table = "\n".join(rows)
    return f"## {dialect.name}\n\n{dialect.library}, {dialect.version}. {doc}\n\n{bullets}\n\n{table}"


def _environment_facts(dialect: Dialect) -> list[str]:
    named = [f"`{key}`" for key in (*dialect.algorithm_keys, *dialect.algorithm_hints)]
    return [
        f"**Algorithm**: {dialect.algorithm}" + (f", named by {' or '.join(named)}." if named else "."),
        f"**Remainder** ({dialect.remainder}): {dialect.remainder_detail.format(rollout='N·T', minibatch='M')}.",
        f"**Budget**: rounded {'up' if dialect.rounds_up else 'down'} to whole rollouts.",
        f"**Shuffling**: {dialect.shuffle}.",
        f"**Advantage normalization**: {dialect.normalization}.",
        f"**Time limit**: {dialect.time_limit}.",
        f"**Several processes**: {dialect.ranks}.",
        f"**Several agents**: {dialect.agents}.",
        f"**Recurrent policies**: {dialect.recurrence}.",
        *(f"{_capitalize(note)}." for note in dialect.notes),
    ]


def _language_facts(dialect: LanguageDialect) -> list[str]:
    unit = "prompts" if dialect.whole_groups else "completions"
    return [
        f"**Remainder** ({dialect.remainder}): {dialect.remainder_detail}.",
        f"**Minibatches** are counted in {unit}.",
        f"**Algorithms**: {', '.join(sorted(dialect.algorithms))}.",
        f"**Shuffling**: {dialect.shuffle}.",
        *(f"{_capitalize(note)}." for note in dialect.notes),
    ]


def _capitalize(note: str) -> str:
    """Capitalize the first word unless it is the name of a key or a library."""
    first = note.partition(" ")[0]
    return note if "_" in first or first == "skrl" else note[0].upper() + note[1:]


def pages() -> dict[str, str]:
    """Return the content of each generated file by its name."""
    flow = svg(plan(num_envs=64, num_steps=32, total_timesteps=500_000))
    return {"rules.md": rules(), "dialects.md": dialects(), "flow.svg": flow + "\n"}


if __name__ == "__main__":
    for name, content in pages().items():
        (HERE / name).write_text(content)
