"""Generate the pages that follow from the code, and the pictures. A test checks that they are up to date.

Run: .venv/bin/python docs/build.py
"""

from __future__ import annotations

import sys
from pathlib import Path

from rollshape.geometry.diagram import svg
from rollshape.geometry.dialects import DIALECTS
from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.keys import EXTRA
from rollshape.geometry.dialects.language import LanguageDialect
from rollshape.geometry.dialects.registry import ALL_DIALECTS, LANGUAGE_DIALECTS
from rollshape.geometry.dialects.rrd import RrdDialect
from rollshape.geometry.dialects.text import as_yaml
from rollshape.geometry.dialects.translate import write_plan
from rollshape.geometry.plan import plan
from rollshape.geometry.rules import PAGES
from rollshape.geometry.rules.base import CHECKS
from rollshape.geometry.rules.claims import claims_about
from rollshape.integrations.logs.libraries import LIBRARIES
from rollshape.integrations.logs.library import LibraryLog

HERE = Path(__file__).parent
SHOWN_LIBRARIES = (
    "sb3", "cleanrl", "rl_games", "isaaclab:rsl_rl", "skrl", "rllib", "brax", "purejaxrl", "torchrl", "pufferlib",
    "sample_factory", "tianshou",
)  # fmt: skip
SHOWN_PLAN = {"num_envs": 64, "num_steps": 32, "num_minibatches": 4, "total_timesteps": 1_024_000}


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
        parts += [
            f"### {name}\n\n{PAGES[name].text}\n\n*Source: {PAGES[name].source}.*{_tests(name)}" for name in names
        ]
    return "\n\n".join(parts) + "\n"


def _tests(rule: str) -> str:
    """Return links to the claims that a rule rests on."""
    links = [f"[{claim.id}](claims.md#{claim.id})" for claim in claims_about(rule)]
    return f" *Tested: {', '.join(links)}.*" if links else ""


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


def metrics() -> str:
    """Return which metric means what in which library: the tag tables of the log readers."""
    parts = [
        "# Metrics of other libraries",
        "Generated from the code by `docs/build.py`. `rollshape import`, `diagnose` and `report` read the logs of these"
        " libraries ([how](import.md)). The tables say what each library writes under a tag, taken from its source code"
        " at the given version, and which column of ours it becomes (defined in the [vocabulary](vocabulary.md)). A"
        " value with another meaning is not imported: its column is null, and a suspect of `rollshape diagnose` that"
        " needs it is not measurable. Tags that are not in the tables are ignored.",
        "## The same column in every library",
        _column_table(),
    ]
    parts += [_log_section(library) for library in LIBRARIES]
    return "\n\n".join(parts) + "\n"


def _column_table() -> str:
    columns = dict.fromkeys(tag.column for library in LIBRARIES for tag in library.tags if tag.column)
    rows = [f"| column | {' | '.join(library.name for library in LIBRARIES)} |", "|---" * (len(LIBRARIES) + 1) + "|"]
    for column in columns:
        cells = [
            ", ".join(f"`{tag.names[0]}`" for tag in library.tags if tag.column == column) or "–"
            for library in LIBRARIES
        ]
        rows.append(f"| `{column}` | {' | '.join(cells)} |")
    return "\n".join(rows)


def _log_section(library: LibraryLog) -> str:
    facts = [
        f"**Axis**: {library.axis}.",
        f"**Returns** are averaged over {library.window}.",
        f"**Recognized by** {', '.join(f'`{mark}`' for mark in library.marks)}.",
        f"**Dialects**: {', '.join(f'`{name}`' for name in library.dialects)}.",
    ]
    rows = ["| tag | what it is | column | of which update |", "|---|---|---|---|"]
    for tag in library.tags:
        names = ", ".join(f"`{name}`" for name in tag.names)
        factor = "" if callable(tag.factor) or tag.factor == 1 else f", × {tag.factor:g}"
        column = f"`{tag.column}`{factor}" if tag.column else "–"
        when = {"previous": "the one before", "episode": "the rollout", "rollout": "the rollout",
                "evaluation": "the one before", "update": "this one"}[tag.when]  # fmt: skip
        meaning = f"{tag.meaning}. {_capitalize(tag.condition)}" if tag.condition else tag.meaning
        rows.append(f"| {names} | {meaning} | {column} | {when if tag.column else ''} |")
    doc = " ".join((sys.modules[type(library).__module__].__doc__ or "").split())
    bullets = "\n".join(f"- {fact}" for fact in facts)
    return f"## {library.name} {library.version}\n\n{doc}\n\n{bullets}\n\n" + "\n".join(rows)


def libraries() -> str:
    """Return how the same plan is written for common libraries, and what each does with its sizes."""
    flags = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in SHOWN_PLAN.items())
    parts = [
        "# Libraries",
        "Generated from the code by `docs/build.py`. The same plan as the config of each library: 64 environments × 32"
        f" steps, 4 minibatches, 500 updates (`rollshape plan {flags}`). [Dialects](dialects.md) lists all libraries"
        " and keys; [the page](page.md) shows every plan in every one of them.",
        "For a config of your own, in any of them:",
        "    rollshape translate CONFIG --from sb3 --to cleanrl     write it for another library\n"
        "    rollshape patch CONFIG --dialect sb3 --num-envs 16     make its sizes valid, in place\n"
        "    rollshape rescale CONFIG --dialect sb3 --num-envs 64   what else must change for 64 environments",
    ]
    result = plan(**SHOWN_PLAN)
    for name in SHOWN_LIBRARIES:
        dialect, written = DIALECTS[name], write_plan(result, name, {})
        facts = [
            f"**Remainder**: {dialect.remainder_detail.format(rollout='N·T', minibatch='M')}.",
            f"**Budget**: rounded {'up' if dialect.rounds_up else 'down'} to whole rollouts.",
            f"**Time limit**: {dialect.time_limit}.",
            *(f"{_capitalize(note)}." for note in dialect.notes),
        ]
        bullets = "\n".join(f"- {fact}" for fact in facts)
        parts.append(f"## {dialect.library}\n\n```yaml\n{as_yaml(written.config)}```\n\n{bullets}")
    return "\n\n".join(parts) + "\n"


def pages() -> dict[str, str]:
    """Return the content of each generated file by its name."""
    flow = svg(plan(num_envs=64, num_steps=32, total_timesteps=500_000))
    sys.path.insert(0, str(HERE))
    from claim_page import claims
    from pictures import pictures

    generated = {"rules.md": rules(), "claims.md": claims(), "dialects.md": dialects(), "libraries.md": libraries()}
    generated |= {"metrics.md": metrics(), "flow.svg": flow + "\n"}
    return generated | pictures()


if __name__ == "__main__":
    for name, content in pages().items():
        (HERE / name).write_text(content)
