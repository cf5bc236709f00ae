"""A rescaled config is valid, keeps what its policy says, and says what changed."""

import copy
import json
import random
from typing import Any, get_args

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import rollshape
from random_configs import random_config
from rollshape.errors import RequestError
from rollshape.geometry.dialects import DIALECTS, rescale
from rollshape.geometry.dialects.policies import POLICIES, PolicyName
from rollshape.geometry.dialects.predict import predict
from rollshape.geometry.dialects.reading import read
from rollshape.geometry.dialects.rescale import Rescaled
from rollshape.geometry.dialects.rescale_evidence import find_evidence
from rollshape.geometry.dialects.sources.yamlfile import edit, parse

SB3: dict[str, Any] = {
    "n_envs": 8,
    "n_steps": 128,
    "batch_size": 64,
    "n_epochs": 10,
    "n_timesteps": 100_000,
    "learning_rate": 1e-3,
}
RSL_RL: dict[str, Any] = {
    "num_envs": 4096,
    "num_steps_per_env": 24,
    "max_iterations": 1500,
    "algorithm": {"num_mini_batches": 4, "num_learning_epochs": 5, "learning_rate": 1e-3, "schedule": "adaptive"},
}


def changed(result: Rescaled) -> dict[str, tuple[Any, Any]]:
    return {change.key: (change.before, change.after) for change in result.changes}


# SB3 has a minibatch size and a budget in timesteps; RSL-RL a number of minibatches and a number of updates.
@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("envs-only", {"n_envs": (8, 2)}),
        ("keep-minibatch", {"n_envs": (8, 2)}),
        ("keep-num-minibatches", {"n_envs": (8, 2), "batch_size": (64, 16)}),
        ("keep-rollout", {"n_envs": (8, 2), "n_steps": (128, 512)}),
        ("keep-updates", {"n_envs": (8, 2), "batch_size": (64, 16), "n_timesteps": (100_000, 25_000)}),
        ("sqrt-lr", {"n_envs": (8, 2), "batch_size": (64, 16), "learning_rate": (1e-3, 5e-4)}),
        ("linear-lr", {"n_envs": (8, 2), "batch_size": (64, 16), "learning_rate": (1e-3, 2.5e-4)}),
    ],
)
def test_policies_in_sb3(policy: PolicyName, expected: dict[str, Any]) -> None:
    before = copy.deepcopy(SB3)
    result = rescale(SB3, "sb3", 2, policy=policy)
    assert before == SB3, "the input is not modified"
    assert changed(result) == expected
    assert result.config == SB3 | {name: after for name, (_, after) in expected.items()}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("envs-only", {}),
        ("keep-minibatch", {"algorithm.num_mini_batches": (4, 1), "max_iterations": (1500, 6000)}),
        ("keep-num-minibatches", {"max_iterations": (1500, 6000)}),
        ("keep-rollout", {"num_steps_per_env": (24, 96)}),
        ("keep-updates", {}),
        ("sqrt-lr", {"max_iterations": (1500, 6000), "algorithm.learning_rate": (1e-3, 5e-4)}),
    ],
)
def test_policies_in_rsl_rl(policy: PolicyName, expected: dict[str, Any]) -> None:
    result = rescale(RSL_RL, "rsl_rl", 1024, policy=policy)
    assert changed(result) == {"num_envs": (4096, 1024)} | expected
    adaptive = any("adapted to the KL" in note for note in result.notes)
    assert adaptive == (policy == "sqrt-lr")


def test_every_policy_is_an_argument_and_keeps_what_it_says() -> None:
    assert set(get_args(PolicyName)) == set(POLICIES)
    before = rescale(SB3, "sb3", 8).plan
    kept = {
        "keep-minibatch": ("minibatch_size", "num_steps", "actual_timesteps"),
        "keep-num-minibatches": ("num_minibatches", "num_steps"),
        "keep-rollout": ("rollout_size", "minibatch_size", "gradient_steps", "num_updates"),
        "keep-updates": ("num_updates", "gradient_steps", "num_minibatches"),
        "sqrt-lr": ("num_minibatches", "num_steps"),
        "linear-lr": ("num_minibatches", "num_steps"),
    }
    for policy, names in kept.items():
        after = rescale(SB3, "sb3", 4, policy=policy).plan  # type: ignore[arg-type]
        for name in names:
            old, new = getattr(before, name), getattr(after, name)
            assert abs(new - old) <= (before.rollout_size if name == "actual_timesteps" else 0), (policy, name)


