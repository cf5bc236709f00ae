"""Isaac Lab ships Cartpole-Direct for four libraries: the golden fixture."""

from pathlib import Path

import pytest

from rollshape.geometry.dialects import translate
from rollshape.geometry.dialects.sources.yamlfile import parse

FIXTURES = Path(__file__).parent / "isaaclab"
NUM_ENVS = 4096


@pytest.mark.parametrize(
    ("flavour", "steps_per_update", "updates", "frames", "value_factor"),
    [
        ("rl_games", 64, 150, 19_660_800, 2.0),
        ("skrl", 64, 150, 19_660_800, 2.0),
        ("rsl_rl", 20, 150, 9_830_400, 1.0),
        ("sb3", 320, 16, 1_048_576, 1.0),
    ],
)
def test_the_cartpole_quartet(
    flavour: str, steps_per_update: int, updates: int, frames: int, value_factor: float
) -> None:
    config = parse((FIXTURES / f"{flavour}.yaml").read_text()).values
    result = translate(config, "isaaclab", "rollshape", num_envs=NUM_ENVS)
    assert result.plan.gradient_steps_per_update == steps_per_update
    assert result.plan.num_updates == updates
    assert result.plan.actual_timesteps == frames
    assert result.config["value_coef"] == value_factor
    assert result.config["gamma"] == 0.99


@pytest.mark.parametrize("flavour", ["rl_games", "skrl", "rsl_rl", "sb3"])
def test_each_flavour_translates_to_itself_in_the_files_own_layout(flavour: str) -> None:
    config = parse((FIXTURES / f"{flavour}.yaml").read_text()).values
    result = translate(config, "isaaclab", "isaaclab", num_envs=NUM_ENVS)
    again = translate(result.config, f"isaaclab:{flavour}", f"isaaclab:{flavour}")
    assert again.config == result.config
    assert again.plan.gradient_steps == result.plan.gradient_steps


def test_n_minibatches_overrides_batch_size() -> None:
    config = {"n_steps": 16, "batch_size": 4096, "n_minibatches": 4}
    assert translate(config, "isaaclab:sb3", "sb3", num_envs=1024).config["batch_size"] == 4096
    assert translate(config, "isaaclab:sb3", "sb3", num_envs=512).config["batch_size"] == 2048
