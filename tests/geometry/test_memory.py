import pytest

from rollshape.errors import RequestError
from rollshape.formatting import format_bytes
from rollshape.geometry.memory import network_size
from rollshape.geometry.plan import plan
from rollshape.geometry.request import Request


def test_a_rollout_of_pictures_weighs_its_pixels() -> None:
    made = plan(num_envs=8, num_steps=128, obs_shape=(84, 84, 4), obs_dtype="uint8", action_dim=6)
    assert made.memory is not None
    # 84·84·4 bytes of picture, 4 of action, six floats and two flags a sample
    assert made.memory.rollout_bytes == 1024 * (84 * 84 * 4 + 4 + 24 + 2)
    assert made.memory.peak_bytes > made.memory.rollout_bytes
    wide = plan(num_envs=8, num_steps=128, obs_shape=(84, 84, 4), obs_dtype="float32", action_dim=6)
    assert wide.memory is not None
    assert wide.memory.rollout_bytes > 3.9 * made.memory.rollout_bytes


def test_network_sizes_by_hand() -> None:
    # 4 → 64 → 64 → 2 and 4 → 64 → 64 → 1, weights and biases
    actor = (4 + 1) * 64 + (64 + 1) * 64 + (64 + 1) * 2
    critic = (4 + 1) * 64 + (64 + 1) * 64 + (64 + 1) * 1
    assert network_size(Request(obs_shape=(4,)), 2, 1) == (actor + critic, 2 * 128 + 3)
    # the usual encoder of 84×84×4: 20×20×32, 9×9×64, 7×7×64, then 512
    encoder = (8 * 8 * 4 + 1) * 32 + (4 * 4 * 32 + 1) * 64 + (3 * 3 * 64 + 1) * 64 + (7 * 7 * 64 + 1) * 512
    heads = (512 + 1) * (6 + 1)
    for shape in ((84, 84, 4), (4, 84, 84)):
        assert network_size(Request(obs_shape=shape), 6, 1)[0] == encoder + heads


def test_environments_weigh() -> None:
    made = plan(num_envs=512, num_steps=4, env_bytes=15_000_000)
    assert made.memory is not None
    assert made.memory.env_bytes == 512 * 15_000_000


def test_more_than_the_machine_has_is_an_error_with_a_shape_that_fits() -> None:
    with pytest.raises(RequestError, match="of memory; this machine has") as caught:
        plan(num_envs=2**20, num_steps=128, obs_shape=(84, 84, 4), obs_dtype="uint8")
    assert caught.value.rule == "memory"
    smaller = plan(**caught.value.alternatives[0], obs_shape=(84, 84, 4), obs_dtype="uint8")
    assert smaller.num_envs < 2**20


def test_most_of_the_memory_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    from rollshape.geometry import memory
    from rollshape.geometry.machine import Machine

    monkeypatch.setattr(memory, "machine", lambda: Machine(cores=2, memory_bytes=500_000_000))
    made = plan(num_envs=80, num_steps=1, env_bytes=1_000_000)
    assert [finding.severity for finding in made.findings if finding.rule == "memory-share"] == ["warn"]


def test_without_an_observation_it_says_so() -> None:
    made = plan(num_envs=8, num_steps=8)
    assert made.memory is not None
    assert not made.memory.observation_known


def test_format_bytes() -> None:
    assert [format_bytes(n) for n in (999, 6_291_456, 15e6, 25.3e9)] == ["999 B", "6.29 MB", "15 MB", "25.3 GB"]
