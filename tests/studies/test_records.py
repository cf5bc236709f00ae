"""Runs are read back as they were written: spec, plan, rows and probes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.reports.runs import probe_document, spec_of, write_run

from rollshape.checksums import seal
from rollshape.geometry.plan import Plan
from rollshape.gradients.intervals import Estimate
from rollshape.probes.quantities.redistribution import Redistribution
from rollshape.probes.quantities.reward_gradient import RewardGradient
from rollshape.probes.result import Probe
from rollshape.probes.rewards import RewardProbe
from rollshape.studies.metrics import MetricsRow
from rollshape.studies.probe_records import FailedProbe, read_probe
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


def test_probes_are_read_whole_or_with_their_error() -> None:
    document = probe_document({64: (1.0, 0.5)})
    del document["run_dir"]  # as in a study
    probe = read_probe(document)
    assert isinstance(probe, Probe)
    assert probe.variance.total == Estimate(1.0, 0.5, 2.0)
    scale = probe.noise_scale.clustered
    assert (scale.value, scale.low, scale.high) == (None, 1000.0, None)
    assert probe.horizon.value == 10.0
    assert [(point.num_envs, point.num_steps, point.mse.value) for point in probe.surface] == [(32, 64, 1.5)]
    assert [cosine_map.num_envs for cosine_map in probe.cosine_maps or ()] == [2, 4]
    assert read_probe({"update": 7, "error": "no memory"}) == FailedProbe(7, "no memory")


def test_a_reward_probe_is_read() -> None:
    estimates = {"variance": Estimate(2.0, 1.0, 3.0), "bias2": Estimate(0.5, 0.4, 0.6)}
    surface = [RewardGradient(4, 4, **estimates, squared_norm=Estimate(1.0, 0.5, 2.0))]
    episode = Redistribution(np.ones(1, np.float32), np.ones(1, np.float32), None)
    written = RewardProbe("RUN_DIR", 7, 700, "rollshape probe RUN_DIR", 16, 4, False, 10, 0, surface, episode)
    probe = read_probe(written.to_dict())
    assert isinstance(probe, RewardProbe)
    assert probe.surface == surface
    assert probe.surface[0].mse == 2.5


def test_a_probe_that_cannot_be_read_is_a_failed_probe(tmp_path: Path) -> None:
    older = probe_document({64: (1.0, 0.5)})
    del older["horizon"]
    run = write_run(tmp_path / "run", spec_of(32), 100.0)
    changed = seal(older) | {"update": 21}
    texts = [json.dumps(seal(older)), json.dumps(seal(older | {"horizon": 3})), json.dumps(changed), '{"up', "[]"]
    for update, text in enumerate(texts, start=1):
        (run / "probes" / str(update)).mkdir(parents=True)
        (run / "probes" / str(update) / "probe.json").write_text(text)
    (record,) = read_records(run)
    assert record.measured_probes() == []
    reasons = ["probe.json: horizon is missing", "horizon has another layout", *["changed after it was written"] * 3]
    for probe, update, reason in zip(record.probes.values(), [20, 20, None, None, None], reasons, strict=True):
        assert isinstance(probe, FailedProbe)
        assert probe.update == update
        assert reason in probe.error
        assert "`rollshape probe`" in probe.error


def test_a_study_that_was_started_without_a_rule_still_opens(tmp_path: Path) -> None:
    study = study_from_dict({"claim": "More is better.", "grid": {"num_envs": [2, 4]}}, "tradeoff")
    store = Store(tmp_path)
    store.begin(study)
    event = json.loads(store.journal.path.read_text())
    del event["study"]["rule"]
    store.journal.path.write_text(json.dumps(seal(event)) + "\n")
    assert Store(tmp_path).study() == study
    store.begin(study_from_dict({**study.to_dict(), "rule": "more-envs-is-better"}, "tradeoff"))
    assert Store(tmp_path).study().rule == "more-envs-is-better"
