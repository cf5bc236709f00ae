"""Runs with one known fault each: it is ranked first, and healthy runs are not accused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.reports.runs import make_probe

from rollshape.cli import main
from rollshape.errors import RequestError
from rollshape.gradients.intervals import Estimate
from rollshape.gradients.noise_scale import NoiseScale
from rollshape.integrations.description import describe
from rollshape.integrations.writer import RunWriter
from rollshape.studies.diagnosis import Diagnosis, best_end, diagnose
from rollshape.studies.gymnasium_registry import max_episode_steps, reward_threshold
from rollshape.studies.records import read_records
from rollshape.studies.run import run_study
from rollshape.studies.store import Store
from rollshape.studies.study_file import study_from_dict
from rollshape.studies.suspects import CHECKS, evidence
from rollshape.training.run import train
from rollshape.training.rundir import RunDirectory
from rollshape.training.spec import Spec

SPEC = Spec(env="Pendulum-v1", num_envs=64, num_steps=64, num_minibatches=8, total_timesteps=64 * 64 * 200)
COLUMNS_BY_ROW = ("action_std", "approx_kl_epochs")


def write_run(path: Path, spec: Spec = SPEC, rise: float = 0.0, status: str = "done", **metrics: Any) -> Path:
    """A run directory as `train` leaves it, with 40 rows of a run in good health but for what is given."""
    plan, directory = spec.plan(), RunDirectory(path)
    updates = plan.num_updates or 0
    path.mkdir(parents=True, exist_ok=True)
    directory.write(
        {"spec": spec.to_dict(), "plan": plan.to_dict(), "versions": {}, "status": status, "summary": {"timesteps": 0}}
    )
    chance = np.random.default_rng(spec.seed)
    for row, update in enumerate(np.unique(np.linspace(1, updates, 40).round().astype(int))):
        directory.append(
            {
                "update": int(update), "timesteps": int(update) * plan.rollout_size, "wall_time": 1.0,
                "eval_return": float(-1200 + rise * min(1.0, update / 100) + chance.normal(0, 5)),
                "episodic_return": -1200.0, "episodic_length": 200.0, "policy_loss": 0.0, "value_loss": 1.0,
                "entropy": 1.0, "approx_kl": 0.01, "clip_fraction": 0.1, "ratio_ess": 0.97, "grad_norm": 0.5,
                "reset_phase_entropy": 0.95, "approx_kl_epochs": [0.002, 0.006, 0.01, 0.012],
                "ratio_ess_epochs": [0.99, 0.98, 0.97, 0.97], "explained_variance": 0.8, "learning_rate": 3e-4,
                "success_rate": None, "rollout_s": None, "update_s": None, "sps": 100_000,
                **{name: value[row] if _is_by_row(name, value) else value for name, value in metrics.items()},
            }
        )  # fmt: skip
    return path


def _is_by_row(name: str, value: Any) -> bool:
    return name in COLUMNS_BY_ROW and len(value) == 40


def only(path: Path, **more: Any) -> Diagnosis:
    (found,) = diagnose(path, **more)
    return found


FAULTS: dict[str, dict[str, Any]] = {
    "few-updates": {"spec": replace(SPEC, total_timesteps=64 * 64 * 20)},
    "policy-lag": {"approx_kl_epochs": [0.002, 0.05, 0.1, 0.2], "ratio_ess_epochs": [0.99, 0.8, 0.7, 0.5]},
    "learning-rate": {"approx_kl_epochs": [0.5, 1.0, 1.4, 1.8]},
    "short-window": {"spec": replace(SPEC, num_envs=1024, num_steps=4), "explained_variance": 0.3},
    "weak-critic": {"explained_variance": -0.5},
    "entropy-collapse": {"action_std": [1.0, *[0.01] * 39]},
    "reward-scale": {"reward_rms": 1e4, "return_std": 1e5, "value_gradient_share": 1 - 1e-9},
    "observation-scale": {"observation_scale": 1000.0, "observation_scale_ratio": 1e6},
    "value-dominates": {"value_gradient_share": 1 - 1e-9},
    "discount-horizon": {"spec": replace(SPEC, gamma=0.5)},
    "over-smooth": {"noise_scale": 800.0, "effective_sample_size": 64 * 64 / 40},
    "synchronized-resets": {"reset_phase_entropy": 0.2},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_one_fault_is_ranked_first(fault: str, tmp_path: Path) -> None:
    found = only(write_run(tmp_path / "run", **FAULTS[fault]))
    assert found.verdict.name == "never learned"
    assert found.suspects[0].rule == fault
    assert found.suspects[0].severity == "warn"
    assert found.suspects[0].fix
    assert found.suspects[0].numbers["evidence"] >= 0.3
    assert any(str(digit) in found.suspects[0].message for digit in range(10))


def test_a_rate_that_hardly_moves_the_policy_is_ranked_first(tmp_path: Path) -> None:
    found = only(write_run(tmp_path / "run", approx_kl_epochs=[0.0, 1e-8, 1e-8, 2e-8]))
    assert found.suspects[0].rule == "learning-rate"
    assert "notable below 1e-4" in found.suspects[0].message
    assert "0.003" in found.suspects[0].fix


def test_a_run_in_good_health_that_never_learned_has_no_suspects(tmp_path: Path) -> None:
    found = only(write_run(tmp_path / "run"))
    assert found.verdict.name == "never learned"
    assert found.suspects == []
    unknown = {suspect.rule: suspect.needs for suspect in found.not_measurable}
    assert unknown == {
        "over-smooth": ("noise_scale", "effective_sample_size"),
        "observation-scale": ("observation_scale",),
        "value-dominates": ("value_gradient_share",),
    }
    measurable = set(CHECKS) - set(unknown) - {"contention"}  # which needs other runs
    assert {finding.rule for finding in found.cleared} == measurable
    assert all(finding.severity == "info" for finding in found.cleared)


def test_a_run_that_learned_is_not_examined(tmp_path: Path) -> None:
    found = only(write_run(tmp_path / "run", rise=1000.0, explained_variance=-0.5), target=-300)
    assert found.verdict.name == "learned"
    assert found.suspects == found.cleared == []


def test_a_minibatch_above_the_noise_scale_is_found_where_a_probe_measured_it(tmp_path: Path) -> None:
    store = Store(tmp_path / "study")
    store.begin(study_from_dict({"grid": {"num_envs": [64]}}, "x"))
    write_run(store.run_dir("a"))  # minibatches of 512
    probe = make_probe({64: (1.0, 0.5)})
    probe = replace(probe, variance=replace(probe.variance, total=Estimate(8.0, 7.0, 9.0)))

    def write_probe(clustered: float | None) -> None:
        scales = replace(probe.noise_scale, clustered=NoiseScale(clustered, None, None))
        store.write_probe("a", 0.5, replace(probe, noise_scale=scales).to_dict())

    write_probe(80.0)
    found = only(tmp_path / "study")
    assert found.suspects[0].rule == "over-smooth"
    assert found.suspects[0].numbers["noise_scale"] == pytest.approx(10.0)  # without the correlation τ = 8
    write_probe(8000.0)
    assert "over-smooth" in {finding.rule for finding in only(tmp_path / "study").cleared}
    write_probe(None)  # no signal at this batch
    assert "over-smooth" not in {finding.rule for finding in only(tmp_path / "study").cleared}


def named(found: list[Diagnosis], name: str) -> Diagnosis:
    return next(each for each in found if each.record.path.name == name)


def test_steps_lost_to_contention_are_seen_against_fewer_environments(tmp_path: Path) -> None:
    write_run(tmp_path / "few", rise=1000.0)
    write_run(tmp_path / "many", spec=replace(SPEC, num_envs=128), sps=10_000)
    write_run(tmp_path / "fewest", spec=replace(SPEC, num_envs=8), sps=10_000)  # slow, but not for its number
    found = diagnose(tmp_path)
    assert named(found, "many").suspects[0].rule == "contention"
    assert named(found, "many").suspects[0].numbers["best_sps"] == 100_000
    assert "contention" not in {finding.rule for finding in named(found, "fewest").suspects}


def test_better_runs_confirm_or_acquit_too_few_updates(tmp_path: Path) -> None:
    short = replace(SPEC, total_timesteps=64 * 64 * 60)
    write_run(tmp_path / "confirmed" / "short", spec=short)
    write_run(tmp_path / "confirmed" / "long", spec=replace(SPEC, total_timesteps=64 * 64 * 600))
    late = tmp_path / "confirmed" / "long" / "metrics.jsonl"
    table = [json.loads(line) for line in late.read_text().splitlines()]
    table = [row | {"eval_return": row["eval_return"] + (1000 if row["update"] > 200 else 0)} for row in table]
    late.write_text("".join(json.dumps(row) + "\n" for row in table))
    write_run(tmp_path / "acquitted" / "short", spec=short)
    write_run(tmp_path / "acquitted" / "long", rise=1000.0)
    confirmed = named(diagnose(tmp_path / "confirmed"), "short")
    assert confirmed.suspects[0].rule == "few-updates"
    assert confirmed.suspects[0].numbers["evidence"] > 1
    acquitted = named(diagnose(tmp_path / "acquitted"), "short")
    assert "few-updates" in {finding.rule for finding in acquitted.cleared}


def test_diverged_from_the_start_is_the_learning_rate(tmp_path: Path) -> None:
    broken = write_run(tmp_path / "run", status="diverged", approx_kl_epochs=[None, None], explained_variance=None)
    found = only(broken)
    assert found.verdict.name == "diverged"
    assert found.suspects[0].rule == "learning-rate"


def test_evidence_is_a_place_between_notable_and_severe() -> None:
    assert evidence(100, 100, 10) == 0
    assert evidence(10, 100, 10) == pytest.approx(1)
    assert evidence(1000, 100, 10) == pytest.approx(-1)
    assert evidence(8, 4, 16) == pytest.approx(0.5)
    assert evidence(0, 4, 16) == -3


def test_the_registry_says_what_counts_as_solved() -> None:
    assert reward_threshold("CartPole-v1") == 475.0
    assert max_episode_steps("tabular:FrozenLake-v1") == 100
    assert reward_threshold("DelayChain-v0") is max_episode_steps("DelayChain-v0") is None


def test_the_best_end_is_that_of_a_group(tmp_path: Path) -> None:
    for seed in range(3):
        write_run(tmp_path / f"a{seed}", spec=replace(SPEC, seed=seed), rise=100.0 * seed)
        write_run(tmp_path / f"b{seed}", spec=replace(SPEC, seed=seed, num_envs=8), rise=50.0)
    assert best_end(read_records(tmp_path)) == pytest.approx(-1100, abs=5)


def test_no_run_is_a_wrong_request(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="holds no run"):
        diagnose(tmp_path)


@pytest.mark.slow
def test_real_runs_too_few_updates_and_too_low_a_rate(tmp_path: Path) -> None:
    small = {"env": "CartPole-v1", "num_envs": 64, "num_steps": 64, "hidden_sizes": (16,), "num_minibatches": 4}
    train(out=tmp_path / "few" / "run", total_timesteps=64 * 64 * 8, eval_after=-1e30, log_every=1, **small)
    low = {**small, "num_envs": 8, "num_steps": 32, "num_minibatches": 2, "learning_rate": 1e-8, "log_every": 4}
    train(out=tmp_path / "low" / "run", total_timesteps=8 * 32 * 120, **low)
    assert only(tmp_path / "few").suspects[0].rule == "few-updates"
    assert only(tmp_path / "low").suspects[0].rule == "learning-rate"


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(2):
        write_run(tmp_path / f"a{seed}", spec=replace(SPEC, seed=seed), explained_variance=-0.5)
    write_run(tmp_path / "b", spec=replace(SPEC, num_envs=32))
    assert main(["diagnose", str(tmp_path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [run["verdict"] for run in document] == ["never learned"] * 3
    assert [run["num_envs"] for run in document] == [32, 64, 64]  # sorted by shape
    assert document[1]["suspects"][0]["rule"] == "weak-critic"
    assert set(document[0]) >= {"run_dir", "reason", "numbers", "cleared", "not_measurable", "success_rate", "seed"}
    assert main(["diagnose", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "2 never learned  → weak-critic (2 of 2)" in shown
    assert "seed" not in shown.replace("seeds", "")
    assert max(map(len, shown.splitlines())) <= 80
    assert main(["diagnose", str(tmp_path), "--details"]) == 0
    shown = capsys.readouterr().out
    assert "seed 1, never learned: return from" in shown
    assert "No measured cause stands out" in shown
    assert "not measurable from this log: over-smooth (needs noise_scale," in shown
    assert main(["diagnose", str(tmp_path / "nowhere")]) == 2


def test_a_study_is_diagnosed_from_its_folder(tmp_path: Path) -> None:
    fixed = {"env": "FrozenLake-v1", "num_envs": 8, "num_steps": 8, "total_timesteps": 64 * 20, "hidden_sizes": [4]}
    run_study(study_from_dict({"fixed": fixed, "points": [{"num_epochs": 1}], "seeds": 1}, "x"), tmp_path / "x")
    assert only(tmp_path / "x").verdict.name in ("never learned", "plateaued")


def foreign_run(path: Path, dialect: str, config: dict[str, Any], rows: int = 40, **metrics: Any) -> Path:
    """A run of another library whose log has scores and what is given, and nothing else."""
    writer = RunWriter(path, describe(config, dialect, env="CartPole-v1"))
    chance = np.random.default_rng(0)
    for update in range(1, rows + 1):
        row = {"update": update, "timesteps": 100 * update, "episodic_return": 20 + chance.normal()}
        known = {name: value[update - 1] if isinstance(value, list) else value for name, value in metrics.items()}
        writer.append(row | known)
    writer.end()
    return path


SB3 = {"n_envs": 4, "n_steps": 2048, "batch_size": 64, "n_timesteps": 40 * 4 * 2048, "learning_rate": 0.009}


def test_what_a_log_does_not_say_is_never_cleared(tmp_path: Path) -> None:
    found = only(foreign_run(tmp_path / "run", "sb3", SB3))
    unknown = {suspect.rule for suspect in found.not_measurable}
    known = {finding.rule for finding in (*found.suspects, *found.cleared)}
    assert known == {"few-updates", "discount-horizon"}  # which need the settings only
    assert unknown == set(CHECKS) - known - {"contention"}
    document = found.to_dict()
    assert {"rule": "learning-rate", "needs": ["approx_kl"]} in document["not_measurable"]
    assert document["trainer"]["name"] == "Stable-Baselines3"


@pytest.mark.parametrize(
    ("epochs", "kl", "suspect", "change"),
    [
        (40, 1.4, "policy-lag", "n_epochs: 40 → 4"),
        (10, 0.3, "learning-rate", "learning_rate: 0.009 → 0.0009"),
        (10, 0.06, "policy-lag", "n_epochs: 10 → 2"),
        (10, 0.02, None, ""),
    ],
)
def test_the_last_epochs_kl_is_enough(epochs: int, kl: float, suspect: str | None, change: str, tmp_path: Path) -> None:
    """Stable-Baselines3 logs the KL of the last epoch only: the first epoch's is estimated, KL/epochs."""
    last_only = [[*[None] * (epochs - 1), kl]] * 120
    config = SB3 | {"n_epochs": epochs, "n_timesteps": 120 * 4 * 2048}
    found = only(foreign_run(tmp_path / "run", "sb3", config, rows=120, approx_kl_epochs=last_only))
    assert [finding.rule for finding in found.suspects] == ([suspect] if suspect else [])
    assert {"policy-lag", "learning-rate"} <= {finding.rule for finding in (*found.suspects, *found.cleared)}
    assert change in "".join(finding.fix for finding in found.suspects)
    if suspect == "learning-rate":
        assert f"estimated from that of the last of {epochs} epochs" in found.suspects[0].message


