"""Add seeds to curves that were collected before, after a check that one seed of them still gives the same curves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from racing.tasks import Task

DATA = Path(__file__).parents[1] / "data" / "advise"
OVERLAP = 0  # seed that is run again
SETTINGS = ("task", "half", "env", "settings", "total_timesteps", "evaluate_every", "episodes")
SHAPE_SETTINGS = ("num_envs", "num_steps", "minibatch_size", "num_epochs", "learning_rate", "num_updates")
PER_SEED = ("status", "eval_return", "episodic_return", "approx_kl", "final_return")


def read_stored(task: Task, data: Path = DATA) -> dict[str, Any] | None:
    """Return the document of a task that has data; exit if it has other settings than the task."""
    path = data / f"{task.name}.json"
    if not path.exists():
        return None
    stored: dict[str, Any] = json.loads(path.read_text())
    for name in ("half", "env", "settings", "total_timesteps"):
        _check_equal(stored, name, stored[name], getattr(task, name))
    shapes = [(shape["num_envs"], shape["num_steps"]) for shape in stored["shapes"]]
    _check_equal(stored, "shapes", shapes, list(task.shapes))
    return stored


def seeds_to_run(stored: dict[str, Any], wanted: int) -> list[int]:
    """Return the seed that is run again and the seeds that are missing; nothing if there are enough."""
    known = len(stored["untrained"])
    return [OVERLAP, *range(known, wanted)] if wanted > known else []


def extend(stored: dict[str, Any], new: dict[str, Any], overlap: int) -> dict[str, Any]:
    """Return the stored document with the new seeds; the first seed of `new` is stored seed `overlap` again.

    Different settings are refused. Whether the overlapping seed reproduces, curve by curve, is printed and stored:
    another machine or version of JAX may round differently, and then the new seeds are of a different, equal process.
    """
    _check_settings(stored, new)
    same = [
        old["eval_return"][overlap] == fresh["eval_return"][0]
        for old, fresh in zip(stored["shapes"], new["shapes"], strict=True)
    ]
    known = len(stored["untrained"])
    print(f"{stored['task']}: seed {overlap} reproduces the stored curves of {sum(same)} of {len(same)} shapes")
    extension = {
        "seeds": [known, known + len(new["untrained"]) - 2], "overlapping_seed": overlap,
        "shapes_that_reproduce": sum(same), "of": len(same),
        **{name: new[name] for name in ("commit", "versions", "command")},
    }  # fmt: skip
    shapes = [
        {**old, **{name: old[name] + fresh[name][1:] for name in PER_SEED}}
        for old, fresh in zip(stored["shapes"], new["shapes"], strict=True)
    ]
    return {
        **stored,
        "untrained": stored["untrained"] + new["untrained"][1:],
        "extensions": [*stored.get("extensions", []), extension],
        "shapes": shapes,
    }


def _check_settings(stored: dict[str, Any], new: dict[str, Any]) -> None:
    for name in SETTINGS:
        _check_equal(stored, name, stored[name], new[name])
    sizes = [[[shape[name] for name in SHAPE_SETTINGS] for shape in item["shapes"]] for item in (stored, new)]
    _check_equal(stored, "number of shapes", len(sizes[0]), len(sizes[1]))
    for old, fresh in zip(*sizes, strict=True):
        _check_equal(stored, f"shape {old[0]}x{old[1]}", old, fresh)


def _check_equal(stored: dict[str, Any], name: str, old: Any, new: Any) -> None:
    if old != new:
        raise SystemExit(f"{stored['task']}: {name} is {new}, but the stored curves have {old}. Not extended.")
