"""The study file: what is fixed, what varies, how often, and what is claimed."""

from __future__ import annotations

import difflib
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from rollshape.errors import RequestError
from rollshape.files import read_text
from rollshape.geometry.dialects.yamlfile import ConfigFile, parse
from rollshape.studies.fields import fitted, kinds

KEYS = (
    "title", "claim", "env", "algo", "fixed", "grid", "points", "seeds", "probe", "lr_rule", "lr_reference",
    "evaluate_every",
)  # fmt: skip
OWNED = {
    "seed": "`seeds` says them.",
    "log_every": "`evaluate_every` says when trials are scored and logged.",
    "eval_after": "Every trial is scored at the same timesteps: see `evaluate_every`.",
    "eval_every": "Every trial is scored at the same timesteps: see `evaluate_every`.",
    "stop_at_return": "Every trial spends its whole budget.",
}
LR_RULES = ("fixed", "sqrt", "linear")
MOST_TRIALS = 100_000
DEFAULT_SEEDS = 5
PROBE_ENVS, FEWEST_PROBE_ENVS = 256, 32


@dataclass(frozen=True, kw_only=True)
class Study:
    """Points (each a mapping of Spec fields) × seeds, on top of what is fixed.

    `lr_rule` says how the learning rate follows the minibatch: rate × (M / `lr_reference`)^p with p = 0 (fixed),
    ½ (sqrt) or 1 (linear). `evaluate_every` timesteps every trial is scored; without it about 20 times a trial.
    """

    name: str
    title: str
    claim: str
    fixed: dict[str, Any]
    points: tuple[dict[str, Any], ...]
    seeds: tuple[int, ...]
    probe_at: tuple[float, ...] = ()
    probe_envs: int = PROBE_ENVS
    lr_rule: str = "fixed"
    lr_reference: int | None = None
    evaluate_every: int | None = None

    @property
    def varied(self) -> tuple[str, ...]:
        """Fields that some point sets."""
        return tuple(dict.fromkeys(name for point in self.points for name in point))

    def to_dict(self) -> dict[str, Any]:
        """The study in the words of its file; a tuple is a list there."""
        return {
            "title": self.title,
            "claim": self.claim,
            "fixed": _listed(self.fixed),
            "points": [_listed(point) for point in self.points],
            "seeds": list(self.seeds),
            "probe": {"at": list(self.probe_at), "num_envs": self.probe_envs},
            "lr_rule": self.lr_rule,
            "lr_reference": self.lr_reference,
            "evaluate_every": self.evaluate_every,
        }

    def with_seeds(self, count: int) -> Study:
        return replace(self, seeds=_seeds(count, lambda *why: _refuse("--seeds", *why)))

    def without_probes(self) -> Study:
        return replace(self, probe_at=())

    def with_env(self, env: str) -> Study:
        if "env" in self.varied:
            raise RequestError("contradiction", "The study varies env itself.", "Leave --env out.")
        return replace(self, fixed=self.fixed | {"env": env})


def _listed(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}


def read_study(source: str) -> Study:
    """The study of a YAML or JSON file; what is wrong with it is told with its line."""
    parsed = parse(read_text(source), source)
    return _Reader(parsed.values, Path(source).stem, source, parsed).study()


def study_from(values: Mapping[str, Any], name: str) -> Study:
    """The study of plain values, such as those of `to_dict`."""
    return _Reader(dict(values), name, name, None).study()


def _refuse(where: str, problem: str, fix: str) -> NoReturn:
    raise RequestError("study", f"{where}: {problem}.", fix)