CHANGES: dict[str, tuple[str, dict[str, Any], dict[str, Any], str]] = {
    "sb3": ("sb3", SB3, {}, "n_steps: 2048 → 512."),
    "cleanrl": (
        "cleanrl",
        {"num_envs": 4, "num_steps": 2048, "num_minibatches": 4, "total_timesteps": 40 * 8192},
        {},
        "num_steps: 2048 → 512; num_minibatches: 4 → 1.",
    ),
    "rsl_rl": (
        "rsl_rl",
        {"num_envs": 4, "num_steps_per_env": 2048, "max_iterations": 40, "algorithm": {"num_mini_batches": 4}},
        {},
        "num_steps_per_env: 2048 → 512",
    ),
    "learning rate": ("sb3", SB3, {"approx_kl": 1.0}, "learning_rate: 0.009 → 0.0009"),
    "observations": ("sb3", SB3, {"observation_scale": 1e5}, "VecNormalize(norm_obs=True)"),
}


@pytest.mark.parametrize("case", CHANGES)
def test_the_change_is_in_the_words_of_the_library(case: str, tmp_path: Path) -> None:
    dialect, config, metrics, change = CHANGES[case]
    found = only(foreign_run(tmp_path / "run", dialect, config, **metrics))
    assert change in found.suspects[0].fix
    assert found.suspects[0].numbers["changes"]


