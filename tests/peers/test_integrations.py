"""Runs of five libraries, recorded while they train: the training is not changed, and the numbers are right."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

pytest.importorskip("stable_baselines3")

import torch

from rollshape.integrations import recorder
from rollshape.integrations.lab import Lab, undisturbed
from rollshape.integrations.lab_part import Part, Subject
from rollshape.integrations.lab_sums import as_tensor, trace_steps, weigh
from rollshape.integrations.measurement import Measurement, read_measurement, stored
from rollshape.integrations.rollout import RecordedRollout
from rollshape.integrations.torch_scores import ScoreTracer
from rollshape.studies.records import read_records

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]
EXAMPLES = Path(__file__).parents[2] / "examples"
ENVS, UPDATES = 8, 2
Parameters = list[torch.Tensor]


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def train_sb3(path: str | None, **options: Any) -> Parameters:
    model = example("sb3_callback").train(ENVS * 16 * UPDATES, path, ENVS, 16, **options)
    return list(model.policy.parameters())


def train_cleanrl(path: str | None, **options: Any) -> Parameters:
    script = example("cleanrl_ppo")
    args = script.Args(total_timesteps=ENVS * 16 * UPDATES, num_envs=ENVS, num_steps=16)
    agent = script.train(args, path, **options)
    end_cleanrl()
    return list(agent.parameters())


def end_cleanrl() -> None:
    """A script ends with its process; here it ends earlier."""
    from rollshape.integrations import cleanrl

    for run in cleanrl._RUNS.values():
        run._end()
    cleanrl._RUNS.clear()


def train_rsl_rl(path: str | None, **options: Any) -> Parameters:
    runner = example("rsl_rl_runner").train(UPDATES, path, ENVS, **options)
    return [*runner.alg.actor.parameters(), *runner.alg.critic.parameters()]


def train_skrl(path: str | None, **options: Any) -> Parameters:
    runner = example("skrl_agent").train(16 * UPDATES, path, ENVS, 16, **options)
    return [*runner.agent.policy.parameters(), *runner.agent.value.parameters()]


def train_rl_games(path: str | None, **options: Any) -> Parameters:
    agent = example("rl_games_observer").train(UPDATES, path, ENVS, **options)
    agent.writer.close()
    return [*agent.model.parameters(), *agent.model.buffers()]


LIBRARIES: dict[str, Callable[..., Parameters]] = {
    "Stable-Baselines3": train_sb3,
    "CleanRL": train_cleanrl,
    "RSL-RL": train_rsl_rl,
    "skrl": train_skrl,
    "rl_games": train_rl_games,
}
every_library = pytest.mark.parametrize("library", LIBRARIES)


def per_sample_gradients(rollout: RecordedRollout, subject: Subject) -> np.ndarray:
    """A·∇log π of every step by torch.func, [N, T, P]."""

    class Evaluation(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = subject.module

        def forward(self, index: torch.Tensor) -> torch.Tensor:
            return subject.evaluate(index)[0][0]

    model = Evaluation()
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    gradient = torch.func.grad(lambda parameters, index: torch.func.functional_call(model, parameters, (index,)))
    steps, envs = rollout.rewards.shape
    rows = []
    for env in range(envs):
        for step in range(steps):
            values = gradient(parameters, torch.tensor([step * envs + env])).values()
            rows.append(torch.cat([g.flatten() for g in values]).double().numpy() * rollout.advantages[step, env])
    return np.array(rows).reshape(envs, steps, -1)


def gram_blocks(rollout: RecordedRollout, subject: Subject) -> np.ndarray:
    """Return ⟨g_t, g_s⟩ of all pairs of steps of the same environment, [N, T, T], g = A·∇log π."""
    with undisturbed(subject.module):
        tracer = ScoreTracer(subject.module, subject.evaluate)
        part = Part(rollout.num_envs, rollout.num_steps, [rollout.num_steps], [])
        device = next(subject.module.parameters()).device
        traces = trace_steps(tracer, rollout, subject, part, list(range(part.envs)), device)
        weights = as_tensor(rollout.advantages.T.copy(), device)
        blocks: Any = sum(trace.gram_blocks(part.envs) for trace in traces)
        return np.asarray(weigh(blocks, weights).cpu().numpy(), np.float64)


@every_library
def test_the_gram_matrix_is_that_of_torch_func(library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[tuple[RecordedRollout, np.ndarray, np.ndarray, Measurement]] = []
    measure = Lab.measure

    def compare(self: Lab, rollout: RecordedRollout, subject: Subject, **options: Any) -> Measurement:
        with undisturbed(subject.module):
            gradients = per_sample_gradients(rollout, subject)
        result = measure(self, rollout, subject, **options)
        measured.append((rollout, gradients, gram_blocks(rollout, subject), result))
        return result

    monkeypatch.setattr(Lab, "measure", compare)
    LIBRARIES[library](str(tmp_path / "run"), every=UPDATES)
    [(rollout, g, blocks, result)] = measured
    expected = np.einsum("ntp,nsp->nts", g, g)
    difference = np.linalg.norm(blocks - expected) / np.linalg.norm(expected)
    print(f"{library}: relative difference of Gram matrices {difference:.2g}")
    assert difference < 1e-5
    assert result.measured.method == "layers"
    check_estimates(g, rollout, result)


def check_estimates(g: np.ndarray, rollout: RecordedRollout, result: Measurement) -> None:
    """Compare with the formulas on the gradients themselves, whose advantages training centers."""
    advantages = rollout.advantages.T[..., None]
    g = g / advantages * (advantages - advantages.mean())
    envs, steps, _ = g.shape
    size = envs * steps
    number = np.concatenate([np.zeros((1, envs), int), np.cumsum(rollout.ended, 0)[:-1]]).T  # of the episode, [N, T]
    clusters = [np.flatnonzero(row == k) for row in number for k in np.unique(row)]
    owners = [env for env, row in enumerate(number) for _ in np.unique(row)]
    sums = np.array([g[env, steps_of].sum(0) for env, steps_of in zip(owners, clusters, strict=True)])
    lengths, count = np.array([len(c) for c in clusters]), len(clusters)
    norm = ((sums.sum(0) ** 2).sum() - (sums**2).sum()) / (size**2 - (lengths**2).sum())
    residuals = sums - lengths[:, None] * g.mean((0, 1))
    total = (residuals**2).sum() / size**2 * count / (count - 1)
    individual = ((g**2).sum(-1).mean() - norm) / size
    assert result.measured.num_clusters == count
    assert result.variance["total"].value == pytest.approx(total, rel=1e-3)
    assert result.variance["individual"].value == pytest.approx(individual, rel=1e-3)
    assert result.effective_sample_size.value == pytest.approx(size * individual / total, rel=1e-3)
    products = [np.einsum("ntp,ntp->", g[:, : steps - lag], g[:, lag:]) / (envs * (steps - lag)) for lag in (0, 1, 3)]
    step = products[0] - norm
    assert result.autocorrelation[1] == pytest.approx((products[1] - norm) / step, abs=1e-3)
    assert result.autocorrelation[3] == pytest.approx((products[2] - norm) / step, abs=1e-3)


@every_library
def test_training_is_not_changed(library: str, tmp_path: Path) -> None:
    with torch.random.fork_rng():
        expected = [p.detach().clone() for p in LIBRARIES[library](None)]
        state, numpy_state = torch.get_rng_state(), np.random.get_state()[1]
        recorded = LIBRARIES[library](str(tmp_path / "run"), every=1)
        assert torch.equal(torch.get_rng_state(), state)
        assert np.array_equal(np.random.get_state()[1], numpy_state)
    assert all(torch.equal(a, b) for a, b in zip(expected, recorded, strict=True))
    assert stored(tmp_path / "run") == [1, 2]


@every_library
def test_a_row_per_rollout_in_our_vocabulary(library: str, tmp_path: Path) -> None:
    LIBRARIES[library](str(tmp_path / "run"), every=1)
    [record] = read_records(tmp_path / "run")
    assert (record.trainer.name, record.status, len(record.rows)) == (library, "done", UPDATES)
    assert record.plan.num_envs == ENVS
    assert record.plan.num_updates == UPDATES
    first, last = record.rows
    assert last.timesteps == UPDATES * record.plan.rollout_size
    for name in ("value_loss", "entropy", "approx_kl", "clip_fraction", "explained_variance", "learning_rate",
                 "reward_rms", "return_std", "observation_scale", "reset_phase_entropy", "effective_sample_size",
                 "policy_loss", "sps"):  # fmt: skip
        assert last.metric(name) is not None, name
    is_clipped_separately = library == "RSL-RL"  # the gradients of actor and critic, which share no layers here
    assert (last.metric("value_gradient_share") is None) == is_clipped_separately
    assert len(last.epoch_metric("approx_kl_epochs")) == record.plan.num_epochs
    assert first.metric("gradient_steps") == record.plan.gradient_steps_per_update
    assert max(value or 0.0 for value in first.epoch_metric("approx_kl_epochs")) > 0
    measurement = read_measurement(tmp_path / "run", 2)
    assert measurement.columns()["effective_sample_size"] == last.metric("effective_sample_size")
    assert measurement.to_dict() == type(measurement).from_dict(measurement.to_dict()).to_dict()


@every_library
@pytest.mark.parametrize("place", ["rollout_metrics", "Lab.measure"])
def test_an_error_of_ours_is_one_warning(
    library: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("injected")

    owner, name = (Lab, "measure") if place == "Lab.measure" else (recorder, place)
    monkeypatch.setattr(owner, name, fail)
    expected = [p.detach().clone() for p in LIBRARIES[library](None)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        recorded = LIBRARIES[library](str(tmp_path / "run"), every=1)
    assert all(torch.equal(a, b) for a, b in zip(expected, recorded, strict=True))
    assert sum("injected" in str(warning.message) for warning in caught) == 1
    rows = (tmp_path / "run" / "metrics.jsonl").exists()
    assert rows == (place == "Lab.measure")


def test_a_killed_process_leaves_a_readable_run(tmp_path: Path) -> None:
    path = tmp_path / "run"
    command = [sys.executable, str(EXAMPLES / "sb3_callback.py"), "10000000", str(path)]
    process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    try:
        while time.monotonic() < deadline and process.poll() is None:
            if (path / "metrics.jsonl").exists() and (path / "metrics.jsonl").read_bytes().count(b"\n") >= 2:
                break
            time.sleep(0.05)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    [record] = read_records(path)
    assert record.status == "running"
    assert len(record.rows) >= 2
    assert json.loads((path / "run.json").read_text())["trainer"]["name"] == "Stable-Baselines3"


def test_recording_does_not_import_jax(tmp_path: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(EXAMPLES)!r}); import sb3_callback;"
        f"sb3_callback.train(256, {str(tmp_path / 'run')!r}, 8, 16, every=1); print('jax' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    assert result.stdout.endswith("False\n"), result.stderr


def test_a_second_call_of_learn_is_another_run(tmp_path: Path) -> None:
    from stable_baselines3 import A2C

    from rollshape.integrations.sb3 import RollshapeCallback

    callback = RollshapeCallback(tmp_path / "run", every=0)
    model = A2C("MlpPolicy", "CartPole-v1", seed=0, device="cpu")
    for _ in range(2):
        model.learn(10, callback=callback)
    records = read_records(tmp_path)
    assert [record.path.name for record in records] == ["run", "run-2"]
    assert [record.status for record in records] == ["done", "done"]
    assert [(record.plan.algo, len(record.rows)) for record in records] == [("a2c", 2), ("a2c", 2)]
    assert records[0].rows[0].metric("approx_kl") is None  # A2C has no ratio


def test_a_recurrent_policy_is_measured_by_autodiff(tmp_path: Path) -> None:
    from sb3_contrib import RecurrentPPO
    from stable_baselines3.common.env_util import make_vec_env

    from rollshape.integrations.sb3 import RollshapeCallback

    def train(callback: Any) -> Parameters:
        envs = make_vec_env("CartPole-v1", n_envs=ENVS, seed=0)
        model = RecurrentPPO("MlpLstmPolicy", envs, n_steps=4, batch_size=16, n_epochs=1, seed=0, device="cpu",
                             policy_kwargs={"lstm_hidden_size": 4, "net_arch": [4]})  # fmt: skip
        return list(model.learn(ENVS * 4, callback=callback).policy.parameters())

    expected, recorded = train(None), train(RollshapeCallback(tmp_path / "run", every=1))
    assert all(torch.equal(a, b) for a, b in zip(expected, recorded, strict=True))
    assert read_measurement(tmp_path / "run", 1).measured.method == "autodiff"
    [record] = read_records(tmp_path / "run")
    assert record.rows[0].metric("gradient_steps") == 2