class _Reader:
    """Plain values → Study; an error names file, line and key."""

    def __init__(self, values: dict[str, Any], name: str, source: str, parsed: ConfigFile | None) -> None:
        self.values, self.name, self.source, self.parsed = values, name, source, parsed

    def fail(self, path: Sequence[str | int], problem: str, fix: str) -> NoReturn:
        line = f", line {self.parsed.line(path)}" if self.parsed else ""
        _refuse(f"{self.source}{line}", problem, fix)

    def study(self) -> Study:
        values = self.values
        for key in values:
            self.known(key, KEYS, (key,), "A study has no key")
        fixed = self.fields(self.mapping("fixed"), ("fixed",))
        for name in ("env", "algo"):
            if name in values:
                if name in fixed:
                    self.fail((name,), f"{name} is given here and under fixed", "Give it once.")
                fixed[name] = self.field(name, values[name], (name,))
        points = self.points(fixed)
        at = tuple(self.fractions())
        rule = values.get("lr_rule", "fixed")
        if rule not in LR_RULES:
            self.fail(("lr_rule",), f"lr_rule is {rule!r}", f"Choose one of {', '.join(LR_RULES)}.")
        reference = self.positive("lr_reference")
        if rule != "fixed" and reference is None:
            self.fail(
                ("lr_rule",),
                f"lr_rule {rule} scales the learning rate from a minibatch size that is not given",
                "Add lr_reference: the minibatch_size that the learning rate was tuned at, such as 64.",
            )
        return Study(
            name=self.name,
            title=self.text("title") or self.name,
            claim=self.text("claim"),
            fixed=fixed,
            points=points,
            seeds=_seeds(values.get("seeds", DEFAULT_SEEDS), lambda *why: self.fail(("seeds",), *why)),
            probe_at=at,
            probe_envs=self.probe_envs(),
            lr_rule=rule,
            lr_reference=reference,
            evaluate_every=self.positive("evaluate_every"),
        )

    def known(self, key: str, names: Iterable[str], path: Sequence[str | int], problem: str) -> None:
        names = list(names)
        if key not in names:
            near = difflib.get_close_matches(key, names, n=1)
            hint = f"Did you mean {near[0]}? " if near else ""
            self.fail(path, f"{problem} {key!r}", f"{hint}Known: {', '.join(names)}.")

    def mapping(self, key: str) -> dict[str, Any]:
        value = self.values.get(key) or {}
        if not isinstance(value, dict):
            self.fail((key,), f"{key} is no mapping", f"Write {key}: {{num_envs: 64}}, say.")
        return dict(value)

    def text(self, key: str) -> str:
        value = self.values.get(key) or ""
        if not isinstance(value, str):
            self.fail((key,), f"{key} is no text", "Quote it.")
        return " ".join(value.split())

    def positive(self, key: str) -> int | None:
        value = self.values.get(key)
        if value is None:
            return None
        whole = isinstance(value, (int, float)) and not isinstance(value, bool) and value == value // 1
        if not whole or not 1 <= value < 2**53:
            self.fail((key,), f"{key} is {value!r}", "Give a whole number from 1 on.")
        return int(value)

    def fields(self, given: Mapping[str, Any], path: Sequence[str | int]) -> dict[str, Any]:
        return {name: self.field(name, value, (*path, name)) for name, value in given.items()}

    def field(self, name: str, value: Any, path: Sequence[str | int]) -> Any:
        if name in OWNED:
            self.fail(path, f"{name} is the study's own", OWNED[name])
        self.known(name, [kind for kind in kinds() if kind not in OWNED], path, "A run has no field")
        try:
            return fitted(name, value)
        except ValueError as expected:
            self.fail(path, f"{name} is {value!r}", f"It takes {expected}.")

    def points(self, fixed: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        grid, listed = self.mapping("grid"), self.values.get("points")
        if bool(grid) == (listed is not None):
            self.fail(("grid" if grid else "fixed",), "a study varies something, by grid or by points",
                      "Give one of them: grid: {num_envs: [2, 64]}.")  # fmt: skip
        if grid:
            return self.product(grid, fixed)
        if not isinstance(listed, list) or not listed or not all(isinstance(point, dict) and point for point in listed):
            self.fail(("points",), "points is no list of mappings", "Write points: [{num_envs: 64}, {num_envs: 128}].")
        points = tuple(self.fields(point, ("points", i)) for i, point in enumerate(listed))
        for i, point in enumerate(points):
            for name in point:
                self.varies(name, fixed, ("points", i, name))
        return points

    def product(self, grid: Mapping[str, Any], fixed: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        axes: dict[str, list[Any]] = {}
        for name, values in grid.items():
            if not isinstance(values, list) or not values:
                self.fail(("grid", name), f"grid.{name} is no list of values", f"Write {name}: [first, second].")
            self.varies(name, fixed, ("grid", name))
            axes[name] = [self.field(name, value, ("grid", name)) for value in values]
        size = math.prod(map(len, axes.values()))
        if size > MOST_TRIALS:
            self.fail(("grid",), f"the grid has {size:,} points", f"At most {MOST_TRIALS:,}; list points instead.")
        return tuple(dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values()))

    def varies(self, name: str, fixed: Mapping[str, Any], path: Sequence[str | int]) -> None:
        if name in fixed:
            self.fail(path, f"{name} is fixed and varied", "Keep one of the two.")

    def fractions(self) -> list[float]:
        probe = self.mapping("probe")
        for key in probe:
            self.known(key, ("at", "num_envs"), ("probe", key), "probe has no key")
        at = probe.get("at", [])
        if not isinstance(at, list) or not all(
            isinstance(share, (int, float)) and not isinstance(share, bool) and 0 < share <= 1 for share in at
        ):
            self.fail(("probe", "at"), f"probe.at is {at!r}", "List shares of the run in (0, 1], such as [0.1, 0.5].")
        return sorted({float(share) for share in at})

    def probe_envs(self) -> int:
        count = self.mapping("probe").get("num_envs", PROBE_ENVS)
        if not isinstance(count, int) or isinstance(count, bool) or not FEWEST_PROBE_ENVS <= count <= 2**20:
            fix = f"Give a whole number from {FEWEST_PROBE_ENVS} on: intervals are over environments."
            self.fail(("probe", "num_envs"), f"probe.num_envs is {count!r}", fix)
        return count


def _seeds(value: Any, fail: Callable[[str, str], NoReturn]) -> tuple[int, ...]:
    """A count K as 0 … K−1, or the list itself."""
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_TRIALS:
        return tuple(range(value))
    good = isinstance(value, list) and value and all(isinstance(seed, int) and 0 <= seed < 2**32 for seed in value)
    if not good or len(set(value)) < len(value):
        fail(f"seeds is {value!r}", "Give a count, such as 5, or a list of different seeds, such as [0, 1, 2].")
    return tuple(value)
