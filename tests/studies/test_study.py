"""Study files: read safely, refused with file, line and fix; expanded into trials whose ids are stable."""

from pathlib import Path
from typing import Any

import pytest

from rollshape.errors import RequestError
from rollshape.studies.builtin import builtin_names, load_builtin
from rollshape.studies.study import Study
from rollshape.studies.study_file import read_study, study_from_dict, study_name
from rollshape.studies.trials import Trial, evaluation_grid, expand

FILE = """
title: Two
  lines
claim: More is better.
env: CartPole-v1
fixed: {rollout_size: 2048, total_timesteps: 1e5, hidden_sizes: [32, 32]}
grid:
  num_envs: [2, 64, 3000]
  gae_lambda: [0.9, 1]
seeds: 2
probe: {at: [0.5, 0.1]}
"""


def read(tmp_path: Path, text: str) -> Study:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return read_study(str(path))


def test_a_study_file(tmp_path: Path) -> None:
    study = read(tmp_path, FILE)
    assert (study.name, study.title, study.claim) == ("mine", "Two lines", "More is better.")
    assert study.fixed["total_timesteps"] == 100_000
    assert study.fixed["hidden_sizes"] == (32, 32)
    assert study.varied == ("num_envs", "gae_lambda")
    assert len(study.points) == 6
    assert study.seeds == (0, 1)
    assert study.probe_at == (0.1, 0.5)
    assert study_from_dict(study.to_dict(), "mine") == study


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("tiny.yaml", "tiny"),
        ("folder/my.study.yml", "my.study"),
        ("...yaml", "study"),
        ("..json", "study"),
        (".yaml", "study"),
        (".hidden.yaml", "hidden"),
        ("a b\nc\x1b.yaml", "a b-c-"),
        ("x\udcff.yaml", "x-"),
    ],
)
def test_the_name_of_a_file_can_name_a_folder(file: str, name: str) -> None:
    assert study_name(file) == name


def test_illegal_points_keep_their_reason(tmp_path: Path) -> None:
    found = expand(read(tmp_path, FILE))
    assert len(found.trials) == 2 * 2 * 2
    assert [point.point["num_envs"] for point in found.illegal] == [3000, 3000]
    assert found.illegal[0].rule == "rollout-split"
    assert "3,000" in found.illegal[0].message
    assert found.illegal[0].fix


def by_point(trials: tuple[Trial, ...]) -> dict[str, str]:
    return {f"{sorted(trial.point.items())} {trial.seed}": trial.id for trial in trials}


def test_ids_are_stable_under_reordering_and_extension(tmp_path: Path) -> None:
    ids = by_point(expand(read(tmp_path, FILE)).trials)
    assert len(set(ids.values())) == len(ids)
    turned = (
        FILE.replace("[2, 64, 3000]", "[64, 2]").replace("[0.9, 1]", "[1, 0.9]").replace("seeds: 2", "seeds: [1, 0, 7]")
    )
    again = by_point(expand(read(tmp_path, turned)).trials)
    assert {name: again[name] for name in ids} == ids
    assert set(again.values()) - set(ids.values()) == {id for id in again.values() if id.endswith("seed7")}


def test_trials_of_one_point_share_a_group() -> None:
    study = study_from_dict({"grid": {"num_envs": [4, 8]}, "fixed": {"num_steps": 8}, "seeds": 3}, "x")
    groups = [trial.group for trial in expand(study).trials]
    assert [groups.count(group) for group in dict.fromkeys(groups)] == [3, 3]


