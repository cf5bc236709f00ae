"""benchmarks/racing/extend.py: seeds are added to stored curves of the same settings only, and one seed is compared."""

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import racing.extend

    return racing.extend


def document(returns: list[float]) -> dict[str, Any]:
    """Curves of two shapes, each with the same final returns."""
    shape = {"minibatch_size": 64, "num_epochs": 4, "learning_rate": 3e-4, "num_updates": 10, "sps": 1}
    seeds = {"status": ["done"] * len(returns), "approx_kl": returns, "final_return": returns}
    curves = {"eval_return": [[0.0, value] for value in returns], "episodic_return": [[0.0, 0.0]] * len(returns)}
    return {
        "task": "cartpole", "half": "tune", "env": "CartPole-v1", "settings": {"entropy_coef": 0.01},
        "total_timesteps": 640, "evaluate_every": 320, "episodes": 64, "untrained": [1.0] * len(returns),
        "commit": "c", "versions": {}, "command": "collect",
        "shapes": [{"num_envs": n, "num_steps": 8, **shape, **seeds, **deepcopy(curves)} for n in (2, 8)],
    }  # fmt: skip


def test_the_missing_seeds_and_one_again_are_run(module: ModuleType) -> None:
    assert module.seeds_to_run(document([1.0, 2.0]), 4) == [0, 2, 3]
    assert module.seeds_to_run(document([1.0, 2.0]), 2) == []


def test_new_seeds_follow_the_stored_ones(module: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    stored, new = document([5.0, 6.0]), document([5.0, 7.0, 8.0])
    new["shapes"][1]["eval_return"][0][1] = 5.1  # the second shape does not reproduce
    result = module.extend(stored, new, 0)
    assert [shape["final_return"] for shape in result["shapes"]] == [[5.0, 6.0, 7.0, 8.0]] * 2
    assert result["shapes"][1]["eval_return"] == [[0.0, 5.0], [0.0, 6.0], [0.0, 7.0], [0.0, 8.0]]
    assert len(result["untrained"]) == 4
    [extension] = result["extensions"]
    assert (extension["seeds"], extension["shapes_that_reproduce"], extension["of"]) == ([2, 3], 1, 2)
    assert "1 of 2 shapes" in capsys.readouterr().out


def change_budget(new: dict[str, Any]) -> None:
    new["total_timesteps"] = 1280


def change_minibatch(new: dict[str, Any]) -> None:
    new["shapes"][1]["minibatch_size"] = 32


@pytest.mark.parametrize(("change", "name"), [(change_budget, "total_timesteps"), (change_minibatch, "shape 8x8")])
def test_other_settings_are_refused(module: ModuleType, change: Callable[[dict[str, Any]], None], name: str) -> None:
    new = document([5.0, 6.0])
    change(new)
    with pytest.raises(SystemExit, match=f"cartpole: {name} is .* Not extended"):
        module.extend(document([5.0]), new, 0)


def test_a_task_that_was_changed_is_refused_before_anything_is_run(module: ModuleType, tmp_path: Path) -> None:
    from racing.tasks import TASKS

    task = TASKS[0]
    assert module.read_stored(task, tmp_path) is None
    (tmp_path / f"{task.name}.json").write_text(json.dumps(document([5.0])))
    with pytest.raises(SystemExit, match="total_timesteps is 163840, but the stored curves have 640"):
        module.read_stored(task, tmp_path)
