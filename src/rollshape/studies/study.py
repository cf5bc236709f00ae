"""A study: what is fixed, what varies, how many seeds, what is claimed and by which rule the claim is judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from rollshape.errors import RequestError
from rollshape.studies.racing.settings import RaceSettings

MAX_TRIALS = 100_000
DEFAULT_PROBE_ENVS = 256


@dataclass(frozen=True, kw_only=True)
class Study:
    """Points (each a mapping of Spec fields) × seeds, on top of what is fixed.

    `lr_rule` scales the learning rate with the minibatch: rate × (M / `lr_reference`)^p with p = 0 (fixed), ½ (sqrt)
    or 1 (linear). Every trial is scored every `evaluate_every` timesteps, by default about 20 times.
    """

    name: str
    title: str
    claim: str
    rule: str = ""  # of studies.rules; without one the claim is not judged
    fixed: dict[str, Any]
    points: tuple[dict[str, Any], ...]
    seeds: tuple[int, ...]
    probe_at: tuple[float, ...] = ()
    probe_envs: int = DEFAULT_PROBE_ENVS
    lr_rule: str = "fixed"
    lr_reference: int | None = None
    evaluate_every: int | None = None
    race: RaceSettings | None = None  # train few of the trials to the end; None: all of them

    @property
    def varied(self) -> tuple[str, ...]:
        """Fields that some point sets."""
        return tuple(dict.fromkeys(name for point in self.points for name in point))

    def to_dict(self) -> dict[str, Any]:
        """Return the study under the keys of its file; tuples become lists."""
        return {
            "title": self.title,
            "claim": self.claim,
            "rule": self.rule,
            "fixed": _with_lists(self.fixed),
            "points": [_with_lists(point) for point in self.points],
            "seeds": list(self.seeds),
            "probe": {"at": list(self.probe_at), "num_envs": self.probe_envs},
            "lr_rule": self.lr_rule,
            "lr_reference": self.lr_reference,
            "evaluate_every": self.evaluate_every,
            **({"race": self.race.to_dict()} if self.race else {}),
        }

    def with_seeds(self, count: int) -> Study:
        def fail(problem: str, fix: str) -> NoReturn:
            raise RequestError("study", f"--seeds: {problem}.", fix)

        return replace(self, seeds=parse_seeds(count, fail))

    def without_probes(self) -> Study:
        return replace(self, probe_at=())

    def with_env(self, env: str) -> Study:
        if "env" in self.varied:
            raise RequestError("contradiction", "The study itself varies env.", "Leave --env out.")
        return replace(self, fixed=self.fixed | {"env": env})


def _with_lists(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}


def parse_seeds(value: Any, fail: Callable[[str, str], NoReturn]) -> tuple[int, ...]:
    """Return 0 … K−1 for a count K, or the listed seeds."""
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_TRIALS:
        return tuple(range(value))
    is_list = isinstance(value, list) and value and all(isinstance(seed, int) and 0 <= seed < 2**32 for seed in value)
    if not is_list or len(set(value)) < len(value):
        fail(f"seeds is {value!r}", "Give a count, such as 5, or a list of different seeds, such as [0, 1, 2].")
    return tuple(value)
