"""RRD and SAC as runs: what the plan counts is what is done, and a killed run ends as it would have."""

from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest

from rollshape.algorithms.rrd import RRD, RRDInfo
from rollshape.algorithms.sac import SACState
from rollshape.envs.functional import StepResult
from rollshape.envs.registry import CLASSIC, Pendulum
from rollshape.errors import RequestError, RunError
from rollshape.training.reproduce import first_difference, reproduce
from rollshape.training.run import TrainedRun, train
from rollshape.training.rundir import RunDirectory
from rollshape.training.setup import new_driver, open_run, plan_run
from rollshape.training.spec import Spec

SMALL: dict[str, Any] = {
    "env": "Pendulum-v1", "algo": "rrd", "num_envs": 2, "steps_per_iteration": 40, "train_batches": 3,
    "transition_batch_size": 8, "rrd_batch_size": 16, "rrd_sample_size": 8, "learning_starts": 400,
    "total_timesteps": 800, "hidden_sizes": (8,), "log_every": 2, "checkpoint_every": 4,
}  # fmt: skip
USUAL = (
    "policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction", "ratio_ess", "explained_variance",
    "grad_norm", "learning_rate", "reset_phase_entropy", "eval_return", "success_rate", "sps", "approx_kl_epochs",
)  # fmt: skip


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


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> TrainedRun:
    return train(out=tmp_path_factory.mktemp("runs") / "unbroken", **SMALL)


def test_a_run_makes_the_gradient_steps_that_were_planned(unbroken: TrainedRun) -> None:
    plan = unbroken.plan
    assert plan.gradient_steps == (20 - 10) * 3
    assert sum(row["gradient_steps"] for row in unbroken.metrics) == plan.gradient_steps
    _, state = open_run(unbroken.path)
    made = state.learner.optimizers
    counts = [made.actor.steps, made.critics.steps, made.temperature.steps, made.reward.steps]
    assert counts == [plan.gradient_steps] * 4
    assert int(state.learner.buffer.written.sum()) == 800 + 4  # every step, and where four episodes ended


def test_a_row_has_the_usual_keys_and_its_own(unbroken: TrainedRun) -> None:
    warm, learned = unbroken.metrics[0], unbroken.metrics[-1]
    assert set(USUAL) <= set(warm)
    for name in ("policy_loss", "q_loss", "temperature", "reward_loss", "reward_correlation", "grad_norm", "entropy"):
        assert warm[name] is None
        assert np.isfinite(learned[name])
    assert learned["approx_kl"] is None
    assert -1 <= learned["reward_correlation"] <= 1
    assert unbroken.summary["final_episodes"] == 128
    assert [row["episodic_length"] for row in unbroken.metrics if row["episodic_length"]] == [200, 200]


def test_killed_it_resumes_to_the_identical_end(unbroken: TrainedRun, tmp_path: Path) -> None:
    killed(tmp_path / "broken", 15)
    assert train(out=tmp_path / "broken", resume=True, **SMALL).status == "done"
    same(unbroken.path, tmp_path / "broken")


def test_two_runs_are_identical(unbroken: TrainedRun) -> None:
    found = reproduce(unbroken.path)
    assert found.same, found.difference


def test_subsequences_and_batches_have_the_planned_sizes(unbroken: TrainedRun) -> None:
    driver, state = open_run(unbroken.path)
    assert isinstance(driver.algorithm, RRD)
    batches = driver.algorithm.sample_batches(state.learner.buffer, jax.random.key(0))
    assert batches.transitions.env.shape == (3, 8)
    assert batches.subsequences.position.shape == (3, 2, 8)
    assert (np.asarray(batches.subsequences.length) == 200).all()


@pytest.mark.parametrize(
    "changes",
    [
        {"algo": "sac", "episodic_reward": True, "stagger": "counter"},
        {"env": "CartPole-v1", "learning_starts": 80, "rrd_unbiased": True},
        {"env": "CartPole-v1", "algo": "sac", "learning_starts": 0},
    ],
    ids=str,
)
def test_every_mode_trains(changes: dict[str, Any], tmp_path: Path) -> None:
    spec = {**SMALL, **changes}
    if spec["algo"] == "sac":
        spec |= {"rrd_batch_size": None, "rrd_sample_size": None}
    run = train(out=tmp_path / "x", **spec)
    assert run.status == "done"
    assert sum(row["gradient_steps"] for row in run.metrics) == run.plan.gradient_steps
    assert np.isfinite(run.metrics[-1]["q_loss"])
    assert (run.metrics[-1]["reward_loss"] is None) == (spec["algo"] == "sac")


HOST = {**SMALL, "env": "gymnasium:Pendulum-v1"}


def test_host_environments_resume_to_the_identical_end(tmp_path: Path) -> None:
    whole = train(out=tmp_path / "whole", **HOST)
    assert sum(row["gradient_steps"] for row in whole.metrics) == whole.plan.gradient_steps
    killed(tmp_path / "broken", 15, env="gymnasium:Pendulum-v1")
    train(out=tmp_path / "broken", resume=True, **HOST)
    same(tmp_path / "whole", tmp_path / "broken")


