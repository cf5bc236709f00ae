"""The recorder: rows, findings, the schedule of measurements, and errors that never reach the user's training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rollshape.integrations import recorder as module
from rollshape.integrations.description import describe
from rollshape.integrations.findings import REPEATS, Findings
from rollshape.integrations.recorder import SHARE, Recorder, Schedule
from rollshape.integrations.rollout import RecordedRollout

CONFIG = {"n_envs": 4, "n_steps": 32, "batch_size": 64, "n_epochs": 5, "n_timesteps": 1280}
DESCRIPTION = describe(CONFIG, "sb3", env="CartPole-v1")


def rollout() -> RecordedRollout:
    ones = np.ones((32, 4))
    return RecordedRollout(rewards=ones, values=ones, advantages=ones, returns=ones * 2, ended=ones > 1)


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]


def test_a_row_per_update(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run")
    recorder.start(DESCRIPTION)
    for _ in range(2):
        recorder.rollout(rollout())
        recorder.log.add(log_prob=np.zeros(4), old_log_prob=np.zeros(4))
        recorder.update({"policy_loss": 0.5, "learning_rate": None})
    recorder.end()
    written = rows(tmp_path / "run")
    assert [(row["update"], row["timesteps"]) for row in written] == [(1, 128), (2, 256)]
    assert written[0]["policy_loss"] == 0.5
    assert written[0]["approx_kl"] == 0.0
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "done"


def test_the_first_error_is_a_warning_and_ends_the_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(tmp_path / "run")
    recorder.call(recorder.start, DESCRIPTION)
    monkeypatch.setattr(module, "rollout_metrics", lambda *_: 1 / 0)
    with pytest.warns(RuntimeWarning, match="stopped recording .*ZeroDivisionError"):
        recorder.call(recorder.rollout, rollout())
    recorder.call(recorder.rollout, rollout())  # nothing more happens
    recorder.end()
    document = json.loads((tmp_path / "run" / "run.json").read_text())
    assert document["status"] == "interrupted"
    assert "ZeroDivisionError" in document["notes"][0]


def test_where_warnings_are_errors_the_warning_is_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorder = Recorder(tmp_path / "run")
    recorder.call(recorder.update)  # pytest turns warnings into errors
    recorder.call(lambda: 1 / 0)
    assert "stopped recording" in capsys.readouterr().err


def test_a_directory_that_holds_a_run_is_not_touched(tmp_path: Path) -> None:
    for number in range(2):
        recorder = Recorder(tmp_path / "run")
        if number == 0:
            recorder.start(DESCRIPTION)
        else:
            with pytest.warns(RuntimeWarning, match="recording in .*run-2"):
                recorder.start(DESCRIPTION)
        recorder.end()
    assert (tmp_path / "run-2" / "run.json").exists()


def test_a_measurement_that_fails_does_not_end_the_recording(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run", every=1)
    recorder.start(DESCRIPTION)

    def subject() -> Any:
        raise ValueError("no policy")

    with pytest.warns(RuntimeWarning, match="does not measure"):
        recorder.rollout(rollout(), subject)
    recorder.update()
    recorder.rollout(rollout(), subject)
    recorder.update()
    recorder.end()
    assert len(rows(tmp_path / "run")) == 2


def test_measurements_take_at_most_their_share_of_the_time() -> None:
    schedule, elapsed, measured = Schedule(), 0.0, 0
    for update in range(1, 2000):
        elapsed += 0.1
        if schedule.is_due(update, elapsed):
            schedule.add(0.07)
            elapsed += 0.07
            measured += 1
    assert measured > 50
    assert schedule.spent <= SHARE * elapsed + 1e-9
    assert [update for update in range(1, 9) if Schedule(3).is_due(update, 0.0)] == [1, 4, 7]
    assert not Schedule(0).is_due(1, 100.0)
    assert not Schedule().is_due(9, 100.0, is_slow=True)


def test_each_finding_is_reported_once() -> None:
    findings = Findings(DESCRIPTION.plan)
    row = {"approx_kl_epochs": [0.1, 0.5], "clip_fraction": 0.7}
    lines = [findings.check(row) for _ in range(3 * REPEATS)]
    texts = [line for line in lines if line is not None]
    assert len(texts) == 2
    assert texts[0] == "KL divergence 0.5 in epoch 2: use fewer epochs, a lower learning rate or target_kl"
    assert "70% of the samples are clipped" in texts[1]


def test_environments_that_reset_together_are_reported() -> None:
    plan = describe({**CONFIG, "n_envs": 32, "n_steps": 8}, "sb3").plan
    row = {"reset_phase_entropy": 0.05, "episodic_length": 200.0, "timesteps": 32 * 800}
    findings = Findings(plan)
    lines = [findings.check(row, 200) for _ in range(REPEATS)]
    assert lines[:-1] == [None] * (REPEATS - 1)
    assert lines[-1] is not None
    assert lines[-1].startswith("environments reset together: 8 steps show one phase of episodes of 200 steps")
    healthy = {
        "staggered": {"reset_phase_entropy": 0.9},
        "short episodes": {"episodic_length": 20.0},
        "the first episodes": {"timesteps": 32 * 100},
    }
    for name, change in healthy.items():
        other = Findings(plan)
        assert [other.check({**row, **change}, 200) for _ in range(5)] == [None] * 5, name


def test_a_low_effective_sample_size_is_reported_from_measured_rollouts() -> None:
    findings = Findings(DESCRIPTION.plan)
    lines = [findings.check({"effective_sample_size": value}) for value in (9.0, None, 9.0, None, 9.0, 9.0)]
    assert [line is not None for line in lines] == [False, False, False, False, True, False]
    assert lines[4] is not None
    assert lines[4].startswith("effective sample size 9 of 128: the steps of an environment are strongly correlated")


def test_findings_are_lines_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for quiet, count in ((False, 1), (True, 0)):
        recorder = Recorder(tmp_path / str(quiet), quiet=quiet)
        recorder.start(DESCRIPTION)
        for _ in range(6):
            recorder.rollout(rollout())
            recorder.update({"clip_fraction": 0.9})
        recorder.end()
        assert capsys.readouterr().err.count("rollshape: 90% of the samples") == count