@pytest.mark.parametrize(
    ("text", "line", "word", "fix"),
    [
        ("env: CartPole-v1\ngird: {num_envs: [2]}\n", 2, "gird", "Did you mean grid?"),
        ("fixed:\n  num_steps: 8\ngrid:\n  num_env: [2]\n", 4, "num_env", "Did you mean num_envs?"),
        ("grid:\n  num_envs: [2, few]\n", 2, "few", "a whole number"),
        ("grid:\n  num_envs: [2.5]\n", 2, "2.5", "a whole number"),
        ("grid: {num_envs: [2]}\nfixed:\n  anneal_lr: 1\n", 3, "anneal_lr", "true or false"),
        ("grid: {num_envs: [2]}\nfixed:\n  stagger: often\n", 3, "often", "none, counter, burn-in"),
        ("grid: {num_envs: [2]}\nfixed:\n  env_kwargs: 3\n", 3, "env_kwargs", "a mapping"),
        ("grid: {num_envs: [2]}\nalgo: dqn\n", 2, "dqn", "ppo"),
        ("grid: {num_envs: 2}\n", 1, "grid.num_envs", "num_envs: [first, second]"),
        ("grid: {seed: [1]}\n", 1, "seed", "Use `seeds`"),
        ("grid: {num_envs: [2]}\nfixed:\n  num_envs: 3\n", 1, "both fixed and varied", "Keep one"),
        ("points:\n  - num_envs: 2\n  - num_envs: true\n", 3, "True", "a whole number"),
        ("points: []\n", 1, "not a list of mappings", "points: [{"),
        ("env: CartPole-v1\n", 1, "varies something", "grid: {"),
        ("grid: {num_envs: [2]}\npoints: [{num_envs: 2}]\n", 1, "by grid or by points", "one of them"),
        ("grid: {num_envs: [2]}\nseeds: 0\n", 2, "seeds", "a count"),
        ("grid: {num_envs: [2]}\nseeds: [1, 1]\n", 2, "seeds", "different seeds"),
        ("grid: {num_envs: [2]}\nprobe: {at: [1.5]}\n", 2, "probe.at", "(0, 1]"),
        ("grid: {num_envs: [2]}\nprobe: {when: [1]}\n", 2, "when", "Known: at"),
        ("grid: {num_envs: [2]}\nlr_rule: cubic\n", 2, "cubic", "fixed, sqrt, linear"),
        ("grid: {num_envs: [2]}\nlr_rule: sqrt\n", 2, "not given", "lr_reference"),
        ("grid: {num_envs: [2]}\nevaluate_every: 0.5\n", 2, "evaluate_every", "whole number"),
        ("grid: {num_envs: [2]}\nfixed: {env: Acrobot-v1}\nenv: CartPole-v1\n", 3, "under fixed", "once"),
        ("grid: {num_envs: [2]}\ntitle: [a]\n", 2, "title", "Quote"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_file_line_key_and_fix(
    text: str, line: int, word: str, fix: str, tmp_path: Path
) -> None:
    with pytest.raises(RequestError) as caught:
        read(tmp_path, text)
    assert caught.value.rule == "study"
    assert f"mine.yaml, line {line}: " in caught.value.message
    assert word in caught.value.message
    assert fix in caught.value.fix


def small(**more: Any) -> Study:
    return study_from_dict({"fixed": {"num_steps": 8}, "grid": {"num_envs": [8, 32]}, **more}, "x")


def test_the_learning_rate_follows_the_minibatch_by_its_rule() -> None:
    fixed = {"num_steps": 8, "num_minibatches": 1, "learning_rate": 1e-3}
    rates = {
        rule: [
            trial.spec.learning_rate
            for trial in expand(small(lr_rule=rule, lr_reference=64, fixed=fixed, seeds=1)).trials
        ]
        for rule in ("fixed", "sqrt", "linear")
    }  # minibatches of 64 and 256
    assert rates == {"fixed": [1e-3, 1e-3], "sqrt": [1e-3, 2e-3], "linear": [1e-3, 4e-3]}


def test_every_trial_is_scored_at_the_same_timesteps() -> None:
    found = expand(small(seeds=1))
    assert found.aligned
    stops = {trial.plan.rollout_size * (trial.spec.log_every or 0) for trial in found.trials}
    assert stops == {found.evaluate_every}
    longest = max(trial.plan.actual_timesteps or 0 for trial in found.trials)
    assert 15 <= longest / found.evaluate_every <= 25
    assert expand(small(evaluate_every=512)).evaluate_every == 512


def test_rollouts_without_a_common_multiple_are_said_to_be_unaligned() -> None:
    points = [{"num_envs": n, "num_steps": 1, "total_timesteps": 20_000} for n in (997, 1009, 1013)]
    plans = [trial.plan for trial in expand(study_from_dict({"points": points, "seeds": 1}, "x")).trials]
    assert evaluation_grid(plans) == (round(max(plan.actual_timesteps or 0 for plan in plans) / 20), False)


def test_two_points_that_are_one_run_and_a_study_without_a_legal_point_are_refused() -> None:
    with pytest.raises(RequestError, match="the same run"):
        expand(study_from_dict({"grid": {"num_envs": [2, 2]}}, "x"))
    with pytest.raises(RequestError, match="no legal point"):
        expand(study_from_dict({"grid": {"num_envs": [3000]}, "fixed": {"rollout_size": 2048}}, "x"))


def test_flags_change_a_study() -> None:
    assert small().with_seeds(3).seeds == (0, 1, 2)
    assert small().with_env("Acrobot-v1").fixed["env"] == "Acrobot-v1"
    probed = study_from_dict({"grid": {"num_envs": [2]}, "probe": {"at": [0.5]}}, "x")
    assert (probed.probe_at, probed.without_probes().probe_at) == ((0.5,), ())
    with pytest.raises(RequestError, match="--seeds"):
        small().with_seeds(0)
    with pytest.raises(RequestError, match="varies env"):
        study_from_dict({"grid": {"env": ["a", "b"]}}, "x").with_env("c")


@pytest.mark.parametrize("name", builtin_names())
def test_built_in_studies_are_legal_throughout_and_make_a_claim(name: str) -> None:
    study = load_builtin(name)
    assert study.claim
    found = expand(study)
    assert not found.illegal
    assert found.aligned


def test_built_in_studies_have_the_sizes_that_are_asked_about() -> None:
    named = {
        "tradeoff", "demo", "num-envs", "num-steps", "total-timesteps", "minibatch", "reset-phase", "delay", "rrd",
        "invariance", "baselines", "rescale", "learning-rate", "epochs", "adaptive-kl",
    }  # fmt: skip
    assert named == set(builtin_names())
    tradeoff = expand(load_builtin("tradeoff")).trials
    assert {trial.plan.rollout_size for trial in tradeoff} == {2048}
    assert len(tradeoff) == 6 * 20
    assert [point["num_envs"] for point in load_builtin("num-envs").points] == [256, 512, 1280, 2048]
    assert [point["num_steps"] for point in load_builtin("num-steps").points] == [8, 16, 64, 128]
    assert [point["total_timesteps"] for point in load_builtin("total-timesteps").points] == [
        1_500_000,
        2_000_000,
        5_000_000,
    ]
    with pytest.raises(RequestError) as caught:
        load_builtin("num-env")
    assert "Did you mean num-envs?" in caught.value.fix


def test_without_the_extra_a_functional_environment_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_builtin("num-envs").fixed["env"] == "envpool:Pusher-v5"
    monkeypatch.setattr("rollshape.studies.builtin.find_spec", lambda _: None)
    assert load_builtin("num-envs").fixed["env"] == "Pendulum-v1"
    assert load_builtin("tradeoff").fixed["env"] == "CartPole-v1"
