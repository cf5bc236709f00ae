"""The monitor says what the statistics of the whole rollout say, and training does not notice it."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rollshape.algorithms.base import Rollout
from rollshape.algorithms.parallel import BY_ENV, REPLICATED, TIME_MAJOR
from rollshape.gradients import gram
from rollshape.gradients.traces import policy_traces
from rollshape.gradients.variance import Components, components, lag_products
from rollshape.training import monitor
from rollshape.training.compiled_driver import CompiledDriver
from rollshape.training.driver import RunState
from rollshape.training.loggers import scalars
from rollshape.training.monitor import GradientSignals, Sampling, measure_signals, plan_sampling
from rollshape.training.rollout import collect_with_policy
from rollshape.training.run import train
from rollshape.training.setup import new_driver, open_run, plan_run
from rollshape.training.spec import Spec

SPEC = Spec(env="CartPole-v1", num_envs=48, num_steps=16, hidden_sizes=(8,), total_timesteps=48 * 16)


def plan_of(**sizes: Any) -> Any:
    return Spec(**{"env": "CartPole-v1", "num_epochs": 4, "total_timesteps": 2**20, **sizes}).plan()


@pytest.mark.parametrize(
    ("sizes", "shards", "interval", "expected"),
    [
        ((64, 32), 1, 1, Sampling(8, 2, 8)),  # a sixteenth of 2048 samples, 4 epochs
        ((64, 32), 2, 1, Sampling(4, 2, 8)),
        ((64, 32), 1, 100, Sampling(8, 8, 32)),  # all of them
        ((2048, 16), 1, 9, Sampling(8, 64, 8)),  # 4096 at most
        ((9, 2048), 1, 1, Sampling(8, 1, 64)),
        ((8, 2), 1, 1, Sampling(8, 1, 2)),
        ((7, 2048), 1, 1, None),
    ],
)
def test_what_is_looked_at(sizes: tuple[int, int], shards: int, interval: int, expected: Sampling | None) -> None:
    assert plan_sampling(plan_of(num_envs=sizes[0], num_steps=sizes[1]), shards, interval) == expected


class Scene:
    """A rollout of a policy, and what it is worth by all its steps."""

    def __init__(self) -> None:
        driver = new_driver(SPEC, plan_run(SPEC))
        assert isinstance(driver, CompiledDriver)
        self.driver, self.state = driver, driver.start()
        keys = (jax.random.key(1), jax.random.key(2))
        policy = driver.policy(self.state)
        _, rollout = collect_with_policy(driver.env, policy, self.state.episodes, keys, SPEC.num_steps or 0)
        self.rollout = rollout._replace(reward=rollout.action.astype(jnp.float32))  # a gradient that can be seen

    def whole(self) -> Components:
        """By lags and the mean gradient."""
        estimate = self.driver.algorithm.advantages(self.rollout)[0]
        traces = policy_traces(
            self.state.learner.network,
            self.driver.algorithm.distribution,
            self.rollout.observation.swapaxes(0, 1),
            self.rollout.action.T,
        )
        steps = gram.scale_traces(traces, (estimate - estimate.mean()).T)
        mean = gram.squared_norm(gram.mean_gradient(steps))
        return components(lag_products(gram.gram_blocks(steps)), mean)

    def measure(self, looked: Sampling, shards: int = 1) -> Callable[[Rollout, int], GradientSignals]:
        spec = Spec(**{**SPEC.to_dict(), "num_shards": shards})
        driver = new_driver(spec, plan_run(spec))
        specs = jax.tree.map(lambda _: TIME_MAJOR, self.rollout._replace(valid=self.rollout.terminated))
        mapped = driver.parallel.shard_map(
            partial(measure_signals, driver.algorithm, looked),
            (REPLICATED, specs._replace(last_value=BY_ENV), REPLICATED),
            REPLICATED,
        )
        program = jax.jit(mapped)

        def measure(rollout: Rollout, seed: int) -> GradientSignals:
            if rollout.valid is None:
                rollout = rollout._replace(valid=jnp.ones_like(rollout.terminated))
            signals: GradientSignals = program(
                jax.device_get(self.state.learner), jax.device_get(rollout), jax.random.key(seed)
            )
            return signals

        return measure


@pytest.fixture(scope="module")
def scene() -> Scene:
    return Scene()


def test_environments_that_do_not_fit_come_one_at_a_time(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = scene.measure(Sampling(8, 6, 16))(scene.rollout, 0)
    monkeypatch.setattr(monitor, "CHUNK", 1)
    for a, b in zip(scene.measure(Sampling(8, 6, 16))(scene.rollout, 0), whole, strict=True):
        assert float(a) == pytest.approx(float(b), rel=1e-4)


@pytest.mark.parametrize("shards", [1, 2])
def test_all_steps_give_the_statistics_of_the_rollout(scene: Scene, shards: int) -> None:
    found, whole = scene.measure(Sampling(8 // shards, 6, 16), shards)(scene.rollout, 0), scene.whole()
    assert float(found.effective_sample_size) == pytest.approx(float(whole.effective_sample_size), rel=1e-3)
    assert float(found.gradient_snr) == pytest.approx(float(whole.squared_norm / whole.total), rel=1e-3)
    assert float(found.noise_scale) == pytest.approx(48 * 16 * float(whole.total / whole.squared_norm), rel=1e-3)


def test_drawn_steps_give_it_on_average(scene: Scene) -> None:
    tell, whole = scene.measure(Sampling(8, 6, 11)), scene.whole()
    found = [float(48 * 16 / tell(scene.rollout, seed).effective_sample_size) for seed in range(150)]
    error = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found) - float(whole.correlation_time)) < 3 * error + 0.02
    assert error < 0.1 * float(whole.correlation_time)


def test_steps_that_are_not_valid_count_nothing(scene: Scene) -> None:
    rng = np.random.default_rng(0)
    valid = jnp.asarray(rng.random(scene.rollout.reward.shape) < 0.8)
    tell = scene.measure(Sampling(8, 6, 16))
    clean = scene.rollout._replace(valid=valid)
    dirty = clean._replace(observation=jnp.where(valid[..., None], clean.observation, 7.0))
    for a, b in zip(tell(clean, 0), tell(dirty, 0), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    assert float(tell(clean, 0).effective_sample_size) != float(tell(scene.rollout, 0).effective_sample_size)


def test_no_signal_is_no_number() -> None:
    """Sums of groups without a mean, and with one."""
    rng, plan = np.random.default_rng(0), plan_of(num_envs=64, num_steps=4)
    seen = {0.0: 0, 3.0: 0}
    for mean in seen:
        for _ in range(200):
            g = rng.normal(size=(8, 8, 4, 5)) + mean / np.sqrt(5)
            sums = g.sum((1, 2))
            norms, squares = (g.sum(2) ** 2).sum((1, 2)), (g**2).sum((1, 2, 3))
            count = np.full(8, 32.0)
            columns = (sums @ sums.T, norms, squares, count, 4 * count)
            found = monitor._signals(plan, *(jnp.asarray(x) for x in columns))
            seen[mean] += bool(np.isfinite(found.noise_scale))
            assert np.isfinite(found.effective_sample_size)
            assert np.isfinite(found.noise_scale) == np.isfinite(found.gradient_snr)
            if mean:
                assert float(found.noise_scale) == pytest.approx(5 / mean**2, rel=0.5)
    assert seen[0.0] < 20
    assert seen[3.0] == 200


SMALL: dict[str, Any] = {
    "env": "CartPole-v1", "num_envs": 16, "num_steps": 16, "num_epochs": 2, "total_timesteps": 16 * 16 * 7,
    "hidden_sizes": (8,), "log_every": 3,
}  # fmt: skip


@pytest.mark.parametrize("changes", [{"num_shards": 1}, {"num_shards": 2}, {"env": "gymnasium:CartPole-v1"}], ids=str)
def test_training_does_not_notice_it(changes: dict[str, Any], tmp_path: Path) -> None:
    states: list[RunState] = []
    for watched in (False, True):
        run = train(out=tmp_path / str(watched), monitor_gradients=watched, **{**SMALL, **changes})
        states.append(open_run(run.path)[1])
        told = [row["effective_sample_size"] is not None for row in run.metrics]
        assert len(told) == 3
        assert sum(told) >= 2 if watched else not any(told)
    for plain, seen in zip(*map(jax.tree.leaves, states), strict=True):
        np.testing.assert_array_equal(plain, seen)
    names = set(scalars(next(row for row in run.metrics if row["effective_sample_size"] is not None)))
    assert "rollshape/effective_sample_size" in names


def test_two_shards_of_host_environments_train(tmp_path: Path) -> None:
    changes = {**SMALL, "env": "gymnasium:CartPole-v1", "num_shards": 2, "monitor_gradients": True}
    run = train(out=tmp_path / "run", **changes)
    assert run.status == "done"
    assert any(row["effective_sample_size"] is not None for row in run.metrics)


def test_seven_environments_are_too_few(tmp_path: Path) -> None:
    run = train(out=tmp_path / "run", **{**SMALL, "num_envs": 7, "minibatch_size": 112, "monitor_gradients": True})
    assert all(row[name] is None for row in run.metrics for name in GradientSignals._fields)