@pytest.mark.parametrize(
    ("dialect", "policy"),
    [
        ("sb3", "keep-minibatch"),
        ("sbx", "keep-minibatch"),
        ("cleanrl", "keep-num-minibatches"),
        ("maniskill", "keep-num-minibatches"),
        ("purejaxrl", "keep-num-minibatches"),
        ("stoix", "keep-num-minibatches"),
        ("rsl_rl", "keep-updates"),
        ("skrl", "keep-updates"),
        ("rllib", "keep-rollout"),
        ("brax", "keep-rollout"),
    ],
)
def test_what_changing_the_environments_only_is(dialect: str, policy: PolicyName) -> None:
    """The table of docs/rescale.md."""
    sizes = {"n_envs": 64, "n_steps": 64, "batch_size": 512, "n_epochs": 4, "n_timesteps": 64 * 64 * 100}
    config = rollshape.translate(sizes, "sb3", dialect).config
    only = rescale(config, dialect, 16, policy="envs-only")
    assert only.config == rescale(config, dialect, 16, policy=policy).config
    assert len(only.changes) == only.plan.num_envs // 16


def test_reasons_name_the_size_that_is_kept() -> None:
    reasons = {change.key: change.reason for change in rescale(RSL_RL, "rsl_rl", 1024, policy="keep-minibatch").changes}
    assert reasons == {
        "num_envs": "requested",
        "algorithm.num_mini_batches": "keeps minibatch_size at 24,576",
        "max_iterations": "keeps total_timesteps at 147,456,000",
    }
    steps = rescale(SB3, "sb3", 3, policy="keep-rollout").changes[1]
    assert (steps.key, steps.after, steps.reason) == ("n_steps", 341, "rollout_size 1,023, near 1,024")
    rate = rescale(SB3, "sb3", 4, policy="sqrt-lr").changes[-1]
    assert rate.reason == "× √(32 / 64), the change of minibatch_size"


def test_what_the_library_refuses_becomes_the_nearest_that_it_accepts() -> None:
    config = {"num_actors": 64, "horizon_length": 16, "minibatch_size": 256, "mini_epochs": 4, "learning_rate": 3e-4}
    result = rescale(config, "rl_games", 17, policy="envs-only")
    assert 17 * 16 % result.config["minibatch_size"] == 0
    assert [change.key for change in result.changes] == ["num_actors", "minibatch_size"]
    assert result.changes[1].reason == "nearest divisor of 272 to 256"


def test_the_number_of_environments_may_be_outside_the_config() -> None:
    config = {"params": {"config": {"horizon_length": 16, "minibatch_size": 512, "mini_epochs": 4}}}
    with pytest.raises(RequestError) as error:
        rescale(config, "isaaclab", 32)
    assert "--from-num-envs" in error.value.fix
    result = rescale(config, "isaaclab", 16, from_num_envs=64, policy="keep-minibatch")
    assert result.changes[0].key == "num_envs"
    assert "not in the config" in result.changes[0].reason
    assert result.config["params"]["config"]["minibatch_size"] == 256, "the whole rollout"


def test_other_numbers_of_processes() -> None:
    """RSL-RL counts per process: with two GPUs and the same config, twice the environments and minibatch size."""
    same = rescale(RSL_RL, "rsl_rl", world_size=2, policy="envs-only")
    assert changed(same) == {"world_size": (1, 2)}
    assert (same.plan.num_envs, same.plan.minibatch_size) == (8192, 49152)
    kept = rescale(RSL_RL, "rsl_rl", world_size=2, policy="keep-minibatch")
    assert changed(kept) == {
        "world_size": (1, 2), "algorithm.num_mini_batches": (4, 8), "max_iterations": (1500, 750),
    }  # fmt: skip
    assert kept.plan.minibatch_size == 24576
    rate = rescale(RSL_RL, "rsl_rl", world_size=1, from_world_size=4, policy="linear-lr")
    assert changed(rate)["algorithm.learning_rate"] == (1e-3, 2.5e-4)
    split = rescale(RSL_RL, "rsl_rl", 4096, world_size=4, policy="keep-minibatch")
    assert changed(split) == {"world_size": (1, 4), "num_envs": (4096, 1024)}, "the same run on four GPUs"
    with pytest.raises(RequestError, match="4 were requested"):
        rescale(SB3, "sb3", world_size=4)
    with pytest.raises(RequestError, match="cannot be divided evenly"):
        rescale(RSL_RL, "rsl_rl", 4097, world_size=4)
    with pytest.raises(RequestError, match="another number"):
        rescale(RSL_RL, "rsl_rl")


def test_schedules_keep_their_form_and_other_rates_are_refused() -> None:
    config = SB3 | {"learning_rate": "lin_0.001"}
    assert rescale(config, "sb3", 2, policy="sqrt-lr").config["learning_rate"] == "lin_0.0005"
    with pytest.raises(RequestError, match="not a number"):
        rescale(SB3 | {"learning_rate": "cosine"}, "sb3", 2, policy="sqrt-lr")
    stoix = {"arch.total_num_envs": 64, "system.rollout_length": 16, "system.actor_lr": 4e-4, "system.critic_lr": 2e-4}
    scaled = rescale(stoix, "stoix", 16, policy="linear-lr").config
    assert (scaled["system.actor_lr"], scaled["system.critic_lr"]) == (1e-4, 5e-5)


