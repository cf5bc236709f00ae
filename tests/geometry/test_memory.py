from typing import Any

import pytest

from rollshape.errors import RequestError
from rollshape.formatting import format_bytes
from rollshape.geometry.machine import Machine
from rollshape.geometry.memory import Memory
from rollshape.geometry.network import network_size
from rollshape.geometry.plan import plan
from rollshape.geometry.request import Request
from rollshape.geometry.rules import resources

CARTPOLE: dict[str, Any] = {
    "num_envs": 64, "num_steps": 128, "minibatch_size": 2048, "obs_shape": (4,), "action_dim": 2,
}  # fmt: skip


def test_a_rollout_of_pictures_weighs_its_pixels() -> None:
    made = plan(num_envs=8, num_steps=128, obs_shape=(84, 84, 4), obs_dtype="uint8", action_dim=6)
    assert made.memory is not None
    # 84·84·4 bytes of picture, 4 of action, seven numbers and two flags a sample
    assert made.memory.rollout_bytes == 1024 * (84 * 84 * 4 + 4 + 28 + 2)
    assert made.memory.peak_bytes > made.memory.rollout_bytes
    wide = plan(num_envs=8, num_steps=128, obs_shape=(84, 84, 4), obs_dtype="float32", action_dim=6)
    assert wide.memory is not None
    assert wide.memory.rollout_bytes > 3.9 * made.memory.rollout_bytes


def memory_of(**sizes: Any) -> Memory:
    memory = plan(**sizes).memory
    assert memory is not None
    return memory


def test_the_peak_is_the_sum_of_its_parts() -> None:
    for sizes in (CARTPOLE, {"algo": "rrd", "obs_shape": (3,), "action_kind": "continuous", "action_dim": 1}):
        memory = memory_of(**sizes)
        assert memory.peak_bytes == sum(
            size
            for name, size in memory.to_dict().items()
            if name.endswith("_bytes") and name not in ("peak_bytes", "traffic_bytes", "machine_bytes")
        )


def test_every_shard_has_the_network_its_moments_and_its_gradient() -> None:
    wide = CARTPOLE | {"hidden_sizes": (1024, 1024)}
    network = 4 * network_size(Request(obs_shape=(4,), hidden_sizes=(1024, 1024)), 2, 1).parameters
    one, two = (memory_of(**wide, num_shards=shards, microbatch_size=64) for shards in (1, 2))
    # Parameters, two moments; the parameters as a vector, the gradient, its sum over microbatches, Adam's step.
    assert (one.parameter_bytes, one.optimizer_bytes, one.gradient_bytes) == (network, 2 * network, 4 * network)
    assert (two.parameter_bytes, two.optimizer_bytes, two.gradient_bytes) == (
        2 * network, 4 * network, 8 * network,
    )  # fmt: skip
    whole = memory_of(**wide, num_shards=1, microbatch_size=2048)
    assert whole.gradient_bytes == 3 * network  # there is nothing to sum
    average = memory_of(**wide, num_shards=1, microbatch_size=2048, algo="ppo-ewma")
    assert (average.parameter_bytes, average.gradient_bytes) == (2 * network, 4 * network)
    assert memory_of(**wide, num_shards=1, microbatch_size=2048, target_kl=0.1).gradient_bytes == 5 * network


def test_activations_are_those_of_a_microbatch_with_gradient_and_transposed_input_of_one_layer() -> None:
    memory = memory_of(**CARTPOLE, hidden_sizes=(32, 64), num_shards=1, microbatch_size=128)
    assert memory.activation_bytes == 4 * 128 * (2 * (32 + 64) + 3 + 2 * (2 * 64))
    assert memory.minibatch_bytes == 2 * 2048 * (16 + 4 + 16)  # gathered, and cut into microbatches
    whole = memory_of(**CARTPOLE, num_shards=1, microbatch_size=2048)
    assert whole.minibatch_bytes == 2048 * (16 + 4 + 16)


def test_collecting_copies_the_rollout_unless_learning_needs_more() -> None:
    large = CARTPOLE | {"num_envs": 16384, "num_steps": 256, "minibatch_size": "auto"}
    sample, size = 16 + 4 + 28 + 2, 16384 * 256
    ppo = memory_of(**large, num_minibatches=64)
    learning = ppo.minibatch_bytes + ppo.gradient_bytes + ppo.activation_bytes
    assert ppo.rollout_bytes == size * sample
    assert ppo.copy_bytes + learning == size * (sample + 8)  # and a key for every step of an environment
    full = memory_of(**large, algo="a2c")
    learning = full.minibatch_bytes + full.gradient_bytes + full.activation_bytes
    assert full.minibatch_bytes == size * 36  # cut into microbatches, not gathered
    assert full.copy_bytes + learning == size * (sample + 8)
    normalized = memory_of(**large, num_minibatches=64, normalize_observations=True)
    assert normalized.rollout_bytes == size * (sample + 16)
    host = memory_of(**large, num_minibatches=64, host_envs=True)
    assert host.copy_bytes == size * (sample + 8)  # for the compiled program; the network evaluates a part at a time
    wide = memory_of(**CARTPOLE | {"num_envs": 8, "num_steps": 512}, host_envs=True, num_shards=1, microbatch_size=64)
    learning = wide.minibatch_bytes + wide.gradient_bytes + wide.activation_bytes
    assert wide.copy_bytes + learning == 4096 * (sample + 2 * 4 * 128)  # 4,096 rows of two layers


