"""Training in host environments: the same numbers twice, resumed or not; masked resets teach nothing."""

import json
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest

from rollshape.errors import RequestError, RunError
from rollshape.training.host_driver import HostDriver
from rollshape.training.reproduce import first_difference, reproduce
from rollshape.training.run import train
from rollshape.training.rundir import RunDirectory
from rollshape.training.setup import new_driver, open_run, plan_run
from rollshape.training.spec import Spec

SMALL: dict[str, Any] = {
    "env": "gymnasium:CartPole-v1", "num_envs": 4, "num_steps": 16, "num_epochs": 2, "total_timesteps": 4 * 16 * 12,
    "hidden_sizes": (8,), "log_every": 2, "checkpoint_every": 2,
}  # fmt: skip


def same(first: Path, second: Path) -> None:
    rows = [list(RunDirectory(path).rows()) for path in (first, second)]
    assert first_difference(*rows) == ""
    leaves = [jax.tree.leaves(open_run(path)[1]) for path in (first, second)]
    for old, new in zip(*leaves, strict=True):
        np.testing.assert_array_equal(old, new)


class Stop(Exception):
    pass


def killed(path: Path, update: int, **changes: Any) -> None:
    """A run that ends without a word after an update."""

    def on_row(row: dict[str, Any], _: Any) -> None:
        if row["update"] >= update:
            raise Stop

    with pytest.raises(Stop):
        train(out=path, on_row=on_row, **{**SMALL, **changes})


@pytest.mark.parametrize("env", ["gymnasium:CartPole-v1", "envpool:CartPole-v1"])
def test_two_runs_are_identical(env: str, tmp_path: Path) -> None:
    run = train(out=tmp_path / "run", **{**SMALL, "env": env})
    assert run.status == "done"
    assert run.summary["final_episodes"] == 128
    assert all(row["rollout_s"] > 0 and row["update_s"] > 0 for row in run.metrics)
    found = reproduce(run.path)
    assert found.same, found.difference


def test_gymnasium_resumes_to_the_identical_end(tmp_path: Path) -> None:
    train(out=tmp_path / "whole", **SMALL)
    killed(tmp_path / "broken", 7)
    train(out=tmp_path / "broken", resume=True, **SMALL)
    same(tmp_path / "whole", tmp_path / "broken")
    assert json.loads((tmp_path / "broken" / "run.json").read_text())["fresh_episodes_at"] == []


def test_envpool_says_that_episodes_began_afresh(tmp_path: Path) -> None:
    killed(tmp_path / "broken", 7, env="envpool:CartPole-v1")
    run = train(out=tmp_path / "broken", resume=True, **{**SMALL, "env": "envpool:CartPole-v1"})
    assert run.status == "done"
    assert json.loads((run.path / "run.json").read_text())["fresh_episodes_at"] == [6]


def test_a_masked_row_teaches_nothing() -> None:
    """Whatever stands in a row that was only a reset, the parameters after the update are the same."""
    spec = Spec(**{**SMALL, "env": "envpool:CartPole-v1", "normalize_observations": True, "normalize_rewards": True})
    found = []
    for rubbish in (0.0, 1e6):
        driver = new_driver(spec, plan_run(spec))
        assert isinstance(driver, HostDriver)
        driver.restore(None)
        for _ in range(3):  # until poles have fallen
            rollout, _ = driver.collect(driver.start())
        assert not rollout.valid.all()
        rollout.raw_observation[~rollout.valid] = rubbish
        rollout.action[~rollout.valid] = 0
        state, metrics = driver._learn(driver.start(), *driver._place(rollout, driver.env.current))
        found.append(jax.device_get((state.learner.network, state.normalizer.observations, metrics.info.policy_loss)))
        driver.close()
    for clean, dirty in zip(*map(jax.tree.leaves, found), strict=True):
        np.testing.assert_allclose(clean, dirty, rtol=1e-4, atol=1e-6)


def test_an_episode_is_drawn_where_the_environment_can(tmp_path: Path) -> None:
    from PIL import Image

    from rollshape.training.render import render_episode

    run = train(out=tmp_path / "run", **{**SMALL, "total_timesteps": 128})
    rendered = render_episode(*open_run(run.path), 0, tmp_path / "film.gif")
    assert rendered.episodic_return == rendered.episodic_length > 5
    with Image.open(tmp_path / "film.gif") as image:
        assert getattr(image, "n_frames", 1) > 3
    pool = train(out=tmp_path / "pool", **{**SMALL, "env": "envpool:CartPole-v1", "total_timesteps": 128})
    with pytest.raises(RequestError):
        render_episode(*open_run(pool.path), 0, tmp_path / "pool.gif")
    assert not (tmp_path / "pool.gif").exists()


class Faulty(gymnasium.Env):  # type: ignore[type-arg]
    """Breaks in its 40th step, in the way that was asked for."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, fault: str = "none") -> None:
        self.fault, self.steps = fault, 0

    def reset(self, *, seed: int | None = None, **_: Any) -> Any:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, _: Any) -> Any:
        self.steps += 1
        broken = self.steps >= 40
        if broken and self.fault == "raise":
            raise ZeroDivisionError("by design")
        observation = np.full(2, np.nan if broken and self.fault == "nan" else 0.1, np.float32)
        return observation, 1.0, False, self.steps % 10 == 0, {}


if "RollshapeFortieth-v0" not in gymnasium.registry:
    gymnasium.register("RollshapeFortieth-v0", entry_point=Faulty)


@pytest.mark.parametrize(("fault", "told"), [("raise", "ZeroDivisionError: by design"), ("nan", "not finite")])
def test_a_failing_environment_is_one_message_and_a_failed_run(fault: str, told: str, tmp_path: Path) -> None:
    asked = {**SMALL, "env": "RollshapeFortieth-v0", "env_kwargs": {"fault": fault}, "log_every": 1}
    with pytest.raises(RunError, match=told) as caught:
        train(out=tmp_path / "run", **asked)
    assert "RollshapeFortieth-v0 failed at step 40" in caught.value.message
    document = json.loads((tmp_path / "run" / "run.json").read_text())
    assert document["status"] == "failed"
    assert told in document["error"]["message"]
    assert len(list(RunDirectory(tmp_path / "run").rows())) == 2  # what was logged is kept


def test_counters_of_a_host_environment_cannot_be_set(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="burn-in"):
        train(out=tmp_path / "run", **{**SMALL, "stagger": "counter"})
    spread = train(out=tmp_path / "spread", **{**SMALL, "stagger": "burn-in", "total_timesteps": 128})
    assert spread.status == "done"
