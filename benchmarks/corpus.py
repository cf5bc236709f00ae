"""Read every config of a checkout of a public repository: `python benchmarks/corpus.py DIR [--dialect rl_games …]`.

Prints, per kind of file and dialect, how many configs were read and refused, the reasons of the refusals, and the sizes
of those that were read, so that a person (or a script, with --json) can check them. A file counts as a config if it
contains at least `LEAST_KEYS` of the dialect's sizes. Without --dialect, each config is read in the dialect of most of
whose sizes it contains. A config without a number of environments is read with --num-envs.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from rollshape.errors import RequestError
from rollshape.geometry.dialects import DIALECTS, resolve
from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.config import matching_levels, score
from rollshape.geometry.dialects.predict import predict
from rollshape.geometry.dialects.reading import read
from rollshape.geometry.dialects.sources import ConfigSource, load

LEAST_KEYS = 3
SUFFIXES = (".yaml", ".yml", ".json", ".toml", ".ini", ".py", ".sh")
COMMAND = re.compile(r"^\s*(?:\w+=\S+ )*python\d? .*\.py .*", re.MULTILINE)


@dataclass(frozen=True)
class Entry:
    """One config: a file, or one level of it."""

    file: str
    key: str
    kind: str
    dialect: str
    outcome: str  # read, "read, invalid" (the library rejects the sizes), refused, or not a config
    reason: str = ""
    sizes: str = ""
    flag: bool = False  # whether the number of environments is that of --num-envs


def sources(path: Path) -> Iterator[ConfigSource | RequestError]:
    """Yield what a file contains: itself, or the command lines of a shell script."""
    if path.suffix == ".sh":
        commands = COMMAND.findall(path.read_text(errors="replace").replace("\\\n", " "))
        texts = [re.sub(r"\$\{?\w+\}?", "VARIABLE", command.strip()) for command in commands]
        texts = [re.sub(r"(\S+\.py)", lambda match: _beside(path, match[1]), text, count=1) for text in texts]
    else:
        texts = [str(path)]
    for text in texts:
        try:
            yield load(text)
        except RequestError as error:
            yield error


def _beside(path: Path, script: str) -> str:
    return str(path.parent / script) if (path.parent / script).is_file() else script


def entries(path: Path, dialects: list[Dialect], num_envs: int) -> Iterator[Entry]:
    """Yield the configs of a file."""
    for source in sources(path):
        if isinstance(source, RequestError):
            known = "without a config" not in source.message
            yield Entry(str(path), "", path.suffix, "", "refused" if known else "not a config", str(source))
            continue
        best = max(dialects, key=lambda dialect: _most(source, dialect))
        if _most(source, best) < LEAST_KEYS:
            yield Entry(str(path), "", source.kind, "", "not a config")
            continue
        for level in matching_levels(source.values, best):
            node = source.values
            for part in level:
                node = node[part]
            if score(node, best) >= 2:
                yield outcome(source, best, ".".join(level), num_envs)


def _most(source: ConfigSource, dialect: Dialect) -> int:
    paths = matching_levels(source.values, dialect)
    most = 0
    for path in paths:
        node = source.values
        for part in path:
            node = node[part]
        most = max(most, score(node, dialect))
    return most


def outcome(source: ConfigSource, dialect: Dialect, key: str, num_envs: int) -> Entry:
    """Read one level of a config, with --num-envs if it does not say how many environments there are."""
    where = (source.name if source.kind != "a command line" else source.text, key, source.kind, dialect.name)
    for flag in (None, num_envs):
        try:
            dialect = resolve(dialect.name, source.values, key=key or None, file=source.name)  # that of its algorithm
            recipe = read(
                source.values, dialect, num_envs=flag, key=key or None, candidates=DIALECTS, file=source.name
            ).recipe
        except RequestError as error:
            if flag is None and error.rule in ("missing-key", "reference") and "num-envs" in error.fix:
                continue
            return Entry(*where, "refused", str(error))
        sizes = (
            f"N {recipe.num_envs} T {recipe.num_steps} M {recipe.minibatch_size} K {recipe.num_minibatches} "
            f"E {recipe.num_epochs} updates {recipe.num_updates}"
        )
        try:
            predict(dialect, recipe)
        except RequestError as error:
            return Entry(*where, "read, invalid", str(error), sizes, flag is not None)
        return Entry(*where, "read", sizes=sizes, flag=flag is not None)
    return Entry(*where, "refused", "no number of environments")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dialect", nargs="+", default=list(DIALECTS))
    parser.add_argument("--num-envs", type=int, default=4096)
    parser.add_argument("--json", action="store_true", help="print one JSON line per config")
    args = parser.parse_args()
    chosen = [name.lower() for name in args.dialect]
    dialects = [DIALECTS[name] for name in DIALECTS if name in chosen or name.partition(":")[0] in chosen]
    if not dialects:
        parser.error(f"unknown dialect {' '.join(chosen)}; rollshape dialects lists them")
    files = sorted(path for path in args.folder.rglob("*") if path.suffix in SUFFIXES and path.is_file())
    found = [entry for path in files for entry in entries(path, dialects, args.num_envs)]
    if args.json:
        print("\n".join(json.dumps(asdict(entry)) for entry in found))
        return
    counts = Counter((entry.kind, entry.dialect, entry.outcome) for entry in found)
    for (kind, dialect, result), count in sorted(counts.items()):
        print(f"{kind:<16} {dialect:<20} {result:<14} {count:>5}")
    print("\nrefused:")
    reasons = Counter(re.sub(r"\d[\d,]*", "#", entry.reason.splitlines()[0]) for entry in found if _has_reason(entry))
    for reason, count in reasons.most_common():
        print(f"{count:>5}  {reason[:160]}")
    print("\nread:")
    for entry in found:
        if entry.sizes:
            print(f"{entry.file} [{entry.key}] {entry.dialect}: {entry.sizes}{' (--num-envs)' if entry.flag else ''}")


def _has_reason(entry: Entry) -> bool:
    return bool(entry.reason) and entry.outcome != "not a config"


if __name__ == "__main__":
    main()