def test_a_config_that_does_not_work_is_refused() -> None:
    config = {"num_actors": 64, "horizon_length": 16, "minibatch_size": 300, "mini_epochs": 4}
    with pytest.raises(RequestError, match="rl_games rejects"):
        rescale(config, "rl_games", 32)
    with pytest.raises(RequestError) as error:
        rescale(SB3, "sb3", 0)
    assert error.value.rule == "whole-number"
    with pytest.raises(RequestError, match="policy"):
        rescale(SB3, "sb3", 4, policy="keep-batch")  # type: ignore[arg-type]


def test_the_same_number_changes_nothing() -> None:
    for policy in ("auto", *POLICIES):
        result = rescale(SB3, "sb3", 8, policy=policy)  # type: ignore[arg-type]
        assert result.changes == ()
        assert result.config == SB3


def test_comments_are_kept_and_pyyaml_reads_the_same() -> None:
    text = "n_envs: 8 # fits\nn_steps: 128\nbatch_size: 64\nlearning_rate: 0.00001 # tuned\n"
    file = parse(text)
    result = rescale(file.values, "sb3", 2, policy="sqrt-lr")
    edited = edit(file, result.edits)
    assert edited == "n_envs: 2 # fits\nn_steps: 128\nbatch_size: 16\nlearning_rate: 5.0e-06 # tuned\n"
    assert yaml.safe_load(edited) == result.config


def test_the_document_is_json() -> None:
    document = json.loads(json.dumps(rollshape.rescale(SB3, "sb3", 4).to_dict(), allow_nan=False))
    assert set(document) == {"config", "policy", "changes", "plan", "evidence", "notes"}
    assert document["policy"] in POLICIES
    assert document["plan"]["num_envs"] == 4


def test_evidence_is_of_the_nearest_factor_on_the_same_side() -> None:
    assert find_evidence(64, 32).factor == 0.5
    assert find_evidence(64, 60).factor == 0.5
    assert find_evidence(64, 1).factor == 0.125
    assert find_evidence(64, 20).factor == 0.25
    assert find_evidence(64, 65).factor == find_evidence(64, 6400).factor == 4
    assert find_evidence(64, 64).factor is None
    assert "num_envs × 4, the nearest that was measured to × 2 (" in find_evidence(64, 128).table()[0]
    assert "num_envs × 0.5 (" in find_evidence(64, 32).table()[0]


def test_the_evidence_is_that_of_the_study() -> None:
    for factor in (0.125, 0.25, 0.5, 4):
        evidence = find_evidence(64, int(64 * factor))
        assert evidence.factor == factor
        assert len(evidence.tasks) >= 4
        assert evidence.seeds == 10
        assert evidence.command.startswith("rollshape study rescale ")
        assert set(evidence.policies) == set(POLICIES) - {"envs-only"}
        assert evidence.best in evidence.tied
        assert evidence.policies[evidence.best]["regret"][0] == 0
        assert evidence.policies["keep-updates"]["regret"] is None, "it has another budget"
        assert not any(POLICIES[name].keeps_updates for name in evidence.tied)


def test_auto_chooses_a_tied_policy_with_the_fewest_changes() -> None:
    for config, dialect in ((SB3, "sb3"), (RSL_RL, "rsl_rl")):
        for factor in (0.5, 4):
            count = int(read(config, DIALECTS[dialect]).recipe.num_envs * factor)
            result = rescale(config, dialect, count)
            tied = result.evidence.tied
            assert result.policy in tied
            fewest = min(len(rescale(config, dialect, count, policy=name).changes) for name in tied)  # type: ignore[arg-type]
            assert len(result.changes) == fewest


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(sorted(DIALECTS)), st.sampled_from(sorted(POLICIES)))
def test_any_config_of_any_dialect(seed: int, name: str, policy: PolicyName) -> None:
    """Every result is read back by its library without complaint, or the request is refused with a reason."""
    rng = random.Random(seed)
    dialect = DIALECTS[name]
    config = random_config(rng, dialect)
    count = rng.choice((1, 2, 3, 7, 8, 16, 100, 1024))
    try:
        result = rescale(config, name, count, policy=policy)
    except RequestError as error:
        assert error.fix
        return
    recipe = read(result.config, dialect, num_envs=count).recipe
    assert not dialect.problem(recipe)
    plan = predict(dialect, recipe)
    assert plan.num_envs == result.plan.num_envs == count
    assert plan.split == result.plan.split
