"""Metrics of rollouts and minibatches, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rollshape.integrations.rollout import EndedEpisode, EpisodeTracker, RecordedRollout, rollout_metrics
from rollshape.integrations.update_log import UpdateLog


def rollout(rewards: list[list[float]], ended: list[list[int]], **changes: object) -> RecordedRollout:
    array = np.array(rewards, float)
    fields = {"values": array * 0, "advantages": array, "returns": array, "ended": np.array(ended, bool)}
    return RecordedRollout(rewards=array, **{**fields, **changes})  # type: ignore[arg-type]


def test_episodes_go_on_across_rollouts() -> None:
    tracker = EpisodeTracker()
    episodes, phases = tracker.add(rollout([[1, 1], [2, 1], [4, 1]], [[0, 0], [1, 0], [0, 0]]))
    assert episodes == [EndedEpisode(3.0, 2)]
    assert phases.tolist() == [[0, 0], [1, 1], [0, 2]]
    episodes, phases = tracker.add(rollout([[8, 1], [16, 1], [32, 1]], [[1, 0], [1, 1], [0, 0]]))
    assert episodes == [EndedEpisode(12.0, 2), EndedEpisode(16.0, 1), EndedEpisode(5.0, 5)]
    assert phases.tolist() == [[1, 3], [0, 4], [0, 0]]


def test_metrics_of_a_rollout() -> None:
    observations = np.array([[[3.0, 0.0, 1.0]], [[4.0, 0.0, 1.0]]])
    metrics = rollout_metrics(
        rollout([[3], [4]], [[1], [1]], truncated=np.array([[0], [1]], bool), observations=observations),
        EpisodeTracker(horizon=16),
    )
    assert metrics["episodes"] == 2
    assert metrics["episodic_return"] == 3.5
    assert metrics["episodic_return_std"] == pytest.approx(math.sqrt(0.5))
    assert metrics["timeout_share"] == 0.5
    assert metrics["reward_rms"] == pytest.approx(math.sqrt(12.5))
    assert metrics["return_std"] == 0.5
    assert metrics["explained_variance"] == 0
    assert metrics["observation_scale"] == pytest.approx(math.sqrt(12.5))
    assert metrics["observation_scale_ratio"] == pytest.approx(math.sqrt(12.5))  # the constant zero does not count
    assert metrics["reset_phase_entropy"] == 0


def test_reported_episodes_take_precedence() -> None:
    episodes = [EndedEpisode(100.0, 1, True), EndedEpisode(50.0, 3, False)]
    metrics = rollout_metrics(rollout([[3], [4]], [[1], [1]], episodes=episodes), EpisodeTracker())
    assert (metrics["episodic_return"], metrics["success_rate"], metrics["timeout_share"]) == (75.0, 0.5, None)


def test_phases_that_are_spread_evenly_have_entropy_one() -> None:
    assert EpisodeTracker(horizon=32).phase_entropy(np.arange(32)[:, None]) == pytest.approx(1.0)


def test_images_have_no_observation_scale() -> None:
    metrics = rollout_metrics(rollout([[1]], [[0]], observations=np.ones((1, 1, 3, 8, 8))), EpisodeTracker())
    assert "observation_scale" not in metrics


def test_metrics_of_minibatches() -> None:
    log = UpdateLog()
    for shift in (0.0, math.log(2.0)):
        log.new_epoch()
        log.add(
            log_prob=np.full(4, shift), old_log_prob=np.zeros(4), values=np.array([1.0, 1, 1, 1]),
            returns=np.array([0.0, 1, 2, 3]), entropy=np.array([0.5, 0.7]), advantages=np.array([1.0, -1, 1, -1]),
        )  # fmt: skip
    metrics = log.metrics(clip_range=0.2)
    assert metrics["gradient_steps"] == 2
    assert metrics["value_loss"] == 1.5
    assert metrics["entropy"] == pytest.approx(0.6)
    assert metrics["approx_kl_epochs"] == pytest.approx([0.0, 1 - math.log(2.0)])
    assert metrics["approx_kl"] == pytest.approx((1 - math.log(2.0)) / 2)
    assert metrics["clip_fraction"] == 0.5
    assert metrics["ratio_ess_epochs"] == pytest.approx([1.0, 1.0])
    assert log.policy_loss(0.2, normalize=False) == pytest.approx((0 + (-1.2 + 2) / 2) / 2)


def test_an_update_without_minibatches_has_no_metrics() -> None:
    assert UpdateLog().metrics(0.2) == {}
    assert UpdateLog().policy_loss(0.2, normalize=True) is None


def test_every_minibatch_counts_the_same_whatever_its_size() -> None:
    log = UpdateLog()
    log.new_epoch()
    for size, shift in ((4, 0.0), (1, 1.0)):
        log.add(
            log_prob=np.full(size, shift), old_log_prob=np.zeros(size), values=np.zeros(size), returns=np.ones(size)
        )
    metrics = log.metrics(clip_range=0.2)
    assert metrics["approx_kl"] == pytest.approx((math.e - 2) / 2)
    assert metrics["clip_fraction"] == 0.5
    assert metrics["ratio_ess"] == pytest.approx(1.0)
    assert metrics["value_loss"] == 1.0


def test_what_is_not_finite_is_not_hidden() -> None:
    log = UpdateLog()
    values = np.array([1.0, math.nan])
    log.add(log_prob=values, old_log_prob=np.zeros(2), values=values, returns=np.zeros(2))
    metrics = log.metrics(clip_range=0.2)
    assert math.isnan(metrics["value_loss"])
    assert math.isnan(metrics["approx_kl"])
