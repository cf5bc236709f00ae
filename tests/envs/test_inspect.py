import gymnasium
import pytest

from rollshape.envs.inspect import inspect_environment
from rollshape.errors import RequestError
from rollshape.geometry.plan import plan


def test_cartpole_and_pendulum() -> None:
    facts = inspect_environment("CartPole-v1")
    assert facts["obs_shape"] == (4,)
    assert facts["obs_dtype"] == "float32"
    assert facts["action_kind"] == "discrete"
    assert facts["action_dim"] == 2
    assert facts["episode_length"] == 500
    assert facts["env_bytes"] == 16  # four floats of state
    assert plan(num_envs=8, num_steps=8, **facts).memory is not None
    host = inspect_environment("gymnasium:CartPole-v1")
    measured = ("env_bytes", "library_bytes")
    assert {name: host[name] for name in facts if name not in measured} == {
        name: value for name, value in facts.items() if name not in measured
    }
    assert host["host_envs"]
    pendulum = inspect_environment("gymnasium:Pendulum-v1")
    assert (pendulum["action_kind"], pendulum["action_dim"]) == ("continuous", 1)


class Heavy(gymnasium.Env[int, int]):
    """Takes 8 MB, to be found by the measurement."""

    observation_space = gymnasium.spaces.Discrete(5)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: object = None) -> tuple[int, dict[str, object]]:  # noqa: ARG002
        self.weight = bytearray(b"x" * 8_000_000)
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, object]]:  # noqa: ARG002
        return 0, 0.0, True, False, {}


class Broken(Heavy):
    def reset(self, *, seed: int | None = None, options: object = None) -> tuple[int, dict[str, object]]:  # noqa: ARG002
        raise ZeroDivisionError("by design")


def test_the_weight_of_an_environment_is_measured() -> None:
    gymnasium.register("RollshapeHeavy-v0", entry_point=Heavy)
    assert inspect_environment("RollshapeHeavy-v0")["env_bytes"] == pytest.approx(8e6, rel=0.25)


def test_failures_are_one_message() -> None:
    gymnasium.register("RollshapeBroken-v0", entry_point=Broken)
    for name, word in (("RollshapeBroken-v0", "by design"), ("NoSuch-v0", "NoSuch"), ("gymnax:X", "gymnax")):
        with pytest.raises(RequestError, match=word) as caught:
            inspect_environment(name)
        assert caught.value.rule == "environment"
        assert "\n" not in caught.value.message
