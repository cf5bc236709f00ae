"""What the study `rescale` measured: how much each policy loses, by the change of the number of environments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import log
from pathlib import Path
from typing import Any

from rollshape.geometry.dialects.policies import ENVS_ONLY

EVIDENCE_FILE = Path(__file__).with_name("rescale_evidence.json")


@dataclass(frozen=True)
class Evidence:
    """The measured factor nearest to the requested one: its policies, and which of them are tied with the best.

    Without a change of the number of environments there is nothing to compare, and `factor` is None.
    """

    requested: float  # num_envs after / before
    factor: float | None
    best: str
    tied: tuple[str, ...]
    policies: Mapping[str, Any]
    tasks: tuple[str, ...]
    seeds: int
    command: str

    @property
    def candidates(self) -> tuple[str, ...]:
        """The policies among which `auto` chooses."""
        return self.tied or (ENVS_ONLY,)

    def explain(self, policy: str) -> str:
        """Return in one sentence why `auto` chose the policy."""
        if self.factor is None:
            return "the number of environments does not change"
        others = [name for name in self.tied if name != policy]
        if not others:
            return f"chosen: the best policy at num_envs × {self.factor:g}; every other one is significantly worse"
        return (
            f"chosen: no policy is significantly better at num_envs × {self.factor:g}, and it changes the fewest keys "
            f"(statistically tied: {', '.join(others)})"
        )

    def table(self) -> list[str]:
        """Return the measured regret of every policy as lines of text."""
        if not self.policies:
            return []
        tasks = ", ".join(self.tasks)
        nearest = "" if self.requested == self.factor else f", the nearest that was measured to × {self.requested:.3g}"
        lines = [
            f"evidence: share of the recipe's learning curve that is lost at num_envs × {self.factor:g}{nearest} "
            f"({tasks}; {self.seeds} seeds; 95 % intervals)"
        ]
        width = max(map(len, self.policies))
        for name, row in self.policies.items():
            if row["regret"] is None:
                text = "uses another number of timesteps: not comparable"
            else:
                value, low, high = (100 * number for number in row["regret"])
                text = f"{value:5.1f} % [{low:.1f}, {high:.1f}]" + (" tied with the best" if name in self.tied else "")
            lines.append(f"  {name:<{width}}  {text}")
        return [*lines, f"  source: {self.command}"]

    def to_dict(self) -> dict[str, Any]:
        return {
            "requested_factor": self.requested,
            "factor": self.factor,
            "best": self.best,
            "tied": list(self.tied),
            "policies": dict(self.policies),
            "tasks": list(self.tasks),
            "seeds": self.seeds,
            "command": self.command,
        }


def find_evidence(before: int, after: int) -> Evidence:
    """Return the measurements for the factor nearest to after / before, on a logarithmic scale."""
    document = _document()
    common = {"tasks": tuple(document["tasks"]), "seeds": document["seeds"], "command": document["command"]}
    if before == after:
        return Evidence(1.0, None, ENVS_ONLY, (), {}, **common)
    # A smaller number of environments is compared with smaller ones only, a larger one with larger ones.
    same_side = [row for row in document["factors"] if (row["factor"] > 1) == (after > before)]
    row = min(same_side, key=lambda row: abs(log(row["factor"] * before / after)))
    return Evidence(after / before, row["factor"], row["best"], tuple(row["tied"]), row["policies"], **common)


@cache
def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(EVIDENCE_FILE.read_text(encoding="utf-8"))
    return document
