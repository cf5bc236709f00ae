"""A config is recognized by its keys, and a plan is written for every library."""

import pytest

from rollshape.geometry.dialects import DIALECTS, translate
from rollshape.geometry.dialects.recognize import recognize
from rollshape.geometry.dialects.sources.load import parse_text
from rollshape.geometry.dialects.translate import write_plan
from rollshape.geometry.plan import plan

SIZES = {"num_envs": 8, "num_steps": 128, "num_minibatches": 4, "total_timesteps": 1_024_000}


@pytest.mark.parametrize("name", DIALECTS)
def test_what_was_written_for_a_library_is_recognized(name: str) -> None:
    config = translate(SIZES, "rollshape", name).config
    candidates = recognize(config)
    same = [entry for entry in candidates if entry.keys == candidates[0].keys]
    assert name in [entry.dialect for entry in same]
    assert next(entry for entry in same if entry.dialect == name).is_readable


@pytest.mark.parametrize(
    "name", [name for name in DIALECTS if name != "rollshape"]
)  # which keeps the names it was given
def test_a_plan_is_written_as_its_config_is_translated(name: str) -> None:
    """With the same hyperparameters, both ways give the same config."""
    direct = write_plan(plan(**SIZES), name, {})
    assert direct.config == translate(SIZES, "rollshape", name).config
    assert direct.plan.num_updates == translate(SIZES, "rollshape", name).plan.num_updates


def test_a_plan_with_agents_and_processes_is_written_in_the_sizes_of_the_library() -> None:
    result = plan(num_envs=8, num_steps=16, world_size=2, num_agents=2)
    config = write_plan(result, "rsl_rl", {}).config
    assert write_plan(result, "rsl_rl", {}).plan.num_envs == 16
    assert config["num_steps_per_env"] == 16
    assert "num_agents: 2 in rollshape, 1 in rsl_rl" in write_plan(result, "rsl_rl", {}).not_preserved


def test_a_config_that_cannot_be_read_is_still_named() -> None:
    """Its keys are those of rl_games, even if a size of it refers to another file."""
    text = "params:\n  config:\n    horizon_length: ${elsewhere:steps}\n    minibatch_size: 64\n    mini_epochs: 4\n"
    values = parse_text(text, "train.yaml").values
    [first, *_] = recognize(values)
    assert first.dialect.endswith("rl_games")
    assert not first.is_readable


def test_text_without_any_key_has_no_candidate() -> None:
    assert recognize({"a": {"b": 1}}) == []