def test_envpool_starts_episodes_afresh_and_the_broken_ones_teach_nothing(tmp_path: Path) -> None:
    spec = {"env": "envpool:Pendulum-v1", "learning_starts": 40 * 11}
    killed(tmp_path / "x", 13, **spec)
    run = train(out=tmp_path / "x", resume=True, **{**SMALL, **spec})
    assert RunDirectory(run.path).read()["fresh_episodes_at"] == [12]
    _, state = open_run(run.path)
    lengths = -np.asarray(state.learner.buffer.link)[np.asarray(state.learner.buffer.link) < 0]
    assert (lengths == 200).all()


class Pictures(gymnasium.Env[Any, Any]):
    """A bright half of a picture; pays for choosing it. Ten steps an episode."""

    observation_space = gymnasium.spaces.Box(0, 255, (6, 6, 1), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:  # noqa: ARG002
        super().reset(seed=seed)
        self.steps = 0
        return self.shown(), {}

    def shown(self) -> Any:
        self.side = int(self.np_random.integers(2))
        picture = np.zeros((6, 6, 1), np.uint8)
        picture[:, 3 * self.side : 3 * self.side + 3] = 255
        return picture

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        paid, self.steps = float(action == self.side), self.steps + 1
        return self.shown(), paid, False, self.steps == 10, {}


gymnasium.register("RollshapePictures-v0", Pictures)


@pytest.mark.slow
def test_pictures_stay_bytes_and_are_learned_from(tmp_path: Path) -> None:
    run = train(
        out=tmp_path / "x", env="gymnasium:RollshapePictures-v0", algo="rrd", num_envs=4, steps_per_iteration=40,
        train_batches=20, learning_starts=400, total_timesteps=2_400, hidden_sizes=(32,), learning_rate=1e-3,
        rrd_batch_size=80, rrd_sample_size=10, gamma=0.0,
    )  # fmt: skip
    assert run.plan.replay is not None
    assert run.plan.replay.transition_batch_size == 32  # those for images
    _, state = open_run(run.path)
    assert state.learner.buffer.observation.dtype == np.uint8
    assert run.metrics[-1]["reward_correlation"] > 0.5
    assert run.final_return is not None
    assert run.final_return > 6  # 5 by chance


class Unsound(Pendulum):
    def step(self, key: Any, state: Any, action: Any) -> StepResult:
        outcome = super().step(key, state, action)
        return outcome._replace(reward=outcome.reward / (outcome.state[1] < 4.0))


def test_a_reward_that_is_not_finite_is_one_message_and_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CLASSIC, "Pendulum-v1", Unsound)
    from rollshape.envs import registry

    monkeypatch.setitem(registry.FUNCTIONAL, "Pendulum-v1", Unsound)
    with pytest.raises(RunError, match="not finite"):
        train(out=tmp_path / "x", **{**SMALL, "checkpoint_every": 2})
    assert RunDirectory(tmp_path / "x").read()["status"] == "failed"


def test_an_episode_longer_than_the_replay_is_refused_or_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="an episode of 200 steps") as caught:
        train(out=tmp_path / "x", **{**SMALL, "buffer_size": 400})
    assert caught.value.rule == "replay-length"
    assert caught.value.alternatives[0]["buffer_size"] == 402
    assert not (tmp_path / "x").exists()
    algorithm, state = fresh()
    algorithm.check(state, blank_info(), is_last=False)
    overlong = state._replace(buffer=state.buffer._replace(written=state.buffer.written + 801))
    with pytest.raises(RunError, match="longer than the 800 slots"):
        algorithm.check(overlong, blank_info(), is_last=False)


def fresh(**changes: Any) -> tuple[RRD, SACState]:
    spec = Spec(**{**SMALL, **changes})
    driver = new_driver(spec, plan_run(spec))
    assert isinstance(driver.algorithm, RRD)
    return driver.algorithm, driver.start().learner


def blank_info() -> RRDInfo:
    return RRDInfo(*[np.zeros(1)] * len(RRDInfo._fields))


def test_no_gradient_step_within_the_budget(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="before the first gradient step"):
        train(out=tmp_path / "x", **{**SMALL, "learning_starts": 800})
    algorithm, state = fresh(total_timesteps=240, learning_starts=0, buffer_size=1000)
    assert "rrd-warm-up" in [finding.rule for finding in algorithm.plan.findings]
    algorithm.check(state, blank_info(), is_last=False)
    with pytest.raises(RunError, match="no gradient step"):
        algorithm.check(state, blank_info(), is_last=True)


def test_flags_that_do_not_fit_are_named() -> None:
    for changes, name in (
        ({"normalize_observations": True}, "normalize_observations"),
        ({"rrd_unbiased": True, "rrd_sample_size": 1}, "rrd_unbiased"),
        ({"algo": "sac", "rrd_unbiased": True}, "rrd_unbiased"),
        ({"polyak": 1.0}, "polyak"),
        ({"num_shards": 2}, "one shard"),
        ({"num_steps": 20}, "num_steps"),
        ({"algo": "sac"}, "rrd_batch_size"),
        ({"algo": "ppo", "rrd_batch_size": None}, "transition_batch_size"),
    ):
        with pytest.raises(RequestError, match=name):
            train(**{**SMALL, **changes})
    finding = [
        found.rule for found in plan_run(Spec(**{**SMALL, "rrd_batch_size": 512, "rrd_sample_size": 256})).findings
    ]
    assert "rrd-sample-length" in finding