def test_the_compiler_counts_where_it_needs_more_than_the_run() -> None:
    small, large = memory_of(**CARTPOLE), memory_of(**CARTPOLE | {"num_envs": 65536, "num_steps": 256})
    assert small.peak_bytes == pytest.approx(580e6, rel=0.01)
    assert small.compiler_bytes > 200e6
    assert large.compiler_bytes == 0
    algos = ("a2c", "ppo", "sac", "rrd")
    peaks = [memory_of(algo=algo, num_envs=4, obs_shape=(4,)).compiler_bytes for algo in algos]
    assert peaks == sorted(peaks)
    assert memory_of(**CARTPOLE, library_bytes=10**8).peak_bytes == small.peak_bytes + 10**8


def test_network_sizes_by_hand() -> None:
    # 4 → 64 → 64 → 2 and 4 → 64 → 64 → 1, weights and biases
    actor = (4 + 1) * 64 + (64 + 1) * 64 + (64 + 1) * 2
    critic = (4 + 1) * 64 + (64 + 1) * 64 + (64 + 1) * 1
    assert network_size(Request(obs_shape=(4,)), 2, 1) == (actor + critic, 2 * 128 + 3, 2 * 64)
    # the usual encoder of 84×84×4: 20×20×32, 9×9×64, 7×7×64, then 512
    encoder = (8 * 8 * 4 + 1) * 32 + (4 * 4 * 32 + 1) * 64 + (3 * 3 * 64 + 1) * 64 + (7 * 7 * 64 + 1) * 512
    heads = (512 + 1) * (6 + 1)
    for shape in ((84, 84, 4), (4, 84, 84)):
        size = network_size(Request(obs_shape=shape), 6, 1)
        assert size.parameters == encoder + heads
        assert size.widest == 20 * 20 * 8 * 8 * 4  # the patches of the first convolution


def test_image_critics_share_an_encoder() -> None:
    images = memory_of(algo="sac", obs_shape=(10, 10, 4), action_dim=3)
    network = 4 * network_size(Request(obs_shape=(10, 10, 4)), 3).parameters
    assert images.parameter_bytes == 3 * network  # actor, critics, target critics
    vectors = memory_of(algo="sac", obs_shape=(3,), action_dim=3)
    network = 4 * network_size(Request(obs_shape=(3,)), 3).parameters
    assert vectors.parameter_bytes == 5 * network
    assert vectors.optimizer_bytes == 2 * 3 * network


def test_environments_weigh() -> None:
    made = plan(num_envs=512, num_steps=4, env_bytes=15_000_000)
    assert made.memory is not None
    assert made.memory.env_bytes == 512 * 15_000_000
    scored = memory_of(num_envs=8, num_steps=4, env_bytes=1_000_000, host_envs=True)
    assert scored.env_bytes == (8 + 16) * 1_000_000  # a score creates 16 more


def test_an_estimate_of_an_older_version_is_read() -> None:
    memory = memory_of(**CARTPOLE)
    document = memory.to_dict()
    assert Memory.from_dict(document) == memory
    old = {name: size for name, size in document.items() if name not in ("gradient_bytes", "compiler_bytes")}
    assert Memory.from_dict(old).gradient_bytes == 0


def test_more_than_the_machine_has_is_an_error_with_a_shape_that_fits() -> None:
    with pytest.raises(RequestError, match="of memory; this machine has") as caught:
        plan(num_envs=2**20, num_steps=128, obs_shape=(84, 84, 4), obs_dtype="uint8")
    assert caught.value.rule == "memory"
    smaller = plan(**caught.value.alternatives[0], obs_shape=(84, 84, 4), obs_dtype="uint8")
    assert smaller.num_envs < 2**20


def test_most_of_the_available_memory_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def finding(available: int | None) -> list[str]:
        monkeypatch.setattr(resources, "available_memory", lambda: available)
        made = plan(num_envs=150, num_steps=1, env_bytes=1_000_000)
        return [finding.message for finding in made.findings if finding.rule == "memory-share"]

    assert finding(10**10) == finding(None) == []
    assert finding(10**9) == ["The run needs 730 MB, 73% of the 1 GB of memory that are available now."]
    assert finding(0)


def test_where_the_memory_is_unknown_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rollshape.geometry.memory.machine", lambda: Machine(cores=1, memory_bytes=None))
    memory = memory_of(num_envs=2**20, num_steps=128, obs_shape=(84, 84, 4))
    assert memory.peak_bytes > 10**12
    assert memory.machine_bytes is None


def test_without_an_observation_it_says_so() -> None:
    made = plan(num_envs=8, num_steps=8)
    assert made.memory is not None
    assert not made.memory.observation_known


def test_format_bytes() -> None:
    assert [format_bytes(n) for n in (999, 6_291_456, 15e6, 25.3e9)] == ["999 B", "6.29 MB", "15 MB", "25.3 GB"]
