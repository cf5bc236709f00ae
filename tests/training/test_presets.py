import pytest

from rollshape.envs.registry import FUNCTIONAL
from rollshape.errors import RequestError
from rollshape.training.presets import PRESETS, with_preset
from rollshape.training.spec import Spec


@pytest.mark.parametrize("env", sorted(env for algo, env in PRESETS if algo == "ppo"))
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


def test_rrd_has_its_papers_settings_and_sizes_by_what_is_seen() -> None:
    spec, preset = with_preset(Spec(algo="rrd", hidden_sizes=(32,)))
    assert "2022" in preset.source
    replay = spec.plan().replay
    assert replay is not None
    assert (replay.train_batches, replay.buffer_size, spec.hidden_sizes) == (100, 1_000_000, (32,))
    plain = Spec(algo="rrd")
    for shape, sizes in (((17,), (256, 25, 4)), ((84, 84, 3), (32, 64, 1))):
        replay = plain.plan(obs_shape=shape, obs_dtype="uint8").replay
        assert replay is not None
        assert (replay.transition_batch_size, replay.train_batches, replay.num_subsequences) == sizes
