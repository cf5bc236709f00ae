"""Hostile config files through `patch` and `translate`: a message and an unchanged file, or a valid, stable result."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from chaos import hostile
from chaos.arena import Arena
from chaos.commands import Result, run_here
from chaos.faults import Finding, Verdict, kind
from chaos.judge import complaint, message_of

LONG = "1" * 4000
NESTED = ("a: " + "[" * 200 + "]" * 200, "a: " + "{a: " * 200 + "1" + "}" * 200)
MULTIPLIED = """\
a: &a [x, x, x, x, x, x, x, x, x]
b: &b [*a, *a, *a, *a, *a, *a, *a]
c: &c [*b, *b, *b, *b, *b, *b]
d: [*c, *c, *c, *c, *c, *c, *c, *c]
"""
TEXTS: tuple[str, ...] = (
    "", "\n", "- 1\n", "3\n", "a: [\n", "a: {b: 1\n", "\ta: 1\n", "a: 1\na: 2\n", "&a [*a]\n", "a: &x {<<: *x}\n",
    "? [1, 2]\n: 3\n", "!!python/object/apply:os.system ['true']\n", "a: !!python/name:os.system\n", "a: !foo 3\n",
    "%YAML 9.9\n---\na: 1\n", "a: 1\n---\nb: 2\n", "---\n...\n", f"n_envs: {LONG}\n", "n_envs: 1e999\n",
    "n_envs: .nan\n", "n_envs: 0o777\n", "n_envs: 1:30:00\n", "a: 2001-12-14t21:59:43.10-05:00\n",
    "\ufeffn_envs: 8\n", 'a: "\\ud800"\n', *NESTED, MULTIPLIED, '{"n_envs": 8, "n_steps": NaN}',
    '{"n_envs": 8, "n_steps": 1e400}', "null: 1\ntrue: 2\n1: 3\n", "~\n", "n_envs: \x07\n",
    "ReplayBuffer: {batch_size: abc}\n", "n_envs: !!float 8\n", "n_envs: !!int abc\n", "n_envs: !!bool maybe\n",
)  # fmt: skip
# Configs of the libraries that have no rollout, as the dialects of replay algorithms read them.
OTHERS = (
    '{"ReplayBuffer": {"batch_size": 32, "max_capacity": 1000}, "JaxDQNAgent": {"update_period": 4}}',
    '{"batch_size": 256, "num_sgd_steps_per_step": 64, "samples_per_insert": 256, "min_replay_size": 10000}',
    '{"rrd_batch_size": 256, "rrd_sample_size": 64, "transition_batch_size": 512, "steps_per_iteration": 100}',
)
# Configs that failed once: a traceback, and a patch that was not stable.
FAILED = (
    ("dopamine", "update_period: 320\nbatch_size: 80\nReplayBuffer: {batch_size: abc}\n"),
    ("pufferlib", "vec: {num_envs: 4}\nenv: {num_envs: 3}\ntrain: {batch_size: 1024, bptt_horizon: 16}\n"),
    ("sb3", f"n_envs: 8\nn_steps: 128\nlearning_rate: {LONG}\n"),
)
SIZES = (1, 2, 3, 5, 6, 7, 9, 12, 48, 100, 127, 1000, 4096)
VALUES = (0, -1, 3, 7, 1.5, 2**40, 2**63, 10**30, "abc", "8", None, [], {}, True, [4], {"a": 1}, float("inf"), 1e300,
          int(LONG))  # fmt: skip


@kind("yaml", 400, short=20)
def hostile_yaml(arena: Arena, rng: random.Random) -> Finding:
    """A text that is no config, or a valid config with hostile values in it."""
    from rollshape.geometry.dialects import NAMES

    dialect = rng.choice(NAMES)
    text = rng.choice(TEXTS) if rng.random() < 0.2 else _mutated(dialect, rng)
    if rng.random() < 0.05:
        dialect, text = rng.choice(FAILED)
    with arena.scratch() as folder:
        file = folder / "config.yaml"
        file.write_bytes(_encode(text, rng))
        if rng.random() < 0.5:
            return _patch(file, dialect, rng)
        target = rng.choice(NAMES)
        argv = ["translate", str(file), "--from", dialect, "--to", target, *_num_envs(rng), "--json"]
        return _judge(run_here(argv), f"translate --from {dialect} --to {target}: {_brief(file)}")


def _patch(file: Path, dialect: str, rng: random.Random) -> Finding:
    """Patch twice: what a patch wrote must be accepted as it is."""
    before, envs = file.read_bytes(), _num_envs(rng)
    argv = ["patch", str(file), "--dialect", dialect, *envs, "--json"]
    result, fault = run_here(argv), f"patch --dialect {dialect} {' '.join(envs)}: {_brief_text(before)}"
    finding = _judge(result, fault)
    if not finding.verdict.is_good or result.code != 0:
        if result.code != 0 and file.read_bytes() != before:
            return Finding(Verdict.LOST, fault, "refused, but the file has changed")
        return finding
    again = run_here(argv)
    if problem := complaint(again):
        return Finding(Verdict.TRACEBACK, f"{fault}; patched again", problem)
    if again.code != 0:
        return Finding(Verdict.SILENT, fault, f"the patched file is refused: {message_of(again)}")
    if again.document["changes"]:
        return Finding(Verdict.SILENT, fault, f"a second patch changes the file again: {again.document['changes']}")
    return finding


def _judge(result: Result, fault: str) -> Finding:
    if problem := complaint(result):
        return Finding(Verdict.TRACEBACK, fault, problem)
    return Finding(Verdict.REFUSED, fault, message_of(result)) if result.code else Finding(Verdict.IDENTICAL, fault)


def _mutated(dialect: str, rng: random.Random) -> str:
    """Return a config of a dialect with one to three values replaced."""
    from rollshape.errors import RollshapeError
    from rollshape.geometry.dialects import translate

    plain = {"num_envs": rng.choice([3, 7, 8, 64]), "num_steps": rng.choice([5, 16, 128]), "num_minibatches": 4}
    try:
        config = translate(plain, "rollshape", dialect).config
    except RollshapeError:
        config = json.loads(rng.choice(OTHERS))
    if dialect == "pufferlib" and rng.random() < 0.5:
        config = {**config, "vec": {"num_envs": rng.choice([1, 4, 7])}, "env": {"num_envs": rng.choice([1, 3, 8])}}
    if rng.random() < 0.5:
        config = _nested(config)
    paths = list(_paths(config))
    for path in rng.sample(paths, min(len(paths), rng.randint(1, 3))):
        _set(config, path, rng)
    return json.dumps(config, default=repr) if rng.random() < 0.3 else _as_yaml(config)


def _nested(config: dict[str, Any]) -> dict[str, Any]:
    """Turn `A.b: 1` into `A: {b: 1}`."""
    nested: dict[str, Any] = {}
    for name, value in config.items():
        *folders, leaf = name.split(".")
        level = nested
        for folder in folders:
            level = level.setdefault(folder, {})
        level[leaf] = value
    return nested


def _paths(config: Any, prefix: tuple[str, ...] = ()) -> Any:
    for name, value in config.items():
        yield (*prefix, name)
        if isinstance(value, dict):
            yield from _paths(value, (*prefix, name))


def _set(config: Any, path: tuple[str, ...], rng: random.Random) -> None:
    for name in path[:-1]:
        if not isinstance(config.get(name), dict):
            return
        config = config[name]
    if path[-1] in config:
        config[path[-1]] = rng.choice(VALUES) if rng.random() < 0.4 else rng.choice(SIZES)


def _as_yaml(config: Any) -> str:
    from rollshape.cli.translate import as_yaml

    return as_yaml(config)


def _encode(text: str, rng: random.Random) -> bytes:
    raw = text.encode("utf-8", errors="surrogatepass")
    if rng.random() < 0.1:
        position = rng.randrange(len(raw) + 1)
        raw = raw[:position] + bytes([rng.randrange(256)]) + raw[position:]
    return raw


def _num_envs(rng: random.Random) -> list[str]:
    draw = rng.random()
    if draw < 0.6:
        return []
    return ["--num-envs", hostile.text(rng) if draw < 0.7 else rng.choice(["1", "3", "7", "4096"])]


def _brief(file: Path) -> str:
    return _brief_text(file.read_bytes())


def _brief_text(content: bytes) -> str:
    return f"{content[:200]!r}{'…' if len(content) > 200 else ''}"
