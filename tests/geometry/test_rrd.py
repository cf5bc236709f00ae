import pytest

from rollshape.errors import RequestError
from rollshape.geometry.plan import plan


def test_the_papers_plan() -> None:
    made = plan(
        algo="rrd", transition_batch_size=256, train_batches=100, rrd_batch_size=256, rrd_sample_size=64,
        total_timesteps=3_000_000,
    )  # fmt: skip
    assert made.replay is not None
    assert made.replay.num_subsequences == 4
    assert made.replay.updates_per_step == 1.0
    assert made.num_updates == 30_000
    assert made.gradient_steps == (30_000 - 100) * 100  # none in the 10,000 steps of warm-up
    assert made.to_dict()["num_subsequences"] == 4
    assert not [finding for finding in made.findings if finding.severity != "info"]


@pytest.mark.parametrize(
    ("preset", "sizes"),
    [
        ("rrd-vector", (256, 25, 256, 64, 4)),
        ("rrd-image", (32, 64, 32, 32, 1)),
        ("rrd-paper", (256, 100, 256, 64, 4)),
    ],
)
def test_presets(preset: str, sizes: tuple[int, ...]) -> None:
    replay = plan(algo="rrd", preset=preset).replay
    assert replay is not None
    assert sizes == (
        replay.transition_batch_size, replay.train_batches, replay.rrd_batch_size, replay.rrd_sample_size,
        replay.num_subsequences,
    )  # fmt: skip


def test_a_flag_overrides_its_preset() -> None:
    replay = plan(algo="rrd", preset="rrd-vector", train_batches=50).replay
    assert replay is not None
    assert replay.train_batches == 50


def test_zero_subsequences_and_a_dropped_remainder_are_errors_with_a_fix() -> None:
    with pytest.raises(RequestError, match="zero subsequences") as zero:
        plan(algo="rrd", rrd_batch_size=32, rrd_sample_size=64)
    with pytest.raises(RequestError, match="drops 44 of 300") as dropped:
        plan(algo="rrd", rrd_batch_size=300, rrd_sample_size=64)
    for caught in (zero, dropped):
        assert caught.value.rule == "subsequences"
        assert caught.value.alternatives
        for alternative in caught.value.alternatives:
            assert plan(**alternative).replay is not None
    assert plan(algo="rrd", rrd_batch_size=300, rrd_sample_size=64, on_remainder="fix").repaired


def test_pictures_traffic_is_not_peak() -> None:
    made = plan(algo="rrd", preset="rrd-image", obs_shape=(256, 256, 3), obs_dtype="uint8", buffer_size=1000)
    memory = made.memory
    assert memory is not None
    picture = 256 * 256 * 3
    assert 32 * picture == pytest.approx(6.3e6, rel=0.01)
    assert memory.minibatch_bytes == pytest.approx(2 * 32 * 2 * picture, rel=0.001)  # two batches, with successors
    assert memory.traffic_bytes == 64 * memory.minibatch_bytes
    assert memory.replay_bytes == pytest.approx(1000 * picture, rel=0.001)  # an observation is stored once
    held = (
        "replay", "minibatch", "parameter", "optimizer", "gradient", "activation", "env", "rollout", "copy", "library",
        "program", "compiler",
    )  # fmt: skip
    assert memory.peak_bytes == sum(getattr(memory, f"{part}_bytes") for part in held)  # traffic passes by


def test_a_subsequence_longer_than_an_episode_is_a_finding() -> None:
    rules = [finding.rule for finding in plan(algo="rrd", episode_length=50).findings]
    assert "rrd-sample-length" in rules
    assert "rrd-sample-length" not in [finding.rule for finding in plan(algo="rrd", episode_length=64).findings]


def test_no_update_within_the_budget() -> None:
    with pytest.raises(RequestError, match="ends before the first gradient step") as caught:
        plan(algo="rrd", total_timesteps=10_000)
    least = caught.value.alternatives[0]["total_timesteps"]
    assert plan(algo="rrd", total_timesteps=least).gradient_steps == 25
    with pytest.raises(RequestError):
        plan(algo="rrd", total_timesteps=least - 1)


def test_a_replay_that_does_not_fit_is_refused() -> None:
    with pytest.raises(RequestError) as caught:
        plan(algo="rrd", obs_shape=(256, 256, 3), obs_dtype="uint8", buffer_size=10**7)
    assert caught.value.rule == "memory"
    assert plan(algo="rrd", obs_shape=(256, 256, 3), obs_dtype="uint8", **caught.value.alternatives[0])


def test_batches_of_an_iteration_that_do_not_fit_are_refused() -> None:
    with pytest.raises(RequestError, match="Largest part: copy") as caught:  # they are drawn before the first one
        plan(algo="sac", train_batches=10**12)
    assert caught.value.rule == "memory"
    assert plan(algo="sac", **caught.value.alternatives[0]).num_minibatches > 1000


def test_on_policy_sizes_contradict_rrd() -> None:
    with pytest.raises(RequestError, match="on-policy size"):
        plan(algo="rrd", num_epochs=4)
    with pytest.raises(RequestError, match="not a multiple of num_envs"):
        plan(algo="rrd", num_envs=3)
