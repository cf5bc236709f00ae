"""`plan --algo grpo`: any subset of the sizes gives a legal plan, or the nearest one."""

import itertools
import random
from typing import Any

import pytest

from rollshape.errors import RequestError
from rollshape.geometry.completions import CompletionSizes
from rollshape.geometry.plan import Plan, plan
from rollshape.geometry.rules import PAGES


def sizes_of(result: Plan) -> CompletionSizes:
    assert result.completions is not None
    return result.completions


def test_the_arithmetic() -> None:
    result = plan(
        algo="grpo", num_prompts=32, num_generations=8, num_minibatches=4, world_size=4, microbatch_size=2,
        num_epochs=2, num_updates=10,
    )  # fmt: skip
    assert (result.rollout_size, result.minibatch_size, result.num_minibatches) == (256, 64, 4)
    assert sizes_of(result).gradient_accumulation_steps == 64 // (4 * 2)
    assert result.gradient_steps_per_update == 2 * 4
    assert (result.gradient_steps, result.total_timesteps) == (80, 2560)
    assert (result.num_envs, result.num_steps) == (256, 1), "a completion is an environment with one step"
    assert Plan.from_dict(result.to_dict()) == result


def test_what_is_left_out_is_chosen() -> None:
    result = plan(algo="grpo")
    assert (sizes_of(result).num_prompts, sizes_of(result).num_generations) == (32, 8)
    assert result.gradient_steps_per_update == 1, "on-policy"
    assert set(result.chosen) == {"num_prompts", "num_generations", "minibatch_size", "microbatch_size"}
    assert sizes_of(plan(algo="rloo")).num_generations == 4


def test_every_combination_of_sizes_is_planned_or_answered() -> None:
    """Four redundant relations: a plan, a contradiction with the value that agrees, or the nearest legal sizes."""
    chance = random.Random(0)
    ranges = {
        "num_prompts": 100, "num_generations": 15, "rollout_size": 500, "minibatch_size": 300, "num_minibatches": 8,
        "microbatch_size": 16, "gradient_accumulation_steps": 8, "world_size": 9,
    }  # fmt: skip
    outcomes = {"planned": 0, "completion-split": 0, "contradiction": 0}
    for chosen in itertools.product((False, True), repeat=len(ranges)):
        for _ in range(4):
            given = {
                name: chance.randint(1 + (name == "num_generations"), most)
                for (name, most), is_given in zip(ranges.items(), chosen, strict=True)
                if is_given
            }
            outcomes[answer(given)] += 1
    assert min(outcomes.values()) > 50, outcomes


def answer(given: dict[str, Any]) -> str:
    try:
        check(plan(algo="grpo", **given), given)
    except RequestError as error:
        assert error.rule in PAGES
        assert error.alternatives, "the nearest legal values"
        if error.rule == "completion-split":
            check(plan(algo="grpo", **error.alternatives[0]), error.alternatives[0])
            repaired = plan(algo="grpo", on_remainder="fix", **given)
            check(repaired, {})
            assert repaired.repaired
        return error.rule
    return "planned"


def check(result: Plan, given: dict[str, Any]) -> None:
    """All relations hold, and every value that was given is kept."""
    sizes = sizes_of(result)
    assert sizes.num_prompts * sizes.num_generations == result.rollout_size
    assert result.num_minibatches * result.minibatch_size == result.rollout_size
    assert result.world_size * sizes.microbatch_size * sizes.gradient_accumulation_steps == result.minibatch_size
    document = result.to_dict()
    assert {name: document[name] for name in given} == given


def test_a_budget_from_the_dataset() -> None:
    result = plan(algo="grpo", num_prompts=32, dataset_size=7473, data_epochs=2)
    assert result.num_updates == 2 * (7473 // 32)
    with pytest.raises(RequestError, match="less than one update") as caught:
        plan(algo="grpo", num_prompts=32, dataset_size=10)
    assert caught.value.rule == "zero-updates"


@pytest.mark.parametrize(
    ("given", "rule", "words"),
    [
        ({"num_generations": 1}, "group-size", "not enough"),
        ({"num_prompts": 4, "num_generations": 8, "rollout_size": 33}, "contradiction", "4 prompts × 8"),
        ({"num_prompts": 5, "num_generations": 6, "world_size": 4}, "completion-split", "30 completions"),
        ({"num_envs": 4}, "argument", "no field 'num_envs'"),
        ({"num_prompts": 0}, "whole-number", "at least 1"),
        ({"num_prompts": 2**40}, "whole-number", "at most"),
    ],
)
def test_errors(given: dict[str, Any], rule: str, words: str) -> None:
    with pytest.raises(RequestError, match=words) as caught:
        plan(algo="grpo", **given)
    assert caught.value.rule == rule


def test_findings() -> None:
    split_groups = plan(algo="grpo", num_prompts=6, num_generations=8, minibatch_size=12, microbatch_size=4)
    assert [finding.rule for finding in split_groups.findings] == ["split-groups", "stale-completions"]
    assert plan(algo="grpo", num_prompts=6).findings == ()
