"""Read study files: plain values become a Study, and an error names the file, the line and the key."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from rollshape.errors import RequestError, did_you_mean
from rollshape.files import read_text
from rollshape.geometry.dialects.policies import POLICIES
from rollshape.geometry.dialects.sources.yamlfile import ConfigFile, parse
from rollshape.studies.fields import convert_field, field_types
from rollshape.studies.racing.rule import check_budget
from rollshape.studies.racing.settings import OBJECTIVES, RaceSettings
from rollshape.studies.rescaling import MEASURED, rescaled_points
from rollshape.studies.rules import RULES
from rollshape.studies.study import DEFAULT_PROBE_ENVS, MAX_TRIALS, Study, parse_seeds

STUDY_FILES = (".yaml", ".yml", ".json")
KEYS = (
    "title", "claim", "rule", "env", "algo", "fixed", "grid", "points", "rescale", "seeds", "probe", "lr_rule",
    "lr_reference", "evaluate_every", "race",
)  # fmt: skip
SET_BY_STUDY = {
    "seed": "Use `seeds` instead.",
    "log_every": "Use `evaluate_every`: trials are scored and logged at the same timesteps.",
    "eval_after": "Use `evaluate_every`: every trial is scored at the same timesteps.",
    "eval_every": "Use `evaluate_every`: every trial is scored at the same timesteps.",
    "stop_at_return": "Every trial uses its whole budget.",
    "final_episodes": "The final score of every trial has the same number of episodes.",
}
SAME_IN_RACE = ("env", "env_kwargs", "total_timesteps")  # otherwise scores or costs could not be compared
LR_RULES = ("fixed", "sqrt", "linear")
DEFAULT_SEEDS = 5
MIN_PROBE_ENVS = 32


def read_study(source: str) -> Study:
    """Read the study of a YAML or JSON file."""
    parsed = parse(read_text(source), source)
    return _StudyReader(parsed.values, study_name(source), source, parsed).read()


def study_name(source: str) -> str:
    """Return the name of a file without its ending, such that it can name a folder: `...yaml` is `study`."""
    stem = Path(source).name
    for ending in STUDY_FILES:
        stem = stem.removesuffix(ending)
    printable = "".join(character if character.isprintable() else "-" for character in stem)
    return printable.strip(". ") or "study"


def study_from_dict(values: Mapping[str, Any], name: str) -> Study:
    """Return the study of plain values, such as those of `Study.to_dict`."""
    return _StudyReader(dict(values), name, name, None).read()


class _StudyReader:
    """Turns plain values into a Study; `fail` names file, line and key."""

    def __init__(self, values: dict[str, Any], name: str, source: str, parsed: ConfigFile | None) -> None:
        self.values, self.name, self.source, self.parsed = values, name, source, parsed

    def fail(self, path: Sequence[str | int], problem: str, fix: str) -> NoReturn:
        line = f", line {self.parsed.line(path)}" if self.parsed else ""
        raise RequestError("study", f"{self.source}{line}: {problem}.", fix)

    def read(self) -> Study:
        values = self.values
        for key in values:
            self.check_known(key, KEYS, (key,), "A study has no key")
        fixed = self.fields(self.mapping("fixed"), ("fixed",))
        for name in ("env", "algo"):
            if name in values:
                if name in fixed:
                    self.fail((name,), f"{name} is given here and under fixed", "Give it once.")
                fixed[name] = self.field(name, values[name], (name,))
        lr_rule, lr_reference = self.lr_scaling()
        study = Study(
            name=self.name,
            title=self.text("title") or self.name,
            claim=self.text("claim"),
            rule=self.rule(),
            fixed=fixed,
            points=self.rescaled(self.points(fixed), fixed),
            seeds=parse_seeds(values.get("seeds", DEFAULT_SEEDS), lambda *why: self.fail(("seeds",), *why)),
            probe_at=tuple(self.probe_shares()),
            probe_envs=self.probe_envs(),
            lr_rule=lr_rule,
            lr_reference=lr_reference,
            evaluate_every=self.positive_number("evaluate_every"),
            race=self.race(),
        )
        if study.race is not None:
            for name in SAME_IN_RACE:
                if any(name in point for point in study.points):
                    self.fail(("race",), f"the points of a race have different {name}", f"Give {name} under fixed.")
            check_budget(study.race.budget, len(study.points), len(study.seeds),
                         first_part=study.race.objective == "seconds")  # fmt: skip
        return study

    def race(self) -> RaceSettings | None:
        given = self.mapping("race")
        if not given:
            return None
        for key in given:
            self.check_known(key, ("budget", "objective"), ("race", key), "race has no key")
        race = RaceSettings(**given)
        budget, objective = race.budget, race.objective
        if isinstance(budget, bool) or not isinstance(budget, (int, float)) or not 0 < budget <= 1:
            self.fail(("race", "budget"), f"race.budget is {budget!r}", "Give a share in (0, 1], such as 0.15.")
        if objective not in OBJECTIVES:
            fix = f"Choose one of {', '.join(OBJECTIVES)}."
            self.fail(("race", "objective"), f"race.objective is {objective!r}", fix)
        return replace(race, budget=float(budget))

    def rule(self) -> str:
        name = self.text("rule")
        if name:
            self.check_known(name, RULES, ("rule",), "There is no rule")
        return name

    def lr_scaling(self) -> tuple[str, int | None]:
        rule, reference = self.values.get("lr_rule", "fixed"), self.positive_number("lr_reference")
        if rule not in LR_RULES:
            self.fail(("lr_rule",), f"lr_rule is {rule!r}", f"Choose one of {', '.join(LR_RULES)}.")
        if rule != "fixed" and reference is None:
            self.fail(
                ("lr_rule",),
                f"lr_rule {rule} scales the learning rate from a minibatch size that is not given",
                "Add lr_reference: the minibatch_size that the learning rate was tuned at, such as 64.",
            )
        return rule, reference

    def check_known(self, key: str, names: Iterable[str], path: Sequence[str | int], problem: str) -> None:
        names = list(names)
        if key not in names:
            self.fail(path, f"{problem} {key!r}", f"{did_you_mean(key, names)}Known: {', '.join(names)}.")

    def mapping(self, key: str) -> dict[str, Any]:
        value = self.values.get(key) or {}
        if not isinstance(value, dict):
            self.fail((key,), f"{key} is not a mapping", f"Write for example {key}: {{num_envs: 64}}.")
        return dict(value)

    def text(self, key: str) -> str:
        value = self.values.get(key) or ""
        if not isinstance(value, str):
            self.fail((key,), f"{key} is not text", "Quote it.")
        return " ".join(value.split())

    def positive_number(self, key: str) -> int | None:
        value = self.values.get(key)
        if value is None:
            return None
        whole = isinstance(value, (int, float)) and not isinstance(value, bool) and value == value // 1
        if not whole or not 1 <= value < 2**53:
            self.fail((key,), f"{key} is {value!r}", "Give a whole number of at least 1.")
        return int(value)

    def fields(self, given: Mapping[str, Any], path: Sequence[str | int]) -> dict[str, Any]:
        return {name: self.field(name, value, (*path, name)) for name, value in given.items()}

    def field(self, name: str, value: Any, path: Sequence[str | int]) -> Any:
        if name in SET_BY_STUDY:
            self.fail(path, f"{name} is set by the study itself", SET_BY_STUDY[name])
        self.check_known(
            name, [field for field in field_types() if field not in SET_BY_STUDY], path, "A run has no field"
        )
        try:
            return convert_field(name, value)
        except ValueError as expected:
            self.fail(path, f"{name} is {value!r}", f"It takes {expected}.")

    def points(self, fixed: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        grid, points = self.mapping("grid"), self.values.get("points")
        if bool(grid) == (points is not None):
            self.fail(("grid" if grid else "fixed",), "a study varies something, either by grid or by points",
                      "Give one of them: grid: {num_envs: [2, 64]}.")  # fmt: skip
        if grid:
            return self.product(grid, fixed)
        if not isinstance(points, list) or not points or not all(isinstance(point, dict) and point for point in points):
            self.fail(
                ("points",), "points is not a list of mappings", "Write points: [{num_envs: 64}, {num_envs: 128}]."
            )
        converted = tuple(self.fields(point, ("points", i)) for i, point in enumerate(points))
        for i, point in enumerate(converted):
            for name in point:
                self.check_varied(name, fixed, ("points", i, name))
        return converted

    def rescaled(self, points: tuple[dict[str, Any], ...], fixed: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        """Return each point, followed by what `rollshape rescale` makes of it for other numbers of environments."""
        asked = self.mapping("rescale")
        if not asked:
            return points
        for key in asked:
            self.check_known(key, ("num_envs", "policies"), ("rescale", key), "rescale has no key")
        counts, policies = asked.get("num_envs"), asked.get("policies", list(MEASURED))
        if not isinstance(counts, list) or not counts:
            self.fail(("rescale", "num_envs"), f"rescale.num_envs is {counts!r}", "List numbers, such as [8, 64].")
        if not isinstance(policies, list):
            self.fail(("rescale", "policies"), f"rescale.policies is {policies!r}", "List names of policies.")
        for policy in policies:
            self.check_known(policy, POLICIES, ("rescale", "policies"), "There is no policy")
        try:
            return tuple(new for point in points for new in rescaled_points(fixed, point, counts, policies))
        except RequestError as error:
            self.fail(("rescale",), error.message.rstrip("."), error.fix)

    def product(self, grid: Mapping[str, Any], fixed: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        axes: dict[str, list[Any]] = {}
        for name, values in grid.items():
            if not isinstance(values, list) or not values:
                self.fail(("grid", name), f"grid.{name} is not a list of values", f"Write {name}: [first, second].")
            self.check_varied(name, fixed, ("grid", name))
            axes[name] = [self.field(name, value, ("grid", name)) for value in values]
        size = math.prod(map(len, axes.values()))
        if size > MAX_TRIALS:
            self.fail(("grid",), f"the grid has {size:,} points", f"At most {MAX_TRIALS:,}; list points instead.")
        return tuple(dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values()))

    def check_varied(self, name: str, fixed: Mapping[str, Any], path: Sequence[str | int]) -> None:
        if name in fixed:
            self.fail(path, f"{name} is both fixed and varied", "Keep one of the two.")

    def probe_shares(self) -> list[float]:
        probe = self.mapping("probe")
        for key in probe:
            self.check_known(key, ("at", "num_envs"), ("probe", key), "probe has no key")
        at = probe.get("at", [])
        if not isinstance(at, list) or not all(
            isinstance(share, (int, float)) and not isinstance(share, bool) and 0 < share <= 1 for share in at
        ):
            self.fail(("probe", "at"), f"probe.at is {at!r}", "List shares of the run in (0, 1], such as [0.1, 0.5].")
        return sorted({float(share) for share in at})

    def probe_envs(self) -> int:
        count = self.mapping("probe").get("num_envs", DEFAULT_PROBE_ENVS)
        if not isinstance(count, int) or isinstance(count, bool) or not MIN_PROBE_ENVS <= count <= 2**20:
            fix = f"Give a whole number of at least {MIN_PROBE_ENVS}: intervals are over environments."
            self.fail(("probe", "num_envs"), f"probe.num_envs is {count!r}", fix)
        return count
