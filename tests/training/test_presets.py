import pytest

from rollshape.envs.registry import FUNCTIONAL
from rollshape.errors import RequestError
from rollshape.training.presets import PRESETS, with_preset
from rollshape.training.spec import Spec


@pytest.mark.parametrize("env", sorted(PRESETS))
def test_every_preset_is_a_legal_plan_with_a_source(env: str) -> None:
    spec, preset = with_preset(Spec(env=env))
    assert env in FUNCTIONAL
    assert preset.source
    assert spec.plan().num_envs == preset.settings["num_envs"]


def test_a_value_of_the_users_wins() -> None:
    spec, _ = with_preset(Spec(env="CartPole-v1", gamma=0.5, num_envs=16))
    assert (spec.gamma, spec.num_envs, spec.num_steps) == (0.5, 16, 32)


def test_what_has_no_preset_says_what_has() -> None:
    for spec in (Spec(env="FrozenLake-v1"), Spec(algo="a2c")):
        with pytest.raises(RequestError, match="no preset") as caught:
            with_preset(spec)
        assert "CartPole-v1" in caught.value.fix