def test_the_change_of_our_own_runs_is_a_flag(tmp_path: Path) -> None:
    found = only(write_run(tmp_path / "run", approx_kl_epochs=[0.0, 1e-8, 1e-8, 2e-8]))
    assert found.suspects[0].fix == "--learning-rate 0.0003 → 0.003"
    assert found.suspects[0].numbers["changes"] == [{"key": "--learning-rate", "before": 3e-4, "after": 3e-3}]


def test_a_cause_outranks_its_consequences(tmp_path: Path) -> None:
    """A huge reward also drowns the policy's gradient and stalls the policy."""
    found = only(write_run(tmp_path / "run", reward_rms=1e4, value_gradient_share=1 - 1e-9,
                           approx_kl_epochs=[0.0, 1e-8, 1e-8, 2e-8]))  # fmt: skip
    assert found.suspects[0].rule == "reward-scale"
    assert "learning-rate" in {finding.rule for finding in found.cleared}


def test_steps_are_measured_while_the_policy_explores(tmp_path: Path) -> None:
    """With a tiny standard deviation any step is a large KL, with a saturated softmax a huge step is a small one."""
    shrinking = {"action_std": [1.0, 0.9, 0.8, 0.7, 0.5, 0.3, *[0.001] * 34]}
    steps = [[0.002, 0.006, 0.01, 0.012]] * 6 + [[2.0, 3.0, 4.0, 5.0]] * 34
    found = only(write_run(tmp_path / "collapse", approx_kl_epochs=steps, **shrinking))
    assert [finding.rule for finding in found.suspects] == ["entropy-collapse"]
    saturated = foreign_run(tmp_path / "rate", "sb3", SB3 | {"n_timesteps": 120 * 8192}, rows=120,
                            approx_kl_epochs=[[0.3] * 10] * 6 + [[0.001] * 10] * 114,
                            entropy=[0.69] * 6 + [0.01] * 114)  # fmt: skip
    assert only(saturated).suspects[0].rule == "learning-rate"


def test_losses_that_end_before_the_run_are_not_finite(tmp_path: Path) -> None:
    broken = foreign_run(tmp_path / "broken", "sb3", SB3, value_loss=[1.0] * 30 + [None] * 10)
    assert only(broken).verdict.name == "diverged"
    sparse = foreign_run(tmp_path / "sparse", "sb3", SB3, value_loss=[1.0, None, None, None] * 10)
    assert only(sparse).verdict.name == "never learned"
    assert only(foreign_run(tmp_path / "none", "sb3", SB3)).verdict.name == "never learned"
