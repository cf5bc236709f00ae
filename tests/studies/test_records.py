"""Runs are read back as they were written: spec, plan, rows and probes."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.reports.runs import probe_document, spec_of, write_run

from rollshape.geometry.plan import Plan
from rollshape.studies.metrics import MetricsRow
from rollshape.studies.probe_records import Measurement, ProbeRecord
from rollshape.studies.records import read_records
from rollshape.studies.store import Store
from rollshape.studies.study_file import study_from_dict
from rollshape.training.spec import Spec

RRD = {"env": "Pendulum-v1", "algo": "rrd", "total_timesteps": 4000, "learning_starts": 200}


@pytest.mark.parametrize("more", [{}, {"rollout_size": 2048, "num_envs": 1024, "gae_lambda": 0.9}, RRD])
def test_a_plan_is_read_back(more: dict[str, Any]) -> None:
    plan = Spec(**more).plan()
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


def test_a_spec_is_read_back_also_in_the_old_spelling_and_from_a_newer_version() -> None:
    spec = Spec(hidden_sizes=(8, 4), env_kwargs={"sizes": [1, 2]}, normalize_observations=True)
    values = json.loads(json.dumps(spec.to_dict()))
    assert Spec.from_dict(values) == spec
    values["normalise_observations"] = values.pop("normalize_observations")
    assert Spec.from_dict(values | {"field_of_tomorrow": 1}) == spec
    assert Spec.from_dict({}) == Spec()


def test_a_run_is_read_with_types(tmp_path: Path) -> None:
    spec = spec_of(32, seed=3)
    write_run(tmp_path / "run", spec, 100.0, approx_kl_epochs=[0.1, None], success_rate=None)
    (record,) = read_records(tmp_path)
    assert (record.spec, record.plan, record.shape) == (spec, spec.plan(), "32×64")
    assert record.final_return == pytest.approx(100, abs=20)
    assert record.values("success_rate") == record.values("no such metric") == []
    assert record.median("success_rate") is None
    assert len(record.values("eval_return")) == len(record.rows) == 20
    assert record.at_epoch("approx_kl_epochs", 0) == [0.1] * 20
    assert record.at_epoch("approx_kl_epochs", 1) == []
    assert record.late_median("timesteps", parts=5) == pytest.approx(0.9 * 2048 * 40, rel=0.05)


def test_a_row_prefers_the_return_on_fresh_episodes() -> None:
    row = {"update": 1, "timesteps": 8, "sps": 100, "episodic_return": 2.0}
    assert MetricsRow.from_dict(row).score == 2.0
    assert MetricsRow.from_dict(row | {"eval_return": 3.0}).score == 3.0


def test_probes_are_read_whole_in_part_or_with_their_error() -> None:
    probe = ProbeRecord.from_dict(probe_document({64: (1.0, 0.5)}))
    assert probe.variance == Measurement(1.0, 0.5, 2.0)
    assert probe.noise_scale == Measurement(None, 1000.0, None)
    assert probe.horizon.value == 10.0
    assert [(point.num_envs, point.num_steps, point.mse) for point in probe.surface] == [(32, 64, 1.5)]
    assert [cosine_map.num_envs for cosine_map in probe.cosine_maps()] == [2, 4]
    failed = ProbeRecord.from_dict({"update": 7, "error": "no memory"})
    assert (failed.update, failed.error, failed.surface, failed.rewards) == (7, "no memory", (), None)
    point = {"rrd_sample_size": 4, "variance": 2.0, "ci": {"variance": [1.0, 3.0]}, "bias2": 0.5, "mse": 2.5}
    episode = {"true": [1.0], "predicted": [0.5]}
    rewards = ProbeRecord.from_dict(
        {"rrd_batch_size": 16, "reward_surface": [point], "redistribution": episode}
    ).rewards
    assert rewards is not None
    assert rewards.surface[0].variance == Measurement(2.0, 1.0, 3.0)


def test_a_study_that_was_started_without_a_rule_still_opens(tmp_path: Path) -> None:
    study = study_from_dict({"claim": "More is better.", "grid": {"num_envs": [2, 4]}}, "tradeoff")
    store = Store(tmp_path)
    store.begin(study)
    event = json.loads(store.journal.read_text())
    del event["study"]["rule"]
    store.journal.write_text(json.dumps(event) + "\n")
    assert Store(tmp_path).study() == study
    store.begin(study_from_dict({**study.to_dict(), "rule": "more-envs-is-better"}, "tradeoff"))
    assert Store(tmp_path).study().rule == "more-envs-is-better"
