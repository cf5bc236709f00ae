"""Verdicts follow their stated rules, and say nothing where runs settle nothing."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.reports.runs import folder_of, probe_document, spec_of, write_run

from rollshape.errors import RequestError
from rollshape.probes.files import write_document
from rollshape.studies.builtin import builtin_names, load_builtin
from rollshape.studies.groups import Task, group_tasks
from rollshape.studies.ranking import check_predictions, predict_errors
from rollshape.studies.records import read_records
from rollshape.studies.rules import RULES, judge_claims
from rollshape.studies.rules.comparison import best_and_ties, check_trend, compare_pairs
from rollshape.studies.rules.policy_loss import judge_policy_loss
from rollshape.studies.statistics import sample_centers
from rollshape.studies.study_file import study_from_dict
from rollshape.training.spec import Spec


def runs(centre: float, count: int = 12, seed: int = 0) -> Any:
    return centre + np.random.default_rng(seed).normal(size=count)


def test_a_claim_is_confirmed_refuted_or_depends_on_the_separated_pairs() -> None:
    up = {"a": runs(0), "b": runs(5, seed=1), "c": runs(10, seed=2)}
    labels = ["a", "b", "c"]
    assert check_trend(up, labels)[0] == "confirmed"
    assert check_trend(up, labels, -1)[0] == "refuted"
    assert check_trend(up, ["a", "c", "b"])[0] == "depends"
    assert "c to b, -" in check_trend(up, ["a", "c", "b"])[1]
    assert check_trend({name: runs(0, seed=5) for name in labels}, labels)[0] == "not settled"


def test_chance_settles_few_studies() -> None:
    """Six equal shapes: at most about one study in ten separates a pair (5 % in each direction)."""
    wrong = 0
    for study in range(60):
        chance = np.random.default_rng(study)
        scores = {str(i): chance.normal(size=12) for i in range(6)}
        wrong += any(pair.sign for pair in compare_pairs(scores, list(scores)))
    assert wrong <= 10  # 10 % of 60 are 6, plus two standard deviations


def test_two_runs_separate_almost_nothing_and_one_nothing() -> None:
    assert not compare_pairs({"a": np.array([1.0, 2.0]), "b": np.array([8.0, 9.5])}, ["a", "b"])[0].sign
    assert compare_pairs({"a": runs(0, 5), "b": runs(30, 5, 1)}, ["a", "b"])[0].sign == 1
    assert not compare_pairs({"a": np.array([1.0]), "b": runs(30)}, ["a", "b"])[0].sign
    assert np.isnan(sample_centers([np.array([1.0])])).all()


def test_what_is_not_separated_from_the_best_is_tied_with_it() -> None:
    scores = {"a": runs(0), "b": runs(10, seed=1), "c": runs(10.1, seed=1)}
    assert best_and_ties(scores) == ("c", ["b", "c"])


def read(path: Path) -> list[Task]:
    return group_tasks(read_records(path))


def test_tradeoff(tmp_path: Path) -> None:
    found = judge_claims("more-envs-is-better", "claim", read(folder_of(tmp_path, {2: 100.0, 32: 300.0, 512: 200.0})))
    assert found[0].answer == "depends"
    assert found[0].reasons[0].startswith("32×64 has the highest final return")
    assert found[0].numbers == {"final return": "depends", "area under the curve": "depends"}


def test_a_verdict_states_its_scope(tmp_path: Path) -> None:
    (task,) = read(folder_of(tmp_path / "one", {2: 100.0, 32: 300.0, 512: 200.0}, learning_rate=2.5e-4))
    verdict = judge_claims("more-envs-is-better", "claim", [task])[0]
    assert verdict.scope == "CartPole-v1 (81.9k steps, lr 2.5e-4, 12 seeds)"
    assert verdict.headline == f"Mixed results on {verdict.scope}"
    assert verdict.to_dict()["scope"] == verdict.scope
    for delay, seeds in ((1, 2), (4, 2), (16, 1)):
        more = {"env": "tabular:DelayChain-v0", "env_kwargs": {"delay": delay}}
        folder_of(tmp_path / "several" / str(delay), {8: 100.0, 32: 200.0}, seeds, **more)
    records = [record for delay in (1, 4, 16) for record in read_records(tmp_path / "several" / str(delay))]
    tasks = group_tasks(records)
    chain, settings = "tabular:DelayChain-v0", "81.9k steps, lr 3e-4"
    assert [verdict.scope for verdict in judge_claims("more-envs-is-better", "claim", tasks)][:3] == [
        f"{chain} delay=1 ({settings}, 2 seeds)",
        f"{chain} delay=4 ({settings}, 2 seeds)",
        f"{chain} delay=16 ({settings}, 1 seed)",
    ]
    assert judge_claims("steps-must-exceed-delay", "claim", tasks)[0].scope == (
        f"{chain} delay=1, {chain} delay=4 ({settings}, 2 seeds); {chain} delay=16 ({settings}, 1 seed)"
    )


def test_without_a_rule_nothing_is_settled(tmp_path: Path) -> None:
    verdict = judge_claims("", "claim", read(folder_of(tmp_path, {2: 100.0, 512: 300.0})))[0]
    assert verdict.answer == "not settled"
    assert verdict.reasons[0].startswith("512×4 has the highest final return")
    assert verdict.rule.startswith("No rule was named")


def test_the_rule_is_named_in_the_file_and_an_unknown_one_is_refused() -> None:
    study = {"claim": "More is better.", "grid": {"num_envs": [2, 4]}}
    assert study_from_dict(study | {"rule": "more-envs-is-better"}, "any-name").rule == "more-envs-is-better"
    assert study_from_dict(study, "tradeoff").rule == ""
    with pytest.raises(RequestError) as caught:
        study_from_dict(study | {"rule": "more-env-is-better"}, "x")
    assert "Did you mean more-envs-is-better?" in caught.value.fix
    assert all(name in caught.value.fix for name in RULES)
    judged_beside = {"quarter-minibatch-is-best"}  # benchmarks/claims.py judges two studies by it
    assert {load_builtin(name).rule for name in builtin_names()} == set(RULES) - judged_beside
    assert all(rule.statement.endswith(".") for rule in RULES.values())


def test_num_envs_must_also_fail(tmp_path: Path) -> None:
    worse = {2: 300.0, 32: 200.0, 512: 100.0}
    assert (
        judge_claims("more-envs-is-worse-and-fails", "", read(folder_of(tmp_path / "worse", worse)))[0].answer
        == "depends"
    )
    found = judge_claims(
        "more-envs-is-worse-and-fails", "", read(folder_of(tmp_path / "fail", {2: 300.0, 32: 200.0, 512: 20.0}))
    )[0]
    assert found.answer == "confirmed"
    assert found.numbers["failed"] > 6


def test_total_timesteps_is_judged_by_the_end(tmp_path: Path) -> None:
    for budget, end in ((20, 100.0), (40, 200.0)):
        for seed in range(4):
            write_run(tmp_path / f"{budget}-{seed}", spec_of(32, seed, total_timesteps=2048 * budget), end)
    (task,) = read(tmp_path)
    assert [group.label for group in task.groups] == ["total_timesteps 40960", "total_timesteps 81920"]
    found = judge_claims("more-timesteps-is-better", "", [task])[0]
    assert (found.answer, list(found.numbers)) == ("confirmed", ["final return"])


@pytest.mark.parametrize(
    ("ends", "answer"),
    [
        ({64: 300.0, 256: 300.0, 512: 300.0, 2048: 100.0}, "confirmed"),
        ({64: 100.0, 256: 100.0, 512: 100.0, 2048: 300.0}, "refuted"),
        ({64: 100.0, 256: 300.0, 512: 300.0, 2048: 100.0}, "depends"),
    ],
)
def test_minibatch(tmp_path: Path, ends: dict[int, float], answer: str) -> None:
    for size, end in ends.items():
        for seed in range(10):
            spec = spec_of(64, seed, num_minibatches=None, minibatch_size=size)
            write_run(tmp_path / f"{size}-{seed}", spec, end)
    assert judge_claims("minibatch-32-to-256-is-best", "", read(tmp_path))[0].answer == answer


@pytest.mark.parametrize(
    ("none", "burnt", "answer"),
    [
        ((200.0, 200.0), (200.0, 300.0), "confirmed"),
        ((200.0, 300.0), (200.0, 300.0), "refuted"),
        ((200.0, 300.0), (250.0, 400.0), "depends"),
        ((200.0, 200.0), (200.0, 200.0), "not settled"),
    ],
)
def test_reset_phase(tmp_path: Path, none: tuple[float, ...], burnt: tuple[float, ...], answer: str) -> None:
    for stagger, ends in (("none", none), ("burn-in", burnt)):
        folder_of(tmp_path / stagger, dict(zip((8, 256), ends, strict=True)), 10, stagger=stagger)
    records = [*read_records(tmp_path / "none"), *read_records(tmp_path / "burn-in")]
    assert judge_claims("staggering-fixes-synchronized-resets", "", group_tasks(records))[0].answer == answer


def test_delay_finds_the_flip(tmp_path: Path) -> None:
    ends = {1: {8: 100.0, 1024: 300.0}, 16: {8: 300.0, 1024: 100.0}}  # T = 256 and 2
    for delay, by_envs in ends.items():
        for num_envs, end in by_envs.items():
            for seed in range(10):
                spec = spec_of(num_envs, seed, env="tabular:DelayChain-v0", env_kwargs={"delay": delay})
                write_run(tmp_path / f"{delay}-{num_envs}-{seed}", spec, end)
    found = judge_claims("steps-must-exceed-delay", "", read(tmp_path))
    assert found[0].answer == "confirmed"
    assert found[0].numbers["flip"] == 16
    assert "falls from 1,024 to 8 at a delay of 16" in found[0].reasons[-1]


def test_a_policy_loss_near_zero_is_put_to_the_test(tmp_path: Path) -> None:
    for seed in range(4):
        write_run(tmp_path / "flat" / str(seed), spec_of(8, seed), 300.0)  # as near to 0 all the time
        write_run(tmp_path / "falls" / str(seed), spec_of(8, seed), 300.0, policy_loss=lambda share: 0.1 - 0.09 * share)
    assert judge_policy_loss(read(tmp_path / "flat")).answer == "refuted"
    assert judge_policy_loss(read(tmp_path / "falls")).answer == "confirmed"
    write_run(tmp_path / "none" / "0", spec_of(8), 20.0)
    assert judge_policy_loss(read(tmp_path / "none")).answer == "not settled"


def test_a_prediction_is_scaled_to_each_shape_and_tested(tmp_path: Path) -> None:
    folder_of(tmp_path, {2: 400.0, 32: 300.0, 1024: 100.0})
    document = probe_document({1024: (4.0, 0.1), 64: (1.0, 0.5), 2: (0.1, 1.5)})
    write_document(tmp_path / "2-0" / "probes" / "20" / "probe.json", document)
    (task,) = read(tmp_path)
    one, measured = predict_errors(task)
    np.testing.assert_allclose(list(one.errors.values()), np.array([4.1, 1.5, 1.6]) / 1.6)
    np.testing.assert_allclose(list(measured.errors.values()), np.array([0.5, 0.6, 1.51]) / 0.6)
    first = check_predictions(task)[0].ranking
    assert (first.predicted_best, first.measured_best, first.separated, first.concordant) == ("32×64", "2×1024", 3, 1)
    assert first.regret.value == pytest.approx(100, abs=10)
    second = check_predictions(task)[2].ranking
    assert (second.predicted_best, second.concordant, second.regret.value) == ("2×1024", 3, 0.0)


def test_what_differs_in_more_than_the_shape_is_not_ranked(tmp_path: Path) -> None:
    for size in (64, 256, 512):
        for seed in range(3):
            write_run(tmp_path / f"{size}-{seed}", spec_of(64, seed, num_minibatches=None, minibatch_size=size), size)
    folder = tmp_path / "64-0" / "probes" / "20"
    folder.mkdir(parents=True)
    (folder / "probe.json").write_text(json.dumps(probe_document({32: (1.0, 0.5)})))
    assert predict_errors(*read(tmp_path)) == []


def test_rrds_sizes_are_judged_each_along_its_own_points(tmp_path: Path) -> None:
    usual = {"train_batches": 100, "rrd_batch_size": 256, "rrd_sample_size": 64}
    points = [(usual, -200.0, 0.5), (usual | {"train_batches": 25}, -600.0, 0.5)]
    points += [(usual | {"rrd_batch_size": size}, -200.0, 0.5) for size in (64, 1024)]
    points += [(usual | {"rrd_sample_size": 4}, -200.0, 0.9)]
    for number, (point, end, loss) in enumerate(points):
        for seed in range(10):
            spec = Spec(env="Pendulum-v1", algo="rrd", seed=seed, total_timesteps=4000, learning_starts=200, **point)
            write_run(tmp_path / f"{number}-{seed}", spec, end, start=-1200.0, reward_correlation=0.9,
                      reward_loss=loss + 0.01 * seed)  # fmt: skip
    batches, diverse, sampled = judge_claims("larger-rrd-sizes-are-better", "", read(tmp_path))
    assert batches.answer == "confirmed"
    assert "100: correlation 0.90" in batches.reasons[-1]
    assert diverse.answer == "not settled"
    assert sampled.answer == "confirmed"
    assert "reward network's loss" in sampled.reasons[0]


def write_sizes(path: Path, ends: dict[tuple[str, int], float], seeds: int = 12) -> Path:
    """Runs of PPO and PPO-EWMA at several rollout sizes, each with its end."""
    for (algo, num_envs), end in ends.items():
        sizes = {"rollout_size": None, "num_steps": 16, "total_timesteps": 2**20}
        adjusted = {"reference_rollout_size": 512} if algo == "ppo-ewma" else {"learning_rate": 1e-4 * num_envs**0.5}
        for seed in range(seeds):
            spec = spec_of(num_envs, seed, algo=algo, **sizes, **adjusted)
            write_run(path / f"{algo}-{num_envs}-{seed}", spec, end)
    return path


@pytest.mark.parametrize(
    ("ewma", "ppo", "answer"),
    [
        ((200.0, 200.0, 200.0), (100.0, 200.0, 300.0), "confirmed"),
        ((200.0, 200.0, 200.0), (200.0, 200.0, 200.0), "not settled"),
        ((100.0, 200.0, 300.0), (200.0, 200.0, 200.0), "refuted"),
        ((200.0, 200.0, 300.0), (100.0, 200.0, 300.0), "depends"),
    ],
)
def test_adjusted_curves_coincide_or_not(
    ewma: tuple[float, ...], ppo: tuple[float, ...], answer: str, tmp_path: Path
) -> None:
    envs = (4, 32, 256)
    ends = {("ppo-ewma", n): end for n, end in zip(envs, ewma, strict=True)}
    ends |= {("ppo", n): end for n, end in zip(envs, ppo, strict=True)}
    [task] = read(write_sizes(tmp_path, ends))
    assert [group.label for group in task.groups][:2] == ["4×16, ppo", "4×16, ppo-ewma"]
    verdict = judge_claims("adjusted-curves-coincide", "claim", [task])[0]
    assert verdict.answer == answer
    assert "of 3 pairs differ significantly" in verdict.reasons[0]


@pytest.mark.parametrize(
    ("plain_small", "plain_large", "reduced_small", "answer"),
    [
        (50.0, 100.0, 300.0, "confirmed"),
        (50.0, 300.0, 100.0, "refuted"),
        (50.0, 200.0, 200.0, "not settled"),
        (300.0, 100.0, 300.0, "depends"),  # the smaller rollout helps, not the baseline
    ],
)
def test_baselines_against_larger_rollouts(
    plain_small: float, plain_large: float, reduced_small: float, answer: str, tmp_path: Path
) -> None:
    ends = {
        (16, "episode", "none"): plain_large, (4, "episode", "none"): plain_small, (4, "to-go", "mean"): reduced_small,
        (4, "to-go", "value"): reduced_small, (4, "to-go", "none"): 60.0,
    }  # fmt: skip
    sizes = {"rollout_size": None, "num_steps": 64, "total_timesteps": 2**20, "num_minibatches": None}
    for (num_envs, returns, baseline), end in ends.items():
        for seed in range(12):
            spec = spec_of(num_envs, seed, algo="reinforce", returns=returns, baseline=baseline, **sizes)
            write_run(tmp_path / f"{num_envs}-{returns}-{baseline}-{seed}", spec, end)
    [task] = read(tmp_path)
    verdict = judge_claims("baselines-beat-larger-rollouts", "claim", [task])[0]
    assert verdict.answer == answer
    assert "16×64" in verdict.reasons[1]


def by_minibatch(path: Path, ends: dict[tuple[int, float], float]) -> Task:
    """Runs of 64×32 with (minibatch size, learning rate) → end."""
    for (size, rate), end in ends.items():
        for seed in range(6):
            spec = spec_of(64, seed, num_minibatches=None, minibatch_size=size, learning_rate=rate)
            write_run(path / f"{size}-{rate}-{seed}", spec, end)
    (task,) = read(path)
    return task


def test_the_learning_rate_follows_the_square_root_or_not(tmp_path: Path) -> None:
    def judge(name: str, fixed: float, root: float, linear: float) -> str:
        ends = {(128, 1e-3): 300.0, (512, 1e-3): fixed, (512, 2e-3): root, (512, 4e-3): linear}
        verdict = judge_claims("sqrt-learning-rate-is-best", "", [by_minibatch(tmp_path / name, ends)])[0]
        assert [effect.contrast for effect in verdict.effects] == [
            f"minibatch_size 512: √ minus {name} learning rate" for name in ("unchanged", "linear")
        ]
        return verdict.answer

    assert judge("best", 100.0, 300.0, 200.0) == "confirmed"
    assert judge("worst", 300.0, 100.0, 200.0) == "refuted"
    assert judge("between", 100.0, 200.0, 300.0) == "depends"
    assert judge("same", 200.0, 200.0, 200.0) == "not settled"


def test_without_a_recipe_the_learning_rate_is_not_judged(tmp_path: Path) -> None:
    ends = {(size, rate): 300.0 for size in (128, 512) for rate in (1e-3, 2e-3)}
    assert judge_claims("sqrt-learning-rate-is-best", "", [by_minibatch(tmp_path, ends)])[0].answer == "not settled"


def test_a_quarter_of_the_rollout_is_judged_at_its_best_learning_rate(tmp_path: Path) -> None:
    ends = {(128, 1e-3): 300.0, (512, 1e-3): 100.0, (512, 2e-3): 300.0, (2048, 1e-3): 100.0}
    verdict = judge_claims("quarter-minibatch-is-best", "", [by_minibatch(tmp_path / "tuned", ends)])[0]
    assert verdict.answer == "confirmed"
    assert verdict.effects[0].contrast.startswith("minibatch_size 512, learning_rate 0.002 minus minibatch_size 128")
    del ends[512, 2e-3]
    assert judge_claims("quarter-minibatch-is-best", "", [by_minibatch(tmp_path / "not", ends)])[0].answer == "refuted"


def test_an_adaptive_learning_rate_is_compared_at_every_size(tmp_path: Path) -> None:
    def judge(name: str, adaptive: dict[int, float]) -> str:
        for size, end in adaptive.items():
            for seed in range(6):
                spec = spec_of(64, seed, num_minibatches=None, minibatch_size=size)
                write_run(tmp_path / name / f"fixed-{size}-{seed}", spec, 200.0)
                write_run(tmp_path / name / f"adaptive-{size}-{seed}", replace(spec, adaptive_kl=0.008), end)
        return judge_claims("adaptive-kl-needs-large-minibatches", "", read(tmp_path / name))[0].answer

    assert judge("worse", {64: 100.0, 2048: 100.0}) == "confirmed"
    assert judge("partly", {64: 100.0, 2048: 300.0}) == "depends"
    assert judge("better", {64: 200.0, 2048: 300.0}) == "refuted"
    assert judge("same", {64: 200.0}) == "not settled"


def test_a_report_counts_separated_pairs_by_one_criterion(tmp_path: Path) -> None:
    """Pairs that differ with a probability over .95 each, but not after the correction, count in neither place."""
    folder_of(tmp_path, {2: 100.0, 8: 103.0, 32: 106.0, 128: 300.0}, seeds=6)
    document = probe_document({1024: (4.0, 0.1), 256: (3.0, 0.1), 64: (1.0, 0.5), 16: (0.1, 1.5)})
    write_document(tmp_path / "2-0" / "probes" / "20" / "probe.json", document)
    (task,) = read(tmp_path)
    for check in check_predictions(task):
        scores = task.final_returns() if check.measure == "final return" else task.areas()
        for labels in (list(scores), list(reversed(scores))):
            assert check.ranking.separated == sum(pair.sign != 0 for pair in compare_pairs(scores, labels))
    samples = sample_centers([task.final_returns()[label] for label in sorted(task.final_returns())])
    each = [(a > b).mean() for i, a in enumerate(samples) for j, b in enumerate(samples) if i != j]
    assert check_predictions(task)[0].ranking.separated < sum(share > 0.95 for share in each)
